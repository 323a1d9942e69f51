"""The trees of the tasks' sentences, from a corpus that was parsed beforehand."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from structviews.cache import ParsedCorpus, rows_of
from structviews.embedder import Embedder
from structviews.evaluation.tasks import Tokens
from structviews.preparation import warn_if_another
from structviews.sentence import ParsedSentence
from structviews.sentence_vectors import check_known


class TaskTrees:
    """A parsed corpus whose sentences are found by their tokens.

    Args:
        folder: the corpus, such as ``structviews parse --senteval`` makes; a sentence may stand in it twice.

    Raises:
        InputError: if it is not a parsed corpus.
    """

    def __init__(self, folder: str | Path):
        self.corpus = ParsedCorpus.open(folder)
        shards = (self.corpus.shard(number) for number in range(self.corpus.n_shards))
        sentences = (tokens for shard in shards for tokens in shard["tokens"].to_pylist())
        self._rows = {tuple(tokens): row for row, tokens in enumerate(sentences)}

    def suit(self, embedder: Embedder) -> None:
        """Warn if the embedder was trained on another parser's trees.

        Raises:
            InputError: if the corpus lacks a kind of trees that it reads.
        """
        if "dependency" in embedder.needs:
            self.corpus.require("dependency")
        if "constituency" in embedder.needs:
            self.corpus.require("constituency")
        for parser in embedder.parsers:
            warn_if_another(self.corpus.parser, parser)

    def check(self, sentences: Sequence[Tokens], task: str) -> None:
        """Raise InputError unless each of a task's sentences is there."""
        check_known(sentences, self._rows, task, self.corpus.path, "parse the tasks with structviews parse --senteval")

    def find(self, sentences: Sequence[Tokens], task: str = "the tasks") -> list[ParsedSentence]:
        """The sentences with their trees, in the order asked for.

        Raises:
            InputError: if one is not there.
        """
        self.check(sentences, task)
        rows = np.array([self._rows[sentence] for sentence in sentences], dtype=np.int64)
        starts = np.cumsum([0, *self.corpus.shard_rows])
        found: dict[Tokens, ParsedSentence] = {}
        for number in np.unique(np.searchsorted(starts, rows, side="right") - 1):
            inside = rows[(starts[number] <= rows) & (rows < starts[number + 1])] - starts[number]
            table = self.corpus.shard(int(number)).take(np.unique(inside))
            found |= {row.sentence.tokens: row.sentence for row in rows_of(table)}
        return [found[sentence] for sentence in sentences]
