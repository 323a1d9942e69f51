"""Adapters that let other toolkits use a run as an encoder, one module per toolkit."""

from collections.abc import Iterable

from structviews.encoding.preparation import Sentence

EMPTY = "."


def encodable(sentences: Iterable[Sentence]) -> list[Sentence]:
    """Replace empty sentences by a full stop, as SentEval's example encoders do."""
    return [EMPTY if isinstance(each, str) and not each.strip() else each for each in sentences]
