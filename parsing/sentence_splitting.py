"""Split running text into sentences."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from structviews.parsing.tokenising import places_in

# The mark that closes a quotation in one language may open it in another: „so“, “so”, »so«, «so».
CLOSING = "'\")]’”“»«›‹"
OPENING = "'\"([‘“„‚«»‹›¿¡"
# What ends a sentence in any script; the list is that of spaCy's sentencizer (MIT licence, models/english/LICENSE).
ENDS = frozenset(
    "!.?։؟۔܀܁܂߹।॥၊။።፧፨᙮᜵᜶᠃᠉᥄᥅᪨᪩᪪᪫᭚᭛᭞᭟᰻᰼᱾᱿‼‽⁇⁈⁉⸮⸼꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱꯫﹒﹖﹗！．？𐩖𐩗𑁇𑁈𑂾𑂿𑃀𑃁𑅁𑅂𑅃𑇅𑇆𑇍𑇞𑇟𑈸𑈹𑈻𑈼𑊩"
    "𑑋𑑌𑗂𑗃𑗉𑗊𑗋𑗌𑗍𑗎𑗏𑗐𑗑𑗒𑗓𑗔𑗕𑗖𑗗𑙁𑙂𑜼𑜽𑜾𑩂𑩃𑪛𑪜𑱁𑱂𖩮𖩯𖫵𖬷𖬸𖭄𛲟𝪈｡。"
)


def split_sentences(text: str, tokenised: bool, language: str) -> list[tuple[int, int]]:
    """Sentences of a text as (start, end) offsets, without surrounding white space.

    Applies spaCy's sentence rules and two of our own for dialogue: an opening quotation mark or bracket
    belongs to the sentence that follows it, and a lower-case word after a closing one continues the
    sentence (``"Why?" she said.``).
    """
    words = words_with_places(text, tokenised, language)
    marked = [i for i, word in enumerate(words) if i == 0 or (word.starts_sentence and not goes_on(words, i))]
    begins = [before_opening(words, i) for i in marked]
    ends = [*begins[1:], len(words)][: len(begins)]
    return [(words[begin].start, words[end - 1].end) for begin, end in zip(begins, ends, strict=True) if begin < end]


@dataclass(frozen=True, slots=True)
class Word:
    """A token of a text with its offsets; ``starts_sentence`` if spaCy's rules start a sentence there."""

    text: str
    start: int
    end: int
    starts_sentence: bool


def words_with_places(text: str, tokenised: bool, language: str) -> list[Word]:
    """Tokenise a text and keep the tokens' offsets; text that is already tokenised is split at white space."""
    read, places = (text, strings_in(text)) if tokenised else places_in(text, language)
    words = []
    begins = False
    for (start, end), starts in zip(places, sentence_starts([read[start:end] for start, end in places]), strict=True):
        begins |= starts
        # A sentence may start with white space.
        if not text[start:end].isspace():
            words.append(Word(text[start:end], start, end, begins))
            begins = False
    return words


def strings_in(text: str) -> list[tuple[int, int]]:
    """Offsets of the strings between white space."""
    return [found.span() for found in re.finditer(r"\S+", text)]


def sentence_starts(tokens: Sequence[str]) -> Iterator[bool]:
    """Whether each token starts a sentence by spaCy's rules: the first, and one after an end and its marks."""
    ended = False
    for i, token in enumerate(tokens):
        ends = token in ENDS
        starts = ended and not ends and not is_punctuation(token)
        ended = ends or (ended and not starts)
        yield starts or i == 0


def is_punctuation(token: str) -> bool:
    """Whether all characters are punctuation marks."""
    return all(unicodedata.category(character)[0] == "P" for character in token)


def before_opening(words: Sequence[Word], i: int) -> int:
    """Index of the first token of the sentence that starts at word ``i``, opening marks included.

    An opening mark is attached to the next word and not to the previous one.
    """
    while i > 1 and words[i - 1].text in OPENING and touches(words, i) and not touches(words, i - 1):
        i -= 1
    return i


def goes_on(words: Sequence[Word], i: int) -> bool:
    """Whether word ``i`` continues a sentence after a closing quotation mark or bracket."""
    return words[i].text[0].islower() and words[i - 1].text in CLOSING


def touches(words: Sequence[Word], i: int) -> bool:
    """Whether word ``i`` follows the previous one without white space."""
    return words[i - 1].end == words[i].start
