"""A corpus' files are read by other programs as they are."""

import pytest
from corpora import tiny_rows, topic_rows, write_corpus

from structviews.corpus.parsed_corpus import ParsedCorpus


@pytest.fixture(params=[None, "zstd"])
def corpus(request, tmp_path):
    """Dictionaries of two widths, since the first shard has more words."""
    rows = topic_rows(50, 8) + tiny_rows()
    settings = {"max_tokens": 120, "compression": request.param}
    opened = ParsedCorpus.open(write_corpus(tmp_path / "x.parsed", rows, 400, settings=settings))
    assert len({table.schema.field("tokens").type for table in opened.tables()}) == 2
    return opened


def expected(corpus):
    return [row for table in corpus.tables() for row in table.to_pylist()]


def test_polars(corpus):
    polars = pytest.importorskip("polars")
    frame = polars.read_ipc(corpus.path / "shard-*.arrow")
    assert frame.to_dicts() == expected(corpus)


def test_datasets(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    files = str(corpus.path / "shard-*.arrow")
    rows = datasets.load_dataset("arrow", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    assert list(rows) == expected(corpus)
