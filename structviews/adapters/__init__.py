"""Runs as the encoders that other toolkits evaluate: one module a toolkit, imported by its users only."""

from collections.abc import Iterable

from structviews.preparation import Sentence

EMPTY = "."


def encodable(sentences: Iterable[Sentence]) -> list[Sentence]:
    """The sentences; one without words becomes a full stop, as in SentEval's example encoders."""
    return [EMPTY if isinstance(each, str) and not each.strip() else each for each in sentences]
