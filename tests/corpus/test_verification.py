import json
import random
import shutil
import sys
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from corpora import quiet
from made_corpora import source, write_source
from trees_for_tests import SHAPES

from structviews.corpus.layout import COLUMNS, NAMES, PLACES, Form, Row, batch_of, encoded, list_array, shard_name
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import InvalidSentence, ParsedSentence
from structviews.corpus.tree_arrays import WHITE_SPACE, malformed
from structviews.corpus.writer import verify_corpus
from structviews.errors import InputError
from structviews.runtime.documents import write_json
from structviews.runtime.files import file_hash

LISTS = [name for name in COLUMNS if name not in PLACES]


@pytest.fixture
def corpus(tmp_path):
    return write_source(tmp_path / "x.parsed", source())


def faults(folder):
    return list(verify_corpus(folder, quiet))


def table_of(sentences):
    rows = [Row(0, position, position + 1, sentence) for position, sentence in enumerate(sentences)]
    return pa.Table.from_batches([batch_of(rows, Form())])


def with_lists(table, lists, kind=None):
    """The table with other lists in its columns, which may be no trees."""
    for name, values in lists.items():
        # Wide and signed, so that what is wrong can be written.
        sizes = np.array(list(map(len, values)), int)
        column = list_array(encoded(values), sizes) if name in NAMES else pa.array(values, pa.list_(kind or pa.int16()))
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def is_malformed(table, row):
    """Slowly: what a ParsedSentence refuses, and heights that are not its own."""
    fields = {name: tuple(table[name][row].as_py()) for name in LISTS}
    heights = {name: list(fields.pop(name)) for name in ("dep_height", "const_height")}
    try:
        sentence = ParsedSentence(**fields)
    except InvalidSentence:
        return True
    return heights != {
        "dep_height": sentence.dependency_heights if sentence.has_dependencies else [],
        "const_height": sentence.constituency_heights if sentence.has_constituents else [],
    }


def damage(values, name, rng):
    """A list with one thing changed."""
    if not values:
        return ["X" if name in NAMES else 0]
    i, j = rng.randrange(len(values)), rng.randrange(len(values))
    changed, swapped = list(values), list(values)
    swapped[i], swapped[j] = values[j], values[i]
    if name in NAMES:
        changed[i] = rng.choice(["", "a b", "a\u2003", "fine"])
    else:
        changed[i] += rng.choice([-20, -2, -1, 1, 2, 20])
    return rng.choice([changed, changed, swapped, values[:i] + values[i + 1 :], [*values, values[0]], []])


def test_the_same_sentences_are_malformed_as_one_by_one():
    rng = random.Random(0)
    sentences = [sentence for shape in SHAPES.values() for sentence in shape] * 24
    table = table_of(sentences)
    lists = {name: table[name].to_pylist() for name in LISTS}
    found = dict.fromkeys(LISTS, 0)
    for row in range(0, len(table), 2):
        name = rng.choice(LISTS)
        lists[name][row] = damage(lists[name][row], name, rng)
        found[name] += is_malformed(with_lists(table, {name: lists[name]}).slice(row, 1), 0)
    table = with_lists(table, lists)
    bad = malformed(table)
    assert bad.tolist() == [is_malformed(table, row) for row in range(len(table))]
    assert 0.3 * len(table) < bad.sum() <= 0.5 * len(table)
    # Each column was damaged in ways that matter.
    assert all(found.values()), found


def test_every_reordering_of_small_trees_is_judged_as_one_by_one():
    """All heads of three words, and all children of the two internal nodes over them."""
    three = ParsedSentence(("a", "b", "c"), heads=(0, 1, 1), relations=("x", "y", "y"))
    heads = [list(each) for each in product(range(-1, 5), repeat=3)]
    heights = [[1, 0, 0] if h == [0, 1, 1] else [0, 1, 0] if h == [2, 0, 2] else [2, 1, 0] for h in heads]
    both = list(product(range(-1, 6), repeat=4))
    nodes = {
        "left": [[a, b] for a, b, _, _ in both],
        "right": [[c, d] for _, _, c, d in both],
        "labels": [[""] * 5] * len(both),
        "const_height": [[0, 0, 0, 1, 2]] * len(both),
        **dict.fromkeys(("heads", "relations", "dep_height"), [[]] * len(both)),
    }
    for lists in ({"heads": heads, "dep_height": heights}, nodes):
        table = with_lists(table_of([three] * len(lists["heads"])), lists)
        bad = malformed(table)
        assert bad.tolist() == [is_malformed(table, row) for row in range(len(table))]
        assert 2 <= (~bad).sum() < 10


