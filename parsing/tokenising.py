"""Split raw text into sentences, and sentences into words.

Words are those of the language's rules: our own for English, and spaCy's for others. The English rules are spaCy's as
data (``models/english/rules.json``, which ``scripts/tokeniser_rules.py`` writes). They give the words of
``spacy.blank("en")`` without spaCy, which takes a second to import.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import TypedDict

from structviews.errors import InputError
from structviews.runtime.documents import read_json
from structviews.runtime.wording import reason

RULES = Path(__file__).parent / "models" / "english" / "rules.json"
ENGLISH = "en"
# The tokens of whitespace-separated strings, by language, and how many of these there may be: tens of megabytes.
REMEMBERED: defaultdict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
REMEMBERED_PIECES = 1 << 17
# The time of the rules grows with the square of a row of marks and of a string without white space. A drawn line of
# so many marks is a word, and so is such a string, if most of it is ASCII: some scripts have no white space.
LEAST_MARKS = 200
MARKS, STRINGS = re.compile(rf"[^\w\s]{{{LEAST_MARKS},}}"), re.compile(r"\S{2000,}")
# Between words one space is no token; other white space is one.
CHUNK = re.compile(r"\S+|\s+")
# The mark that closes a quotation in one language may open it in another: „so“, “so”, »so«, «so».
CLOSING = "'\")]’”“»«›‹"
OPENING = "'\"([‘“„‚«»‹›¿¡"
# What ends a sentence in any script; the list is that of spaCy's sentencizer (MIT licence, models/english/LICENSE).
ENDS = frozenset(
    "!.?։؟۔܀܁܂߹।॥၊။።፧፨᙮᜵᜶᠃᠉᥄᥅᪨᪩᪪᪫᭚᭛᭞᭟᰻᰼᱾᱿‼‽⁇⁈⁉⸮⸼꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱꯫﹒﹖﹗！．？𐩖𐩗𑁇𑁈𑂾𑂿𑃀𑃁𑅁𑅂𑅃𑇅𑇆𑇍𑇞𑇟𑈸𑈹𑈻𑈼𑊩"
    "𑑋𑑌𑗂𑗃𑗉𑗊𑗋𑗌𑗍𑗎𑗏𑗐𑗑𑗒𑗓𑗔𑗕𑗖𑗗𑙁𑙂𑜼𑜽𑜾𑩂𑩃𑪛𑪜𑱁𑱂𖩮𖩯𖫵𖬷𖬸𖭄𛲟𝪈｡。"
)

# Start and end of a token in its text.
Span = tuple[int, int]


class RulesFile(TypedDict):
    """The content of ``rules.json``: the rules of a version of spaCy.

    ``prefix`` and ``suffix`` are cut off a string as often as they are there, and ``infix`` cuts the rest, unless that
    matches ``url``. ``special`` strings have tokens of their own; where other rules would ``split`` one of them, these
    tokens are replaced by its own.
    """

    source: str
    version: str
    prefix: str
    suffix: str
    infix: str
    url: str
    special: dict[str, list[str]]
    split: dict[str, list[str]]


class EnglishRules:
    """spaCy's rules for English, whose ``name`` and ``version`` manifests and runs record.

    ``by_string`` says whether strings between white space do not influence one another.
    """

    name = "English rules of spaCy"
    by_string = True

    def __init__(self) -> None:
        rules: RulesFile = read_json(RULES, RulesFile, "install structviews again")
        self.version = rules["version"]
        self._special = rules["special"]
        self._prefix = re.compile(rules["prefix"]).search
        self._suffix = re.compile(rules["suffix"]).search
        # Compiled by the first string that they are needed for, which takes 30 ms.
        self._infix, self._url = rules["infix"], rules["url"]
        self._split: dict[str, set[tuple[str, ...]]] = {}
        for first, *others in rules["split"].values():
            self._split.setdefault(first, set()).add((first, *others))

    def spans(self, texts: Iterable[str]) -> list[list[Span]]:
        """Start and end of the tokens of each text, in order; some may be white space."""
        found = []
        for text in texts:
            if text.isascii() and text.isalpha() and text not in self._special:
                found.append([(0, len(text))])
                continue
            spans: list[Span] = []
            for chunk in CHUNK.finditer(text):
                start, end = chunk.span()
                start += start > 0 and text[start] == " "
                tokens = self._tokens(text[start:end]) if start < end else []
                spans += pairwise(accumulate(map(len, tokens), initial=start))
            words = [text[start:end] for start, end in spans]
            matches = [
                (first, first + len(split))
                for first, word in enumerate(words)
                for split in self._split.get(word, ())
                if split == tuple(words[first : first + len(split)])
            ]
            found.append(self._with_special(text, spans, matches) if matches else spans)
        return found

    def _tokens(self, string: str) -> list[str]:
        """The tokens of a string without white space, or of white space only."""
        before: list[str] = []
        after: list[str] = []
        # No pattern matches inside a string of the letters a to z.
        while string and string not in self._special and not (string.isascii() and string.isalpha()):
            match = self._prefix(string)
            prefix, suffix = match[0] if match else "", ""
            rest = string[len(prefix) :]
            if not (prefix and rest in self._special):
                match = self._suffix(rest)
                suffix = match[0] if match else ""
                if suffix and string[: -len(suffix)] in self._special:
                    prefix = ""
            if not prefix and not suffix:
                if not re.match(self._url, string):
                    cuts = [cut for found in re.finditer(self._infix, string) for cut in found.span()]
                    before += (string[i:j] for i, j in pairwise([0, *cuts, len(string)]) if i < j)
                    string = ""
                break
            before += [prefix] * bool(prefix)
            after += [suffix] * bool(suffix)
            string = string[len(prefix) : len(string) - len(suffix)]
        return [*before, *self._special.get(string, [string] * bool(string)), *reversed(after)]

    def _with_special(self, text: str, spans: list[Span], matches: list[tuple[int, int]]) -> list[Span]:
        """The tokens of a text, with those of special strings in place of what they were split into.

        ``matches`` are the first of such tokens and that after the last. Of matches that overlap, the longest or else
        the first one counts; those that do not count block others too.
        """
        taken: set[int] = set()
        chosen = []
        for first, after in sorted(matches, key=lambda match: (match[0] - match[1], match[0])):
            if first not in taken and after - 1 not in taken:
                chosen.append((first, after))
            taken.update(range(first, after))
        for first, after in sorted(chosen, reverse=True):
            start, end = spans[first][0], spans[after - 1][1]
            if special := self._special.get(text[start:end]):
                spans[first:after] = pairwise(accumulate(map(len, special), initial=start))
        return spans


class SpacyRules:
    """As ``EnglishRules``, for any language, without a model; InputError where spaCy or its rules are missing."""

    def __init__(self, language: str) -> None:
        try:
            import spacy  # noqa: PLC0415 - slow to import, and not needed for English
            from spacy.tokenizer import Tokenizer  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise InputError(
                f"--lang {language}: spaCy splits this language into words, but {error.name} is not installed: "
                "pip install 'structviews[spacy]', or give tokenised text with --tokenised"
            ) from None
        try:
            # stanza distinguishes scripts (zh-hans), spaCy does not.
            self._nlp = spacy.blank(language.partition("-")[0])
        except ImportError as error:
            raise InputError(
                f"--lang {language}: spaCy has no tokeniser for this language ({reason(error)}): give tokenised text "
                "with --tokenised, or choose a --parser that has a tokeniser"
            ) from None
        self.name = f"spacy.blank({self._nlp.lang!r})"
        self.version = spacy.__version__
        self.by_string = isinstance(self._nlp.tokenizer, Tokenizer)

    def spans(self, texts: Iterable[str]) -> list[list[Span]]:
        # Outside a memory zone spaCy keeps every word that it has seen; inside one it does not cache tokenised strings.
        with self._nlp.memory_zone():
            return [[(t.idx, t.idx + len(t)) for t in self._nlp.make_doc(text)] for text in texts]


@cache
def rules(language: str) -> EnglishRules | SpacyRules:
    """The rules for a language; InputError if there are none here."""
    return EnglishRules() if language.partition("-")[0] == ENGLISH else SpacyRules(language)


def tokenise_all(texts: Iterable[str], language: str) -> list[tuple[str, ...]]:
    """The words of many sentences by the rules for their language.

    Most tokenisers treat each whitespace-separated string independently; others need whole sentences.
    """
    by_string = rules(language).by_string
    sentences = [text.split() if by_string else [text] for text in texts]
    remembered = REMEMBERED[language] if by_string else {}
    if len(remembered) > REMEMBERED_PIECES:  # another thread may still read the old ones
        remembered = REMEMBERED[language] = {}
    # Not the difference of sets, which goes through all remembered ones, for a single sentence too.
    new = [piece for piece in set(chain.from_iterable(sentences)) if piece not in remembered]
    for piece, spans in zip(new, rules(language).spans(map(as_words, new)), strict=True):
        words = [piece[start:end] for start, end in spans]
        remembered[piece] = tuple(word for word in words if not word.isspace())
    return [tuple(chain.from_iterable(map(remembered.__getitem__, pieces))) for pieces in sentences]


def as_words(text: str) -> str:
    """The text with a word of the same length in place of what is only a word; see ``MARKS``."""
    if len(text) < LEAST_MARKS:
        return text
    text = MARKS.sub(lambda found: "x" * len(found[0]), text)

    def word(found: re.Match[str]) -> str:
        is_ascii = 2 * len(found[0].encode("ascii", "ignore")) > len(found[0])
        return "x" * len(found[0]) if is_ascii else found[0]

    return STRINGS.sub(word, text)


def split_sentences(text: str, tokenised: bool, language: str) -> list[Span]:
    """Sentences of a text as (start, end) offsets, without surrounding white space.

    Applies spaCy's sentence rules and two of our own for dialogue: an opening quotation mark or bracket belongs to the
    sentence that follows it, and a lower-case word after a closing one continues the sentence (``"Why?" she said.``).
    """
    read = text if tokenised else as_words(text)
    spans = [found.span() for found in re.finditer(r"\S+", text)] if tokenised else rules(language).spans([read])[0]
    words: list[tuple[str, int, int]] = []  # text, start and end
    firsts = []  # the first word of each sentence
    begins = False
    for (start, end), starts in zip(spans, sentence_starts([read[start:end] for start, end in spans]), strict=True):
        begins |= starts
        word = text[start:end]
        if word.isspace():  # a sentence may start with white space
            continue
        first = len(words)
        words.append((word, start, end))
        if first == 0 or (begins and not (word[0].islower() and words[first - 1][0] in CLOSING)):
            # An opening mark is attached to the next word and not to the previous one.
            while first > 1 and words[first - 1][0] in OPENING:
                if words[first - 1][2] != words[first][1] or words[first - 2][2] == words[first - 1][1]:
                    break
                first -= 1
            firsts.append(first)
        begins = False
    return [(words[first][1], words[after - 1][2]) for first, after in pairwise([*firsts, len(words)]) if first < after]


def sentence_starts(tokens: Sequence[str]) -> Iterator[bool]:
    """Whether each token starts a sentence by spaCy's rules: the first, and one after an end and its marks."""
    ended = False
    for i, token in enumerate(tokens):
        ends = token in ENDS
        starts = ended and not ends and not all(unicodedata.category(character)[0] == "P" for character in token)
        ended = ends or (ended and not starts)
        yield starts or i == 0
