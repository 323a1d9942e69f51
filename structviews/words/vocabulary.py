"""Vocabularies: words and their ids."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Self

import numpy as np

from structviews.corpus.parsed_corpus import ParsedCorpus

UNKNOWN = "<unk>"


def count_words(corpus: ParsedCorpus, uncased: bool = False) -> Counter[str]:
    """The frequency of each word of a parsed corpus, in order of first appearance by shard.

    Args:
        corpus: the corpus.
        uncased: count lower-cased words.
    """
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
    """The most frequent words of a corpus; id 0 is for unknown words.

    Args:
        words: the words in the order of their ids, ``<unk>`` first.
        counts: ``(words,)`` frequency of each word, that of ``<unk>`` covering all others; None if
            unknown, as for a vocabulary loaded from a file.
        uncased: look words up in lower case, as all of these are.
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
        """Ids of the words of a batch, and vectors of those that are not in the vocabulary: here none.

        Returns:
            ``(n,)`` int64: ``ids``, or from ``len`` on for words whose vector ``(further, d)``, float32, is the second.
        """
        return self.ids(chain.from_iterable(sentences)), None

    @classmethod
    def of_corpus(cls, corpus: ParsedCorpus, size: int | None = None, uncased: bool = False) -> Self:
        """The ``size`` most frequent words of a parsed corpus, or all; ties are broken alphabetically."""
        counts = count_words(corpus, uncased)
        total = counts.total()
        counts.pop(UNKNOWN, None)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:size]
        known = np.array([count for _, count in ranked], dtype=np.int64)
        return cls([UNKNOWN, *(word for word, _ in ranked)], np.concatenate([[total - known.sum()], known]), uncased)

    def extended(self, other: "Vocabulary") -> "Vocabulary":
        """This vocabulary, ids unchanged, followed by the new words of ``other``; counts are those of ``other``."""
        known = set(self.words)
        words = [*self.words, *(word for word in other.words if word not in known)]
        if other.counts is None:
            return Vocabulary(words, uncased=self.uncased)
        counts = dict(zip(other.words, other.counts.tolist(), strict=True))
        return Vocabulary(words, np.array([counts.get(word, 0) for word in words], dtype=np.int64), self.uncased)


class SentenceWords(Vocabulary, ABC):
    """Words whose vectors depend on their sentence, so that each word of a batch is one beyond the vocabulary.

    The vocabulary itself is empty, and its table has one row, which no word reads.

    Attributes:
        dim: dimension d of a vector.
        identity: digest, 16 bytes, of what decides the vectors.
    """

    dim: int
    identity: bytes

    def __init__(self) -> None:
        super().__init__([UNKNOWN])

    @abstractmethod
    def vectors(self, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        """The vector of each word in its sentence, ``(n, d)``, float32."""

    def look_up(self, sentences: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """See ``Vocabulary``; no two words have the same id."""
        return each_its_own(self.vectors(sentences))


def each_its_own(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What ``SentenceWords.look_up`` returns for words with these vectors ``(n, d)``."""
    return np.arange(1, len(vectors) + 1), vectors
