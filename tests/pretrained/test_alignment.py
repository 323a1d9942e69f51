"""Words and the pieces of four kinds of tokenisers, against a slow aligner and what the pieces decode to."""

from pathlib import Path

import numpy as np
import pytest
from tiny_encoders import KINDS, TEXT, tokeniser

from structviews.parsing.treebank import read_treebank
from structviews.pretrained.alignment import Aligner

GUM = Path(__file__).parents[3] / "shared/data/treebanks/gum"
TOKENISERS = {kind: tokeniser(kind) for kind in KINDS}
UNKNOWN = {kind: each.unk_token for kind, each in TOKENISERS.items()}
HARD = {
    "contractions": "It is n't we 'll Mary 's dogs ' ca n't do n’t he ’s",
    "a contraction first": "'s n't she",
    "brackets": "-LRB- see -LSB- 1 -RSB- and -LCB- x -RCB- -RRB-",
    "quotes": "`` it rains '' she said",
    "emoji": "good 😀 film 👩‍👩‍👧 🇨🇭 ! ❤️",
    "dropped words": "a \x00 b \u200b c \u0301 \xa0 \ufeff end \x07",
    "only dropped words": "\x00 \x07",
    "chinese": "电影 很 好看 。 龘 x",
    "special tokens": "a <s> [SEP] </s> [UNK] <unk> <mask> b",
    "changed by normalising": "ﬁne ½ Ⅷ İstanbul ß é é",
    "one": "x",
}
SENTENCES = [text.split(" ") for text in HARD.values()] + [
    ["1 1/2", "cups"],
    ["of", "the", "film"] * 40,
    list("abc") * 70,
]
LONGEST = 20


def slow_spelling(words):
    """A sentence as text, and the first and last character of each word."""
    signs = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}
    text, spans = "", []
    for word in words:
        spelt = signs.get(word, word)
        glued = word.replace("’", "'").lower() in ("n't", "'s", "'m", "'d", "'re", "'ve", "'ll")
        text += "" if not text or glued else " "
        spans.append((len(text), len(text) + len(spelt)))
        text += spelt
    return text, spans


def slow_pieces(kind, words):
    """The pieces of each word as ids, by comparing characters one word at a time; whole sentences are read."""
    reads = TOKENISERS[kind]
    while True:
        text, spans = slow_spelling(words)
        read = reads(text, add_special_tokens=False, return_offsets_mapping=True)
        pieces = [
            [
                piece
                for piece, (begin, end) in zip(read["input_ids"], read["offset_mapping"], strict=True)
                if set(range(begin, end)) & set(range(*span)) and reads.convert_ids_to_tokens(piece) != "▁"
            ]
            for span in spans
        ]
        if all(pieces):
            return pieces
        words = [word if own else UNKNOWN[kind] for word, own in zip(words, pieces, strict=True)]


def aligned(kind, sentences, longest=LONGEST):
    """Each word's pieces as ids, sentence by sentence, and what was found."""
    found = Aligner(TOKENISERS[kind].backend_tokenizer, longest, UNKNOWN[kind]).align(sentences)
    own = [each.tolist() for each in np.split(found.ids[found.indices], found.starts[1:])]
    ends = np.cumsum([len(each) for each in sentences])
    return [own[end - len(each) : end] for each, end in zip(sentences, ends, strict=True)], found


@pytest.mark.parametrize("kind", KINDS)
def test_hard_cases_as_the_slow_aligner(kind):
    own, _ = aligned(kind, SENTENCES)
    assert own == [slow_pieces(kind, words) for words in SENTENCES]


@pytest.mark.parametrize("kind", KINDS)
def test_each_piece_is_read_once_and_far_from_a_cut(kind):
    """Every piece of a long sentence in the window in which its distance to the nearer cut is largest."""
    words = " ".join(TEXT).split()
    (own,), found = aligned(kind, [words])
    assert own == slow_pieces(kind, words)
    window = np.repeat(np.arange(len(found.lengths)), found.lengths)
    inside = np.arange(len(found.ids)) - np.repeat(np.cumsum(found.lengths) - found.lengths, found.lengths)
    assert len(found.lengths) > 3
    content = LONGEST - 2
    step = content - content // 2
    for place in found.indices.tolist():
        which, rank = window[place], inside[place] - 1  # without the token that begins each window
        number = which * step + rank
        others = [other for other in range(len(found.lengths)) if 0 <= number - other * step < found.lengths[other] - 2]

        def room(other, number=number):
            left = number - other * step if other else np.inf
            right = found.lengths[other] - 3 - (number - other * step) if other < len(found.lengths) - 1 else np.inf
            return min(left, right)

        assert room(which) == max(map(room, others))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.skipif(not GUM.is_dir(), reason=f"{GUM} is not there")
def test_a_treebank_as_the_slow_aligner(kind):
    (file,) = GUM.glob("*dev*.conllu")
    sentences = [list(each.sentence.tokens) for each in read_treebank((file,))]
    own, _ = aligned(kind, sentences, 64)
    assert own == [slow_pieces(kind, words) for words in sentences]
