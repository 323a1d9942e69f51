import json

import numpy as np
import pyarrow as pa
import pytest
from corpora import topic_corpus, write_corpus
from hypothesis import given
from hypothesis import strategies as st
from trees_for_tests import chain, sentences

from structviews.corpus import writer
from structviews.corpus.format import (
    COLUMNS,
    NUMBERS,
    Form,
    Row,
    Skipped,
    batch_of,
    encoded,
    new_job,
    read_shard,
    rows_of,
    shard_name,
)
from structviews.corpus.parsed_corpus import ParsedCorpus, find_corpus
from structviews.corpus.sentence import ParsedSentence
from structviews.corpus.writer import provenance, write_manifest, write_shard, write_subset
from structviews.errors import InputError

BIRD = ParsedSentence(
    tokens=("A", "bird", "sings", "."),
    tags=("DT", "NN", "VBZ", "."),
    heads=(2, 3, 0, 3),
    relations=("det", "nsubj", "root", "punct"),
    left=(0, 4, 5),
    right=(1, 2, 3),
    labels=("", "", "VP", "", "NP", "", "S"),
)
WORD = ParsedSentence(("Yes",), ("UH",), (0,), ("root",), (), (), ("INTJ",))
DEPENDENCIES_ONLY = ParsedSentence(("Go", "."), heads=(0, 1), relations=("root", "punct"))
JOB = new_job(parser={"name": "test"}, tokeniser={"name": "test"}, settings={}, sources=[])
ROWS = [[Row(0, 0, 1, BIRD), Row(0, 2, 3, WORD)], [], [Row(1, 0, 5, BIRD)]]
SKIPPED = [[Skipped(0, 1, 2, "zu lang – ü")], [Skipped(0, 3, 4, "odd")], []]


@pytest.fixture
def corpus(tmp_path):
    return build(tmp_path / "x.parsed", ROWS, SKIPPED)


def build(folder, rows, skipped):
    folder.mkdir()
    entries = []
    for number, (some, others) in enumerate(zip(rows, skipped, strict=True)):
        entries.append(write_shard(folder, number, some, others))
    write_manifest(folder, entries, JOB)
    return folder


def test_what_is_read_is_what_was_written(corpus):
    opened = ParsedCorpus.open(corpus)
    expected = [row for shard in ROWS for row in shard]
    assert list(opened) == expected
    assert [opened.row(i) for i in range(len(opened))] == expected
    assert opened.sentence(2) == BIRD
    assert opened.skipped == [skip for shard in SKIPPED for skip in shard]
    assert opened.shard_rows == [2, 0, 1]
    assert opened.has_dependencies
    assert opened.has_constituents
    assert opened.parser == {"name": "test"}
    assert {key: opened.manifest[key] for key in ("documents", "sentences", "tokens")} == {
        "documents": 2,
        "sentences": 3,
        "tokens": 9,
    }


def test_columns_are_those_of_the_design(corpus):
    with pa.OSFile(str(corpus / shard_name(0))) as file:
        table = pa.ipc.open_file(file).read_all()
    assert table.column_names == list(COLUMNS)
    assert table.schema.field("tokens").type == pa.list_(pa.dictionary(pa.int8(), pa.string()))
    assert table.schema.field("heads").type == pa.list_(pa.uint8())
    row = table.to_pylist()[0]
    assert row["tokens"] == ["A", "bird", "sings", "."]
    assert row["dep_height"] == [0, 1, 2, 0]
    assert row["const_height"] == [0, 0, 0, 0, 1, 2, 3]
    assert all(ParsedCorpus.open(corpus).shard(n)["tokens"].num_chunks == 1 for n in range(3))


def test_equal_content_gives_equal_bytes(corpus, tmp_path):
    again = build(tmp_path / "again.parsed", ROWS, SKIPPED)
    assert sorted(p.name for p in again.iterdir()) == sorted(p.name for p in corpus.iterdir())
    assert all((again / p.name).read_bytes() == p.read_bytes() for p in corpus.iterdir())
    assert ParsedCorpus.open(again).fingerprint == ParsedCorpus.open(corpus).fingerprint


def test_a_missing_kind_of_tree_is_recorded(tmp_path):
    opened = ParsedCorpus.open(build(tmp_path / "d.parsed", [[Row(0, 0, 1, DEPENDENCIES_ONLY)]], [[]]))
    assert opened.sentence(0) == DEPENDENCIES_ONLY
    opened.require("dependency")
    with pytest.raises(InputError, match=r"d\.parsed has no constituency trees"):
        opened.require("constituency")


def test_a_flipped_byte_is_found_when_the_shard_is_read(corpus):
    path = corpus / shard_name(2)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    opened = ParsedCorpus.open(corpus)
    assert opened.sentence(0) == BIRD
    with pytest.raises(InputError, match=r"shard-00002\.arrow is damaged: its checksum"):
        opened.sentence(2)


