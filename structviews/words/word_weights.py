"""Word statistics of a corpus, and word weights derived from them.

Shapes: V word types; index 0 of every array is for unknown words.
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
import pyarrow.compute as pc

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.words.vocabulary import UNKNOWN, Vocabulary, spelt

if TYPE_CHECKING:
    from torch import Tensor

Numbers = TypeVar("Numbers", np.ndarray, "Tensor")

SIF_A = 1e-3
"""The ``a`` of a / (a + p(w)), as in the code of Arora et al. 2017."""


@dataclass(frozen=True)
class WordStatistics:
    """Word counts of a corpus.

    Attributes:
        vocabulary: all words, in alphabetical order.
        counts: ``(V + 1,)`` occurrences of each word.
        sentences: ``(V + 1,)`` number of sentences that contain each word.
        n_sentences: number of sentences in the corpus.
    """

    vocabulary: Vocabulary
    counts: np.ndarray
    sentences: np.ndarray
    n_sentences: int

    @classmethod
    def of_corpus(cls, corpus: ParsedCorpus, uncased: bool = False) -> Self:
        """Count the words of a corpus, lower-cased if case does not count, shard by shard."""
        counts: Counter[str] = Counter()
        sentences: Counter[str] = Counter()
        for i in range(corpus.n_shards):
            for lists in corpus.shard(i)["tokens"].chunks:
                values, lengths = lists.flatten(), pc.list_value_length(lists).to_numpy()
                forms = {form: i for i, form in enumerate(dict.fromkeys(spelt(values.dictionary.to_pylist(), uncased)))}
                form_of = np.array([forms[form] for form in spelt(values.dictionary.to_pylist(), uncased)], np.int64)
                ids, n_words, words = form_of[values.indices.to_numpy()], len(forms), list(forms)
                # One number per (sentence, word) pair, so a word repeated in a sentence counts once.
                pairs = np.unique(np.repeat(np.arange(len(lengths)), lengths) * n_words + ids)
                for counter, found in ((counts, ids), (sentences, pairs % max(n_words, 1))):
                    counter.update(dict(zip(words, np.bincount(found, minlength=n_words).tolist(), strict=True)))
        words = sorted(counts.keys() - {UNKNOWN})
        occurrences, spread = (np.array([0, *(counter[word] for word in words)]) for counter in (counts, sentences))
        return cls(Vocabulary([UNKNOWN, *words], uncased=uncased), occurrences, spread, len(corpus))

    @property
    def probabilities(self) -> np.ndarray:
        """``(V + 1,)`` relative frequency of each word; 0 for unknown words."""
        shares: np.ndarray = self.counts / max(self.counts.sum(), 1)
        return shares


def equal_weights(words: WordStatistics) -> np.ndarray:
    """1 for every word."""
    return np.ones(len(words.counts))


def inverse_document_frequencies(words: WordStatistics) -> np.ndarray:
    """ln((1 + N) / (1 + n(w))), where n(w) of N sentences contain w; the mean over tokens supplies the tf part."""
    return np.log((1 + words.n_sentences) / (1 + words.sentences))


def smooth_inverse_frequencies(words: WordStatistics) -> np.ndarray:
    """``smooth_inverse`` of the words' frequencies."""
    return smooth_inverse(words.probabilities)


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