def test_white_space_is_pythons():
    characters = [chr(c) for c in range(sys.maxunicode) if not 0xD800 <= c < 0xE000]
    assert pa.compute.match_substring_regex(characters, WHITE_SPACE).to_pylist() == list(map(str.isspace, characters))


def rewritten(folder, number, table, manifest=None):
    """The corpus with another shard, which the manifest vouches for."""
    content = json.loads((folder / "manifest.json").read_bytes()) | (manifest or {})
    if table is not None:
        skipped = ParsedCorpus.open(folder).shard(number).schema.metadata
        path = folder / shard_name(number)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema.with_metadata(skipped)) as writer:
            writer.write_table(table.replace_schema_metadata(skipped))
        content["shards"][number] |= {"bytes": path.stat().st_size, "sha256": file_hash(path), "rows": len(table)}
    write_json(folder / "manifest.json", content)
    return folder


def loaded(folder, number):
    return pa.ipc.open_file(pa.py_buffer((folder / shard_name(number)).read_bytes())).read_all()


def test_a_malformed_tree_is_named_with_the_reason(corpus):
    table = loaded(corpus, 1)
    heads = table["heads"].to_pylist()
    row, other = [i for i, each in enumerate(heads) if len(each) > 2][:2]
    heads[row] = [0, 0, *heads[row][2:]]
    place = {name: table[name][row].as_py() for name in ("document", "position", "line")}
    heights = table["const_height"].to_pylist()
    heights[other][-1] += 1
    rewritten(corpus, 1, with_lists(table, {"heads": heads, "const_height": heights}, pa.uint8()))
    first, second = sorted(faults(corpus), key=lambda fault: "heights" in fault)
    said = ", ".join(f"{name} {number}" for name, number in place.items())
    assert first.startswith(f"shard-00001.arrow: row {row} ({said}): ")
    assert "dependency roots" in first
    assert f"row {other} " in second
    assert second.endswith("its heights do not match its trees")


def test_places_ascend_within_and_across_shards(corpus):
    first, table = loaded(corpus, 0), loaded(corpus, 1)
    for changed, row in ((table.take([1, 0, *range(2, len(table))]), 1), (first, 0)):
        (fault,) = (each for each in faults(rewritten(corpus, 1, changed)) if each.startswith("shard-"))
        assert fault.startswith(f"shard-00001.arrow: row {row} ")
        assert fault.endswith("its place does not follow that of the previous sentence")


def test_damaged_files(corpus):
    paths = [corpus / shard_name(number) for number in range(3)]
    content = bytearray(paths[0].read_bytes())
    content[len(content) // 2] ^= 1
    paths[0].write_bytes(content)
    with pytest.raises(InputError, match=r"shard-00000\.arrow is damaged: its checksum"):
        ParsedCorpus.open(corpus).sentence(0)
    paths[1].unlink()
    paths[2].write_bytes(paths[2].read_bytes()[:-1])
    assert [fault.split(", but")[0] for fault in faults(corpus)] == [
        "shard-00000.arrow: its checksum does not match the manifest",
        "shard-00001.arrow: the file is missing",
        f"shard-00002.arrow: it has {paths[2].stat().st_size} bytes",
    ]


def test_files_that_are_no_shards(corpus):
    table = loaded(corpus, 0)
    cases = {
        "its columns are not those of a parsed corpus": table.drop_columns(["tags"]),
        "a value is missing": table.set_column(0, "document", pa.array([None] * len(table), pa.int32())),
        "it is not one record batch": pa.concat_tables([table.slice(0, 2), table.slice(2)]),
    }
    for fault, changed in cases.items():
        copy = corpus.with_name(f"{fault}.parsed")
        shutil.copytree(corpus, copy)
        assert faults(rewritten(copy, 0, changed)) == [f"shard-00000.arrow: {fault}"]


def test_counts_and_checksum_of_the_manifest(corpus, tmp_path):
    text = (corpus / "manifest.json").read_text()
    content = json.loads(text)
    wrong = {"documents": 9, "has_dependencies": False, "skipped": []}
    assert faults(rewritten(corpus, 0, None, wrong)) == [
        f"manifest.json: documents: 9, but the shards have {content['documents']}",
        "manifest.json: has_dependencies: False, but the shards have True",
        f"manifest.json: skipped: 0, but the shards have {len(content['skipped'])}",
    ]
    (corpus / "manifest.json").write_text(text.replace('"documents"', '"papers"'))
    assert faults(corpus) == ["manifest.json: its checksum does not match its content"]
    with pytest.raises(InputError, match="is not a parsed corpus"):
        faults(tmp_path)
