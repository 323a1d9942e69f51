"""A corpus' files are read by other programs as they are."""

import pytest
from corpora import tiny_rows, topic_rows

from structviews.corpus.format import Form, new_job
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.writer import write_manifest, write_shard


@pytest.fixture(params=[None, "zstd"])
def corpus(request, tmp_path):
    """Dictionaries of several widths, since the second shard has more words."""
    shards = [tiny_rows(), [row for row in topic_rows(60, 8, seed=1) if row.document > 2]]
    form = Form(120, request.param)
    folder = tmp_path / "x.parsed"
    folder.mkdir()
    entries = []
    for number, rows in enumerate(shards):
        entries.append(write_shard(folder, number, rows, [], form))
    settings = {"max_tokens": form.longest, "compression": form.compression}
    write_manifest(folder, entries, new_job(parser={"name": "t"}, tokeniser={}, settings=settings, sources=[]))
    opened = ParsedCorpus.open(folder)
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
