import numpy as np
import pyarrow as pa
import pytest
from corpora import tiny_rows, topic_corpus, topic_rows, write_corpus
from trees_for_tests import chain

from structviews.corpus import parsed_corpus
from structviews.corpus.layout import NUMBERS, Form, Row, Skipped, batch_of, encoded
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.corpus.writer import write_subset
from structviews.errors import InputError

BIRD = tiny_rows()[0].sentence  # a black bird sits on the wall
WORD = ParsedSentence(("Yes",), ("UH",), (0,), ("root",), (), (), ("INTJ",))
# The second of three shards has no rows.
SENTENCES = [Row(0, 0, 1, BIRD), Skipped(0, 1, 2, "zu lang – ü"), Row(0, 2, 3, WORD)]
SENTENCES += [Skipped(0, 3, 4, "odd"), Skipped(0, 4, 5, "odd"), Skipped(0, 5, 6, "odd"), Row(1, 0, 5, BIRD)]


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "x.parsed", SENTENCES, 3)


def test_what_is_read_is_what_was_written(corpus):
    opened = ParsedCorpus.open(corpus)
    expected = [each for each in SENTENCES if isinstance(each, Row)]
    assert list(opened) == [opened.row(i) for i in range(len(opened))] == expected
    assert opened.skipped == [each for each in SENTENCES if isinstance(each, Skipped)]
    assert opened.shard_rows == [2, 0, 1]
    assert [opened.manifest[key] for key in ("documents", "sentences", "tokens")] == [2, 3, 8 + 1 + 8]


def test_what_is_not_there_or_of_another_version(tmp_path, corpus, one_line):
    with one_line("no sentence 3: its 3 sentences"):
        ParsedCorpus.open(corpus).row(3)
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished/job.json").write_text("{}")
    manifest = corpus / "manifest.json"
    older = manifest.read_text().replace('"format_version": 2', '"format_version": 1')
    for folder, text, message in (
        (tmp_path / "none", "", "does not exist"),
        (tmp_path, "", "is not a parsed corpus"),
        (tmp_path / "unfinished", "", "is unfinished"),
        (corpus, older, "has format version 1, .* reads 2"),
        (corpus, "[]", "is not the manifest of a parsed corpus"),
    ):
        manifest.write_text(text)
        with one_line(message):
            ParsedCorpus.open(folder)


def test_numbers_and_dictionaries_are_as_narrow_as_they_go():
    for longest, words, kind in [(None, 128, pa.uint8()), (None, 129, pa.uint16()), (129, 2, pa.uint16())]:
        table = batch_of([Row(0, 0, 1, chain(words))], Form(longest))
        assert {table.schema.field(name).type.value_type for name in NUMBERS} == {kind}
        assert table["heads"].to_pylist() == [list(chain(words).heads)]
    for n, kind in [(128, pa.int8()), (129, pa.int16()), (32769, pa.int32())]:
        words = [f"word{i}" for i in range(n)]
        array = encoded([words])
        assert array.type.index_type == kind
        assert array.to_pylist() == words


def test_a_manifest_is_not_written_over_what_is_no_tree(tmp_path):
    fields = {name: getattr(BIRD, name) for name in BIRD.__slots__[:-1]} | {"heads": (0,) * 8}
    rows = [Row(0, 0, 1, WORD), Row(0, 1, 2, ParsedSentence.unchecked(*fields.values()))]
    with pytest.raises(InputError, match=r"shard-00000\.arrow is damaged: 1 of its sentences are invalid, .* in row 1"):
        write_corpus(tmp_path / "x.parsed", rows)
    assert not (tmp_path / "x.parsed/manifest.json").exists()


def test_a_subset_is_what_its_rows_alone_would_give(tmp_path, monkeypatch):
    """So its dictionaries have its own words and no others, and its shards are full."""
    monkeypatch.setattr(parsed_corpus, "SHARD_ROWS", 7)
    whole = ParsedCorpus.open(topic_corpus(tmp_path / "x.parsed"))
    chosen = np.flatnonzero(np.arange(len(whole)) % 3)
    write_subset(whole, chosen, tmp_path / "subset.parsed")
    found, rows = ParsedCorpus.open(tmp_path / "subset.parsed"), [whole.row(i) for i in chosen.tolist()]
    assert list(found) == rows
    assert found.shard_rows[:-1] == [7] * (len(rows) // 7)
    again = write_corpus(tmp_path / "again.parsed", rows, shard_size=7)
    # With the manifest, which says how the whole was made and counts what is here.
    assert all((again / path.name).read_bytes() == path.read_bytes() for path in found.path.iterdir())
    write_subset(whole, chosen[:0], tmp_path / "empty.parsed")
    assert len(ParsedCorpus.open(tmp_path / "empty.parsed")) == 0


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_polars_and_datasets_read_the_files_as_they_are(tmp_path, monkeypatch, compression):
    """Dictionaries have two widths, since the first shard has more words."""
    polars, datasets = pytest.importorskip("polars"), pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    settings = {"max_tokens": 120, "compression": compression}
    rows = topic_rows(50, 8) + tiny_rows()
    corpus = ParsedCorpus.open(write_corpus(tmp_path / "x.parsed", rows, 400, settings=settings))
    assert len({table.schema.field("tokens").type for table in corpus.tables()}) == 2
    expected = [row for table in corpus.tables() for row in table.to_pylist()]
    files = str(corpus.path / "shard-*.arrow")
    assert polars.read_ipc(files).to_dicts() == expected
    read = datasets.load_dataset("arrow", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    assert list(read) == expected
