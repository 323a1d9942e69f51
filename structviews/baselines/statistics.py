"""How often the words of a corpus occur, and what weights follow from it.

Shapes: V different words; place 0 of every array is for the words that the corpus lacks.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow.compute as pc

from structviews.cache import ParsedCorpus
from structviews.vocabulary import UNKNOWN, Vocabulary

SIF_A = 1e-3
"""The ``a`` of a / (a + p(w)), as in the code of Arora et al. 2017."""


@dataclass(frozen=True)
class WordStatistics:
    """The words of a corpus.

    Attributes:
        vocabulary: all of them, in alphabetical order.
        counts: ``(V + 1,)`` how often each occurs.
        sentences: ``(V + 1,)`` in how many sentences each occurs.
        n_sentences: of the corpus.
    """

    vocabulary: Vocabulary
    counts: np.ndarray
    sentences: np.ndarray
    n_sentences: int

    @classmethod
    def of_corpus(cls, corpus: ParsedCorpus) -> Self:
        """Count, shard by shard."""
        counts: Counter[str] = Counter()
        sentences: Counter[str] = Counter()
        for i in range(corpus.n_shards):
            for lists in corpus.shard(i)["tokens"].chunks:
                values, lengths = lists.flatten(), pc.list_value_length(lists).to_numpy()
                ids, n_words = values.indices.to_numpy().astype(np.int64), len(values.dictionary)
                # A word in a sentence is one number, so a word that stands there twice is there once.
                pairs = np.unique(np.repeat(np.arange(len(lengths)), lengths) * n_words + ids)
                words = values.dictionary.to_pylist()
                for counter, found in ((counts, ids), (sentences, pairs % max(n_words, 1))):
                    counter.update(dict(zip(words, np.bincount(found, minlength=n_words).tolist(), strict=True)))
        words = sorted(counts.keys() - {UNKNOWN})
        occurrences, spread = (np.array([0, *(counter[word] for word in words)]) for counter in (counts, sentences))
        return cls(Vocabulary([UNKNOWN, *words]), occurrences, spread, len(corpus))

    @property
    def probabilities(self) -> np.ndarray:
        """``(V + 1,)`` share of the corpus' words that are this one; 0 for a word that it lacks."""
        return self.counts / max(self.counts.sum(), 1)


def equal_weights(words: WordStatistics) -> np.ndarray:
    """1 for every word."""
    return np.ones(len(words.counts))


def inverse_document_frequencies(words: WordStatistics) -> np.ndarray:
    """ln((1 + N) / (1 + n(w))), where n(w) of N sentences have the word; a mean over tokens does the rest of tf-idf."""
    return np.log((1 + words.n_sentences) / (1 + words.sentences))


def smooth_inverse_frequencies(words: WordStatistics) -> np.ndarray:
    """a / (a + p(w)) (SIF; Arora et al. 2017, algorithm 1)."""
    return SIF_A / (SIF_A + words.probabilities)


def unsupervised_inverse_frequencies(words: WordStatistics) -> np.ndarray:
    """a / (a/2 + p(w)), where no constant is tuned (uSIF; Ethayarajh 2018, section 3.2).

    A walk of n steps, the mean length of a sentence, meets a word by chance with the probability
    1 - (1 - 1/V)^n. alpha is the share of the words that are more probable than this, Z = V/2 the partition
    function of the walk by angular distances, and a = (1 - alpha) / (alpha Z).
    """
    p, n_words = words.probabilities, len(words.counts) - 1
    steps = words.counts.sum() / max(words.n_sentences, 1)
    alpha = np.count_nonzero(p[1:] > 1 - (1 - 1 / n_words) ** steps) / n_words
    # Where no word is that probable, a is infinite and the weights are equal.
    return 1 / (1 / 2 + p * alpha * (n_words / 2) / (1 - alpha))
