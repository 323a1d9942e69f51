from dataclasses import replace

import pytest
from corpora import TINY, opened, quiet, tiny_corpus
from made_corpora import source, write_source

from structviews.corpus.layout import Form, Row, batch_of, encode_shard, skipped_of
from structviews.corpus.writer import merge, verify_corpus


def moved(sentences, first):
    return [replace(each, document=each.document + first) for each in sentences]


def test_documents_stay_distinct_and_sentences_keep_their_trees_and_places(tmp_path):
    # The second has shards without rows.
    only_skipped = [each for each in source(2, seed=2) if not isinstance(each, Row)]
    sources = [source(3, seed=1), only_skipped, source(4, seed=3)]
    folders = [write_source(tmp_path / f"{n}.parsed", each) for n, each in enumerate(sources)]
    merged = merge([*map(opened, folders)], tmp_path / "all.parsed", quiet)
    # The last document of each source has skipped sentences alone, and still is one.
    expected = [*sources[0], *moved(sources[1], 3), *moved(sources[2], 5)]
    assert list(merged) == [each for each in expected if isinstance(each, Row)]
    assert merged.skipped == [each for each in expected if not isinstance(each, Row)]
    assert merged.manifest["documents"] == 2 + 3
    assert list(verify_corpus(merged.path, quiet)) == []
    assert (merged.path / "shard-00000.arrow").read_bytes() == (folders[0] / "shard-00000.arrow").read_bytes()


def test_the_manifest_says_what_each_part_was_made_from(tmp_path):
    first = opened(write_source(tmp_path / "a.parsed", source(3)))
    job = {"settings": {"format": "prose", "max_tokens": 9}, "sources": [{"sha256": "1", "bytes": 2}]}
    second = opened(write_source(tmp_path / "b.parsed", source(2), job=job | {"repaired": {"ligature": 2}}))
    merged = merge([first, second], tmp_path / "ab.parsed", quiet)
    twice = merge([first, merged], tmp_path / "aab.parsed", quiet).manifest
    a, b = first.manifest, second.manifest
    assert (twice["parser"], twice["tokeniser"]) == (a["parser"], a["tokeniser"])
    assert (twice["settings"], twice["repaired"]) == ({"max_tokens": 9}, {"ligature": 2})
    assert twice["sources"] == [*a["sources"], *a["sources"], *b["sources"]]
    assert twice["merged"] == [
        {"first_document": document, "settings": part["settings"], "sources": part["sources"]}
        for document, part in ((0, a), (3, a), (6, b))
    ]


@pytest.mark.parametrize(
    ("settings", "form"),
    [
        ([{"max_tokens": 9}, {"max_tokens": 300}], Form(300)),
        ([{"max_tokens": 9, "compression": "zstd"}] * 2, Form(9, "zstd")),
        ([{"max_tokens": 9, "compression": "zstd"}, {"max_tokens": 9}], Form(9)),
    ],
)
def test_shards_get_one_form(tmp_path, settings, form):
    folders = [
        write_source(tmp_path / f"{number}.parsed", source(seed=number), job={"settings": each})
        for number, each in enumerate(settings)
    ]
    merged = merge([*map(opened, folders)], tmp_path / "all.parsed", quiet)
    assert Form.of(merged.manifest) == form
    assert {table.schema.field("left").type.value_type for table in merged.tables()} == {form.numbers(10)}
    first = opened(folders[0])
    shard = encode_shard(batch_of(list(first)[: first.shard_rows[0]], form), skipped_of(first.shard(0)), form)
    assert (merged.path / "shard-00000.arrow").read_bytes() == shard
    assert list(verify_corpus(merged.path, quiet)) == []


def test_what_cannot_be_merged_or_written(tmp_path, one_line):
    one = opened(write_source(tmp_path / "a.parsed", source()))
    newer = {"parser": one.parser | {"version": "2"}}
    two = opened(write_source(tmp_path / "b.parsed", source(), job=newer))
    words = opened(write_source(tmp_path / "w.parsed", source(), job={"tokeniser": {"name": "whitespace"}}))
    both = opened(tiny_corpus(tmp_path / "t.parsed"))
    heads = opened(tiny_corpus(tmp_path / "h.parsed", paths=TINY[:1]))
    (tmp_path / "file").write_text("")
    for corpora, out, message in [
        ([one, two], "ab.parsed", r"b\.parsed has parser random with version 2, but .*a\.parsed has .* version 1: "),
        ([one, words], "ab.parsed", "has tokeniser whitespace, but .* has tokeniser test"),
        ([both, heads], "ab.parsed", r"h\.parsed has no constituency trees, but .*t\.parsed has "),
        ([one], "ab.parsed", "1 corpora: give at least two"),
        ([one, one], "a.parsed", r"a\.parsed: already exists"),
        ([one, one], "file/b.parsed", r"file/b\.parsed: .*: give another folder with --out"),
    ]:
        with one_line(message):
            merge(corpora, tmp_path / out, quiet)
    assert not (tmp_path / "ab.parsed").exists()
