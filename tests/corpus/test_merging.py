from dataclasses import replace

import pytest
from corpora import TINY, tiny_corpus
from made_corpora import contents, quiet, source, write_source

from structviews.corpus.format import Form, Row, encode_shard, skipped_of
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.writer import merge, verify_corpus
from structviews.errors import InputError


def opened(*folders):
    return [ParsedCorpus.open(folder) for folder in folders]


def moved(sentences, first):
    return [replace(each, document=each.document + first) for each in sentences]


def test_documents_stay_distinct_and_sentences_keep_their_trees_and_places(tmp_path):
    sources = [source(3, seed=1), source(2, seed=2), source(4, seed=3)]
    folders = [write_source(tmp_path / f"{n}.parsed", each) for n, each in enumerate(sources)]
    told = []
    merged = merge(opened(*folders), tmp_path / "all.parsed", lambda *numbers: told.append(numbers))
    # The last document of each source has skipped sentences alone, and still is one.
    expected = [*sources[0], *moved(sources[1], 3), *moved(sources[2], 5)]
    assert list(merged) == [each for each in expected if isinstance(each, Row)]
    assert merged.skipped == [each for each in expected if not isinstance(each, Row)]
    assert merged.manifest["documents"] == 2 + 1 + 3
    assert list(verify_corpus(merged.path, quiet)) == []
    assert told[-1] == (merged.n_shards, merged.n_shards)
    assert contents(merged.path)["shard-00000.arrow"] == contents(folders[0])["shard-00000.arrow"]


def test_the_manifest_says_what_each_part_was_made_from(tmp_path):
    first = write_source(tmp_path / "a.parsed", source(3))
    job = {"settings": {"format": "prose", "max_tokens": 9}, "sources": [{"sha256": "1", "bytes": 2}]}
    job["repaired"] = {"ligature": 2}
    second = write_source(tmp_path / "b.parsed", source(2), job=job)
    merged = merge(opened(first, second), tmp_path / "ab.parsed", quiet)
    twice = merge(opened(first, merged.path), tmp_path / "aab.parsed", quiet)
    a, b = ParsedCorpus.open(first).manifest, ParsedCorpus.open(second).manifest
    assert twice.parser == a["parser"]
    assert twice.manifest["tokeniser"] == a["tokeniser"]
    assert twice.manifest["settings"] == {"max_tokens": 9}
    assert twice.manifest["repaired"] == {"ligature": 2}
    assert twice.manifest["sources"] == [*a["sources"], *a["sources"], *b["sources"]]
    assert twice.manifest["merged"] == [
        {"first_document": 0, "settings": a["settings"], "sources": a["sources"]},
        {"first_document": 3, "settings": a["settings"], "sources": a["sources"]},
        {"first_document": 6, "settings": b["settings"], "sources": b["sources"]},
    ]


def test_a_shard_without_rows_is_merged(tmp_path):
    only_skipped = [each for each in source() if not isinstance(each, Row)]
    folders = [write_source(tmp_path / "a.parsed", only_skipped), write_source(tmp_path / "b.parsed", source())]
    merged = merge(opened(*folders), tmp_path / "ab.parsed", quiet)
    assert [row.document for row in merged] == [row.document + 5 for row in ParsedCorpus.open(folders[1])]


@pytest.mark.parametrize(
    ("settings", "form"),
    [
        ([{"max_tokens": 9}, {"max_tokens": 300}], Form(300)),
        ([{}, {"max_tokens": 9}], Form()),
        ([{"max_tokens": 9, "compression": "zstd"}] * 2, Form(9, "zstd")),
        ([{"max_tokens": 9, "compression": "zstd"}, {"max_tokens": 9}], Form(9)),
    ],
)
def test_shards_get_one_form(tmp_path, settings, form):
    folders = [
        write_source(tmp_path / f"{number}.parsed", source(seed=number), job={"settings": each})
        for number, each in enumerate(settings)
    ]
    merged = merge(opened(*folders), tmp_path / "all.parsed", quiet)
    assert Form.of(merged.manifest) == form
    assert {table.schema.field("left").type.value_type for table in merged.tables()} == {form.numbers(10)}
    first = ParsedCorpus.open(folders[0])
    shard = encode_shard(list(first)[: first.shard_rows[0]], skipped_of(first.shard(0)), form)
    assert (merged.path / "shard-00000.arrow").read_bytes() == shard
    assert list(verify_corpus(merged.path, quiet)) == []


def test_what_cannot_be_merged_or_written(tmp_path):
    (one,) = opened(write_source(tmp_path / "a.parsed", source()))
    for number, (job, message) in enumerate(
        [
            ({"parser": {"name": "other"}}, r"0\.parsed has parser other, but .*a\.parsed has parser random: "),
            (
                {"parser": {"name": "random", "version": "2", "settings": {}, "model": ""}},
                r"has parser random with version 2, but .* has parser random with version 1",
            ),
            ({"tokeniser": {"name": "whitespace"}}, "has tokeniser whitespace, but .* has tokeniser test"),
        ]
    ):
        (other,) = opened(write_source(tmp_path / f"{number}.parsed", source(), job=job))
        with pytest.raises(InputError, match=message) as error:
            merge([one, other], tmp_path / "ab.parsed", quiet)
        assert "\n" not in str(error.value)
        assert not (tmp_path / "ab.parsed").exists()
    both = tiny_corpus(tmp_path / "b.parsed")
    heads = tiny_corpus(tmp_path / "h.parsed", paths=[path for path in TINY if path.suffix == ".conllu"])
    with pytest.raises(InputError, match=r"h\.parsed has no constituency trees, but .*b\.parsed has "):
        merge(opened(both, heads), tmp_path / "ab.parsed", quiet)
    with pytest.raises(InputError, match="1 corpora: give at least two"):
        merge([one], tmp_path / "b.parsed", quiet)
    with pytest.raises(InputError, match=r"a\.parsed: already exists"):
        merge([one, one], tmp_path / "a.parsed", quiet)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/b\.parsed: .*: give another folder with --out"):
        merge([one, one], tmp_path / "file/b.parsed", quiet)
