"""Vocabularies, that is words and their ids; word counts of a corpus, and the word weights that follow from them.

Shapes: V word types; index 0 of every array of theirs is for unknown words.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
import pyarrow.compute as pc

from structviews.corpus.parsed_corpus import ParsedCorpus

if TYPE_CHECKING:
    from torch import Tensor

Numbers = TypeVar("Numbers", np.ndarray, "Tensor")
UNKNOWN = "<unk>"
SIF_A = 1e-3
"""The ``a`` of a / (a + p(w)), as in the code of Arora et al. 2017."""


def count_words(corpus: ParsedCorpus, uncased: bool = False) -> Counter[str]:
    """The frequency of each word of a parsed corpus, lower-cased on request, in order of first appearance by shard."""
    counts: Counter[str] = Counter()
    for i in range(corpus.n_shards):
        for chunk in corpus.shard(i)["tokens"].chunks:
            values = chunk.flatten()
            found = np.bincount(values.indices.to_numpy(), minlength=len(values.dictionary))
            for word, count in zip(spelt(values.dictionary.to_pylist(), uncased), found.tolist(), strict=True):
                counts[word] += count
    return counts


def spelt(words: Iterable[str], uncased: bool) -> Iterable[str]:
    """Words as they are looked up: lower-cased where case does not count."""
    return map(str.lower, words) if uncased else words


class Vocabulary:
    """The most frequent words of a corpus in the order of their ids; ``<unk>``, the first, is for unknown words.

    Their frequencies are ``counts (words,)``, if known, that of ``<unk>`` covering all other words. Where case does not
    count, all are in lower case and looked up so.
    """

    def __init__(self, words: Sequence[str], counts: np.ndarray | None = None, uncased: bool = False):
        if not words or words[0] != UNKNOWN:
            raise ValueError(f"a vocabulary must start with {UNKNOWN}, not {words[0] if words else 'nothing'!r}")
        self.words = list(words)
        self.counts = counts
        self.uncased = uncased
        self._ids = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, words: Iterable[str]) -> np.ndarray:
        """Ids ``(n,)``, int64, of words; 0 for unknown ones."""
        return np.fromiter(map(self._ids.get, spelt(words, self.uncased), repeat(0)), np.int64)

    def look_up(self, sentences: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray | None]:
        """Ids ``(n,)`` of the words of a batch, int64, and no vectors.

        A subclass may number words beyond the vocabulary from ``len`` on, and return their vectors ``(further, d)``.
        """
        return self.ids(chain.from_iterable(sentences)), None

    @classmethod
    def of_corpus(cls, corpus: ParsedCorpus, size: int | None = None, uncased: bool = False) -> Self:
        """The ``size`` most frequent words of a parsed corpus, or all; ties are broken alphabetically."""
        counts = count_words(corpus, uncased)
        total = counts.total()
        counts.pop(UNKNOWN, None)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:size]
        frequencies = np.array([count for _, count in ranked], dtype=np.int64)
        frequencies = np.concatenate([[total - frequencies.sum()], frequencies])
        return cls([UNKNOWN, *(word for word, _ in ranked)], frequencies, uncased)

    def extended(self, other: "Vocabulary") -> "Vocabulary":
        """This vocabulary, ids unchanged, followed by the new words of ``other``; counts are those of ``other``."""
        own = set(self.words)
        words = [*self.words, *(word for word in other.words if word not in own)]
        if other.counts is None:
            return Vocabulary(words, uncased=self.uncased)
        counts = dict(zip(other.words, other.counts.tolist(), strict=True))
        return Vocabulary(words, np.array([counts.get(word, 0) for word in words], dtype=np.int64), self.uncased)


@dataclass(frozen=True)
class WordStatistics:
    """Of all words of a corpus, in alphabetical order: occurrences ``(V + 1,)``, and the sentences that have each."""

    vocabulary: Vocabulary
    counts: np.ndarray
    sentences: np.ndarray
    n_sentences: int

    @classmethod
    def of_corpus(cls, corpus: ParsedCorpus, uncased: bool = False) -> Self:
        """Count the words of a corpus, lower-cased if case does not count, shard by shard."""
        counts, sentences = Counter[str](), Counter[str]()
        for i in range(corpus.n_shards):
            for lists in corpus.shard(i)["tokens"].chunks:
                values, lengths = lists.flatten(), pc.list_value_length(lists).to_numpy()
                spellings = np.array([*spelt(values.dictionary.to_pylist(), uncased)], dtype=object)
                forms, form_of = np.unique(spellings, return_inverse=True)
                ids, n_words = form_of[values.indices.to_numpy()], len(forms)
                # One number per (sentence, word) pair, so a word repeated in a sentence counts once.
                pairs = np.unique(np.repeat(np.arange(len(lengths)), lengths) * n_words + ids)
                for counter, found in ((counts, ids), (sentences, pairs % max(n_words, 1))):
                    numbers = np.bincount(found, minlength=n_words)
                    counter.update(dict(zip(forms.tolist(), numbers.tolist(), strict=True)))
        words = sorted(counts.keys() - {UNKNOWN})
        occurrences, spread = (np.array([0, *(counter[word] for word in words)]) for counter in (counts, sentences))
        return cls(Vocabulary([UNKNOWN, *words], uncased=uncased), occurrences, spread, len(corpus))

    @property
    def probabilities(self) -> np.ndarray:
        """Relative frequency ``(V + 1,)`` of each word; 0 for unknown words."""
        return self.counts / max(self.counts.sum(), 1)


def equal_weights(words: WordStatistics) -> np.ndarray:
    """1 for every word."""
    return np.ones(len(words.counts))


def inverse_document_frequencies(words: WordStatistics) -> np.ndarray:
    """ln((1 + N) / (1 + n(w))), where n(w) of N sentences contain w; the mean over tokens supplies the tf part."""
    return np.log((1 + words.n_sentences) / (1 + words.sentences))


def smooth_inverse(probabilities: Numbers) -> Numbers:
    """a / (a + p(w)) (SIF; Arora et al. 2017, algorithm 1)."""
    return SIF_A / (SIF_A + probabilities)


def unsupervised_inverse_frequencies(words: WordStatistics) -> np.ndarray:
    """a / (a/2 + p(w)), with no constant to tune (uSIF; Ethayarajh 2018, section 3.2).

    A random walk of n steps (n is the mean sentence length) meets a given word with probability
    1 - (1 - 1/V)^n. alpha is the share of words more probable than this, Z = V/2 is the partition function of the
    walk under angular distance, and a = (1 - alpha) / (alpha Z).
    """
    p, n_words = words.probabilities, len(words.counts) - 1
    steps = words.counts.sum() / max(words.n_sentences, 1)
    alpha = np.count_nonzero(p[1:] > 1 - (1 - 1 / n_words) ** steps) / n_words
    # If no word is that probable, a is infinite and all weights are equal.
    return 1 / (1 / 2 + p * alpha * (n_words / 2) / (1 - alpha))
