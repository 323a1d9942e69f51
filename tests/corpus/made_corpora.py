"""Corpora with skipped sentences, as `parse` writes them."""

from corpora import topic_rows, write_corpus

from structviews.corpus.layout import Skipped


def source(documents=5, sentences=8, seed=0):
    """Sentences of a source in order; every fifth was skipped, and so was all of the last document."""
    rows = topic_rows(documents, sentences, seed)
    lost = [i % 5 == 2 or row.document == documents - 1 for i, row in enumerate(rows)]
    return [
        Skipped(row.document, row.position, row.line, f"odd: {row.position % 2}") if skip else row
        for row, skip in zip(rows, lost, strict=True)
    ]


def write_source(folder, sentences, shard_size=12, job=None):
    """A corpus as `parse` writes it: cut by the source alone."""
    settings = {"settings": {"format": "lines", "max_tokens": 9}, "sources": [{"sha256": "0", "bytes": 1}]}
    return write_corpus(folder, sentences, shard_size, **settings | (job or {}))