def test_a_cut_or_missing_shard_is_found_at_once(corpus):
    path = corpus / shard_name(2)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"shard-00002\.arrow is damaged: it has \d+ bytes, but"):
        ParsedCorpus.open(corpus)
    path.unlink()
    with pytest.raises(InputError, match="the file is missing"):
        ParsedCorpus.open(corpus)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"format_version": 2', '"format_version": 1'), "has format version 1, .* reads 2"),
        (lambda text: text.replace('"tokens": 9', '"tokens": 8'), "damaged: its checksum"),
        (lambda text: text[:-20], "damaged: not JSON"),
        (lambda text: "[]", "is not the manifest of a parsed corpus"),
    ],
)
def test_a_changed_manifest_is_found(corpus, change, message):
    path = corpus / "manifest.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=message) as error:
        ParsedCorpus.open(corpus)
    assert "\n" not in str(error.value)


def test_a_folder_that_is_no_corpus(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        ParsedCorpus.open(tmp_path / "none")
    with pytest.raises(InputError, match="is not a parsed corpus"):
        ParsedCorpus.open(tmp_path)
    (tmp_path / "job.json").write_text(json.dumps(JOB))
    with pytest.raises(InputError, match="is unfinished"):
        ParsedCorpus.open(tmp_path)


def test_an_index_outside_the_corpus(corpus):
    for index in (-1, 3):
        with pytest.raises(InputError, match=f"no sentence {index}: its 3 sentences"):
            ParsedCorpus.open(corpus).row(index)


def test_find_corpus(tmp_path, corpus):
    assert find_corpus(tmp_path) == corpus
    (tmp_path / "y.parsed").mkdir()
    with pytest.raises(InputError, match=r"several .*x\.parsed, .*y\.parsed.*--corpus"):
        find_corpus(tmp_path)
    with pytest.raises(InputError, match="structviews parse"):
        find_corpus(corpus)


@given(
    st.lists(
        st.one_of(sentences(max_words=20), st.just(DEPENDENCIES_ONLY), st.just(ParsedSentence(("a", "b")))), max_size=6
    )
)
def test_heights_in_a_shard_are_those_of_each_sentence(some):
    table = batch_of([Row(0, i, i + 1, sentence) for i, sentence in enumerate(some)])
    assert table["dep_height"].to_pylist() == [s.dependency_heights for s in some]
    assert table["const_height"].to_pylist() == [s.constituency_heights if s.has_constituents else [] for s in some]


@pytest.mark.parametrize(
    ("longest", "words", "kind"),
    [
        (None, 128, pa.uint8()),
        (None, 129, pa.uint16()),
        (120, 2, pa.uint8()),
        (128, 2, pa.uint8()),
        (129, 2, pa.uint16()),
    ],
)
def test_numbers_are_as_wide_as_the_longest_sentence_needs(tmp_path, longest, words, kind):
    row = Row(0, 0, 1, chain(words))
    write_shard(tmp_path, 0, [row], [], Form(longest))
    table = read_shard(tmp_path / shard_name(0))
    assert {table.schema.field(name).type.value_type for name in NUMBERS} == {kind}
    assert list(rows_of(table)) == [row]


@pytest.mark.parametrize(("n", "kind"), [(128, pa.int8()), (129, pa.int16()), (32768, pa.int16()), (32769, pa.int32())])
def test_dictionaries_are_as_narrow_as_they_go(n, kind):
    words = [f"word{i}" for i in range(n)]
    array = encoded([words])
    assert array.type.index_type == kind
    assert array.to_pylist() == words


def test_documents_are_counted_once(tmp_path):
    """A document that goes on in the next shard is one."""
    folder = build(tmp_path / "x.parsed", [[Row(0, 0, 1, BIRD)], [Row(0, 1, 2, BIRD), Row(4, 0, 3, BIRD)]], [[], []])
    assert ParsedCorpus.open(folder).manifest["documents"] == 2


def test_a_manifest_is_not_written_over_what_is_no_tree(tmp_path):
    fields = {name: getattr(BIRD, name) for name in BIRD.__slots__} | {"heads": (0, 0, 1, 1)}
    entry = write_shard(tmp_path, 0, [Row(0, 0, 1, WORD), Row(0, 1, 2, ParsedSentence.unchecked(*fields.values()))], [])
    with pytest.raises(InputError, match=r"shard-00000\.arrow is damaged: 1 of its sentences are invalid, .* in row 1"):
        write_manifest(tmp_path, [entry], JOB)
    assert not (tmp_path / "manifest.json").exists()


def test_a_subset_is_what_its_rows_alone_would_give(tmp_path, monkeypatch):
    """So its dictionaries have its own words and no others, and its shards are full."""
    monkeypatch.setattr(writer, "SHARD_ROWS", 7)
    whole = ParsedCorpus.open(topic_corpus(tmp_path / "x.parsed"))
    chosen = np.flatnonzero(np.arange(len(whole)) % 3)
    write_subset(whole, chosen, tmp_path / "subset.parsed")
    found, rows = ParsedCorpus.open(tmp_path / "subset.parsed"), [whole.row(i) for i in chosen.tolist()]
    assert list(found) == rows
    assert found.shard_rows[:-1] == [7] * (len(rows) // 7)
    assert provenance(found) == provenance(whole)
    again = write_corpus(tmp_path / "again.parsed", rows, shard_size=7)
    shards = sorted(again.glob("*.arrow"))
    assert [path.read_bytes() for path in shards] == [(found.path / path.name).read_bytes() for path in shards]
    write_subset(whole, chosen[:0], tmp_path / "empty.parsed")
    assert len(ParsedCorpus.open(tmp_path / "empty.parsed")) == 0
