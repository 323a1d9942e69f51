"""Which pieces of a pretrained encoder's tokeniser belong to which words.

The tokeniser reads a sentence as text, as it was trained to, and says which characters each piece covers; a word's
pieces are those that cover one of its characters. So this holds for every fast tokeniser: byte-level BPE, WordPiece,
and the Unigram models of SentencePiece.

Shapes: n words, w windows, p pieces of all windows, k pairs of a word and one of its pieces.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise, repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from structviews.errors import InputError
from structviews.runtime.arrays import Array, starts_of

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

# To be increased with each change of what follows that changes which pieces a word has.
VERSION = 1
# How treebanks write brackets and quotes.
SIGNS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}
# What English tokenisers cut off the end of a word: there is no space before it.
CONTRACTED = {f"{mark}{ending}" for mark in "'’" for ending in ("s", "m", "d", "re", "ve", "ll")} | {"n't", "n’t"}
# SentencePiece's mark of a space, which as a piece of its own belongs to no word.
SPACE = "▁"


@lru_cache(2**20)
def spelling(word: str) -> str:
    """A word as it stands in a text, with the space before it."""
    return word if word.lower() in CONTRACTED else f" {SIGNS.get(word, word)}"


def as_texts(sentences: Sequence[Sequence[str]]) -> list[str]:
    """Sentences as texts, as tokenisers read them."""
    spelt = list(map(spelling, chain.from_iterable(sentences)))
    return texts_of(spelt, np.fromiter(map(len, sentences), np.int64, len(sentences)))[0]


class Pieces(NamedTuple):
    """What an encoder reads, with the pieces that its tokeniser adds, and which of its states are whose."""

    ids: Array  # (p,), one window after the other
    lengths: Array  # (w,), number of pieces of each window
    indices: Array  # (k,), index in ids of each word's pieces, word by word; a piece of two words is there twice
    starts: Array  # (n,), where those of each word start in indices; every word has one


class SentencePieces(NamedTuple):
    """What an encoder reads of sentences, of each as much as it reads at once, with the pieces that are added."""

    ids: Array  # (p,), one sentence after the other
    lengths: Array  # (B,), number of pieces of each sentence


class Aligner:
    """Turns sentences into the pieces of a tokeniser.

    A word for which the tokeniser has no piece, such as a control character, is replaced by ``unknown``. A sentence
    with more pieces than the ``longest`` that the encoder reads, with those that are added, is cut into windows that
    overlap by half, and each of its pieces is read in the window in which it is farther from the cut.
    """

    def __init__(self, tokeniser: "Tokenizer", longest: int, unknown: str):
        # A copy, since it is configured once and then read by several threads.
        self._tokeniser = type(tokeniser).from_str(tokeniser.to_str())
        self.longest = longest
        self._overlap = (longest - tokeniser.num_special_tokens_to_add(is_pair=False)) // 2
        self._tokeniser.enable_truncation(longest, stride=self._overlap)
        self._tokeniser.no_padding()
        self._unknown = f" {unknown}"
        self._space = tokeniser.token_to_id(SPACE)

    def align(self, sentences: Sequence[Sequence[str]]) -> Pieces:
        """The pieces of sentences, and which words they belong to."""
        spelt = list(map(spelling, chain.from_iterable(sentences)))
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        pieces, missing = self._pieces(spelt, lengths)
        if len(missing):
            for index in missing.tolist():
                spelt[index] = self._unknown
            pieces, missing = self._pieces(spelt, lengths)
        if len(missing):
            raise InputError(f"the encoder's tokeniser has no piece for {self._unknown[1:]!r}: choose another encoder")
        return pieces

    def read(self, sentences: Sequence[Sequence[str]]) -> SentencePieces:
        """The pieces of sentences; what is longer than the encoder reads is cut off, as sentence-transformers does."""
        encodings = self._tokeniser.encode_batch(as_texts(sentences))
        encodings = [each if len(each) else self._tokeniser.encode(self._unknown[1:]) for each in encodings]
        lengths = np.fromiter(map(len, encodings), np.int64, len(encodings))
        return SentencePieces(_joined((each.ids for each in encodings), lengths.sum()), lengths)

    def _pieces(self, spelt: list[str], lengths: Array) -> tuple[Pieces, Array]:
        """The pieces of words, and the numbers of the words that have none."""
        texts, text_starts, word_starts, word_ends = texts_of(spelt, lengths)
        encodings = self._tokeniser.encode_batch(texts)
        counts = np.fromiter((1 + len(each.overflowing) for each in encodings), np.int64, len(encodings))
        windows = [window for each in encodings for window in (each, *each.overflowing)]
        sizes = np.fromiter(map(len, windows), np.int64, len(windows))
        ids = _joined((window.ids for window in windows), sizes.sum())
        spans = _joined((chain.from_iterable(window.offsets) for window in windows), 2 * sizes.sum()).reshape(-1, 2)
        read = np.flatnonzero(self._read(windows, sizes, counts) & (ids != self._space) & (spans[:, 0] < spans[:, 1]))
        bases = np.repeat(np.repeat(text_starts, counts), sizes)[read]
        first = np.searchsorted(word_ends, bases + spans[read, 0], "right")
        last = np.searchsorted(word_starts, bases + spans[read, 1], "left")
        shared = np.maximum(last - first, 0)
        words = np.repeat(first, shared) + np.arange(shared.sum()) - np.repeat(starts_of(shared), shared)
        order = np.argsort(words, kind="stable")
        per_word = np.bincount(words, minlength=len(spelt))
        pieces = Pieces(ids, sizes, np.repeat(read, shared)[order], starts_of(per_word))
        return pieces, np.flatnonzero(per_word == 0)

    def _read(self, windows: Sequence["Encoding"], sizes: Array, counts: Array) -> Array:
        """Which pieces are read in their window: none that was added, and of the overlap the half farther from the cut.

        There are ``sizes (w,)`` pieces in each window, and ``counts (B,)`` windows of each sentence.
        """
        own = _joined((window.special_tokens_mask for window in windows), sizes.sum()) == 0
        ranks = np.cumsum(own) - own
        bounds = np.append(ranks, own.sum())[np.append(starts_of(sizes), sizes.sum())]
        begins, ends = bounds[:-1].copy(), bounds[1:].copy()
        last = np.cumsum(counts) - 1
        is_first, is_last = np.zeros(len(sizes), bool), np.zeros(len(sizes), bool)
        is_first[last - counts + 1] = is_last[last] = True
        begins += np.where(is_first, 0, (self._overlap + 1) // 2)
        ends -= np.where(is_last, 0, self._overlap // 2)
        return own & (ranks >= np.repeat(begins, sizes)) & (ranks < np.repeat(ends, sizes))


def texts_of(spelt: Sequence[str], lengths: Array) -> tuple[list[str], Array, Array, Array]:
    """Sentences of ``lengths (B,)`` words as texts; each word is spelt with the space before it, if there is one.

    Also where in the concatenation each text begins ``(B,)``, and each word begins and ends ``(n,)``.
    """
    sizes = np.fromiter(map(len, spelt), np.int64, len(spelt))
    spaces = np.fromiter(map(str.startswith, spelt, repeat(" ")), np.int64, len(spelt))
    firsts = starts_of(lengths)
    sizes[firsts] -= spaces[firsts]
    spaces[firsts] = 0
    ends = np.cumsum(sizes)
    starts = ends - sizes + spaces
    bounds = [*firsts.tolist(), len(spelt)]
    texts = ["".join(spelt[a:b]).removeprefix(" ") for a, b in pairwise(bounds)]
    return texts, starts[firsts], starts, ends


def _joined(lists: Iterable[Iterable[int]], size: int) -> Array:
    return np.fromiter(chain.from_iterable(lists), np.int64, size)
