"""Trees of the task sentences, looked up in a corpus parsed beforehand."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from structviews.corpus.layout import rows_of
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import warn_if_another
from structviews.encoding.sentence_vectors import check_known
from structviews.evaluation.senteval.tasks.reading import Tokens


class TaskTrees:
    """A parsed corpus, as from ``structviews parse --senteval``, with sentences looked up by their tokens."""

    def __init__(self, folder: str | Path):
        self.corpus = ParsedCorpus.open(folder)
        sentences = (tokens for shard in self.corpus.tables() for tokens in shard["tokens"].to_pylist())
        self._rows = {tuple(tokens): row for row, tokens in enumerate(sentences)}

    def suit(self, embedder: Embedder) -> None:
        """Warn if the embedder was trained on trees of another parser; InputError if it needs trees of other kinds."""
        for kind in ("dependency", "labelled", "constituency"):
            if kind in embedder.needs:
                self.corpus.require(kind)
        for parser in embedder.parsers:
            warn_if_another(self.corpus.parser, parser)

    def check(self, sentences: Sequence[Tokens], task: str) -> None:
        """Raise InputError unless the corpus has all sentences of a task."""
        check_known(sentences, self._rows, task, self.corpus.path, "parse the tasks with structviews parse --senteval")

    def find(self, sentences: Sequence[Tokens], task: str = "the tasks") -> list[ParsedSentence]:
        """The sentences with their trees, in the given order; InputError if one is not in the corpus."""
        self.check(sentences, task)
        rows = np.array([self._rows[sentence] for sentence in sentences], dtype=np.int64)
        starts = np.cumsum([0, *self.corpus.shard_rows])
        found: dict[Tokens, ParsedSentence] = {}
        for number in np.unique(np.searchsorted(starts, rows, side="right") - 1):
            inside = rows[(starts[number] <= rows) & (rows < starts[number + 1])] - starts[number]
            table = self.corpus.shard(int(number)).take(np.unique(inside))
            found |= {row.sentence.tokens: row.sentence for row in rows_of(table)}
        return [found[sentence] for sentence in sentences]
