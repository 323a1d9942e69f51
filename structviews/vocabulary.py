"""Words and their ids, and the tables that turn ids into vectors."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from structviews.cache import ParsedCorpus, write_whole
from structviews.errors import InputError

UNKNOWN = "<unk>"


class Vocabulary:
    """The most frequent words of a corpus, cased; id 0 stands for every other word.

    Args:
        words: the words in the order of their ids, ``<unk>`` first.
    """

    def __init__(self, words: Sequence[str]):
        if not words or words[0] != UNKNOWN:
            raise ValueError(f"a vocabulary starts with {UNKNOWN}, not {words[0] if words else 'nothing'!r}")
        self.words = list(words)
        self._array = pa.array(self.words, pa.string())

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, words: pa.Array | Sequence[str]) -> np.ndarray:
        """Ids ``(n,)``, int64, of words; 0 for those that are not here."""
        if not isinstance(words, pa.Array):
            words = pa.array(words, pa.string())
        return pc.fill_null(pc.index_in(words, value_set=self._array), 0).to_numpy().astype(np.int64)

    @classmethod
    def of_corpus(cls, corpus: ParsedCorpus, size: int) -> Self:
        """The ``size`` most frequent words of a parsed corpus; ties go by the alphabet."""
        counts: Counter[str] = Counter()
        for i in range(corpus.n_shards):
            for chunk in corpus.shard(i)["tokens"].chunks:
                values = chunk.flatten()
                found = np.bincount(values.indices.to_numpy(), minlength=len(values.dictionary))
                counts.update(dict(zip(values.dictionary.to_pylist(), found.tolist(), strict=True)))
        counts.pop(UNKNOWN, None)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls([UNKNOWN, *(word for word, _ in ranked[:size])])

    def save(self, path: Path) -> None:
        """Write one word a line."""
        text = "".join(f"{word}\n" for word in self.words)
        write_whole(path, lambda file: file.write(text.encode("utf-8")))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what ``save`` wrote.

        Raises:
            InputError: if there is no such file, or it is not a vocabulary.
        """
        try:
            return cls(path.read_text("utf-8").removesuffix("\n").split("\n"))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}: a run's folder holds its vocabulary") from None
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None


class WordTable(nn.Module):
    """Vectors of a vocabulary's words, learnt from scratch.

    Args:
        n_words: rows, that of unknown words among them.
        dim: length of a vector.
        spread: vectors start uniformly between ``-spread`` and ``spread``; 0 for Xavier's spread
            (structured views 4.1), which is small where words are many.
    """

    def __init__(self, n_words: int, dim: int, spread: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_words, dim))
        if spread:
            nn.init.uniform_(self.weight, -spread, spread)
        else:
            nn.init.xavier_uniform_(self.weight)

    @property
    def dim(self) -> int:
        return self.weight.shape[1]

    def lookup(self, ids: Tensor) -> Tensor:
        """Vectors ``(n, dim)`` of ids ``(n,)``."""
        return F.embedding(ids, self.weight)

    def bag(self, ids: Tensor, starts: Tensor, mode: str = "sum") -> Tensor:
        """Sum or mean ``(B, dim)`` of the words of each sentence, without one vector per word.

        Args:
            ids: ``(n,)`` words of all sentences.
            starts: ``(B,)`` where each sentence begins in ``ids``.
            mode: ``sum`` or ``mean``.
        """
        return F.embedding_bag(ids, self.weight, starts, mode=mode)
