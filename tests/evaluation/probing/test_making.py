"""Whole folders of tasks, made from the grammar's sentences, and what is refused."""

import json
import random
from collections import Counter
from functools import partial

import numpy as np
import pytest
from corpora import opened, random_trees, write_corpus
from grammar import annotated, grammar_rows
from nltk_trees import as_nltk

from structviews.corpus.layout import Row
from structviews.corpus.sentence import ParsedSentence
from structviews.evaluation.parses import Parses
from structviews.evaluation.probing.probing_tasks import Pool, tree_depth
from structviews.evaluation.probing.probing_tasks import make_tasks as make_all
from structviews.evaluation.senteval.tasks.finding import PROBING
from structviews.parsing.binarise import unbinarise

N = 4000
make_tasks = partial(make_all, size=100_000, sentences=1_000_000, seed=1, progress=lambda stage: None)


@pytest.fixture(scope="module")
def rows():
    return grammar_rows(N)


@pytest.fixture(scope="module")
def corpus(rows, tmp_path_factory):
    return opened(write_corpus(tmp_path_factory.mktemp("grammar") / "c.parsed", rows, shard_size=700))


@pytest.fixture(scope="module")
def folder(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "probing"
    make_tasks(corpus, folder, size=3000)
    return folder


@pytest.fixture(scope="module")
def row_of(rows):
    """Rows by their words."""
    return {" ".join(row.sentence.tokens): row for row in rows}


def lines(folder, file):
    return [line.split("\t") for line in (folder / file).read_text("utf-8").splitlines()]


def test_every_task_is_there_balanced_and_described(folder):
    manifest = json.loads((folder / "probing.json").read_text())
    assert manifest["left_out"].keys() == {"Depth"}
    assert manifest["tasks"].keys() | manifest["left_out"].keys() == PROBING.keys()
    for entry in manifest["tasks"].values():
        found = lines(folder, entry["file"])
        assert Counter(line[0] for line in found) == entry["examples"]
        assert sorted({line[1] for line in found}) == entry["labels"]
        assert [line[0] for line in found] == sorted((line[0] for line in found), key=("tr", "va", "te").index)
        assert entry["examples"]["tr"] <= 3000
        counts = Counter((line[0], line[1]) for line in found)  # balanced, but for depth
        assert all(len({n for (p, _), n in counts.items() if p == part}) == 1 for part in ("tr", "va", "te")), entry


def number(s, relation):
    """The tag of the root's child with a relation."""
    return s.tags[next(i for i, r in enumerate(s.relations) if r == relation and s.heads[s.heads[i] - 1] == 0)]


@pytest.mark.parametrize(
    ("file", "label"),
    [
        ("sentence_length.txt", lambda s: str(sum(len(s.tokens) > longest for longest in (8, 12, 16, 20, 25)))),
        ("past_present.txt", lambda s: {"VBZ": "PRES", "VBD": "PAST"}[s.tags[s.heads.index(0)]]),
        ("subj_number.txt", partial(number, relation="nsubj")),
        ("obj_number.txt", partial(number, relation="obj")),
        ("root_position.txt", lambda s: str(4 * s.heads.index(0) // len(s.heads))),
        ("pp_attachment.txt", lambda s: "N" if "nmod" in s.relations else "V"),
    ],
)
def test_labels_are_those_of_the_trees(folder, row_of, file, label):
    assert all(found == label(row_of[text].sentence) for _, found, text in lines(folder, file))


def test_depths_are_those_of_the_trees_and_not_of_lengths():
    rng = random.Random(4)
    sentences = [annotated(rng.randint(5, 20), rng) for _ in range(3000)]
    pool = Pool(Parses.of(sentences), np.arange(3000) % 4 - 1, (600, 600, 600), np.random.default_rng(0))
    examples = tree_depth(pool)
    (chosen,) = examples.intact
    depths = [as_nltk(unbinarise(sentences[i])).height() - 1 for i in chosen]
    assert examples.labels.tolist() == [str(depth) for depth in depths]
    assert set(depths) >= set(range(6, 12))
    for part in range(3):
        lengths, inside = pool.parses.lengths[chosen], examples.parts == part
        assert 100 < inside.sum() <= 700
        assert abs(np.corrcoef(lengths[inside], np.array(depths)[inside])[0, 1]) <= 0.1


def test_a_content_word_is_the_only_one(folder):
    found = lines(folder, "word_content.txt")
    targets = {label for _, label, _ in found}
    assert len(targets) > 3
    for _, label, text in found:
        assert [word for word in text.lower().split() if word in targets] == [label]


def test_the_longer_clause_does_not_tell_of_inversion(folder):
    counts = Counter()
    for part, label, text in lines(folder, "coordination_inversion.txt"):
        first, second = text[:-2].split(" and ")
        counts[part, np.sign(len(first.split()) - len(second.split())), label] += 1
    assert len(counts) == 18
    assert all(counts[part, sign, "O"] == counts[part, sign, "I"] for part, sign, _ in counts)


def test_parts_share_no_document_and_only_changed_sentences_are_not_in_the_corpus(folder, row_of):
    trees = {" ".join(row.sentence.tokens): row for row in opened(folder / "intact.parsed")}
    assert all(row == row_of[text] for text, row in trees.items())
    part_of = {}
    for part, label, *sentences in (line for path in folder.glob("*.txt") for line in lines(folder, path.name)):
        assert label in ("I", "C") or trees.keys() >= set(sentences)
        assert label != "I" or sentences[0] not in row_of
        for text in set(sentences) & row_of.keys():
            assert part_of.setdefault(row_of[text].document, part) == part
    assert set(part_of.values()) == {"tr", "va", "te"}


def test_the_same_seed_makes_the_same_files(corpus, folder, tmp_path):
    make_tasks(corpus, tmp_path / "again", size=3000)
    make_tasks(corpus, tmp_path / "other", size=3000, seed=2)
    for path in folder.rglob("*.*"):
        if path.is_file():
            assert (tmp_path / "again" / path.relative_to(folder)).read_bytes() == path.read_bytes()
    for file in ("bigram_shift.txt", "past_present.txt", "tree_edit.txt"):
        assert (tmp_path / "other" / file).read_bytes() != (folder / file).read_bytes()


def test_shards_with_more_words_together_than_each_alone(tmp_path):
    """Each with indices as narrow as its own words allow: 8 and 16 bits."""
    sentences = [[f"w{i}" for i in range(100)], [f"v{i}" for i in range(300)]]
    rows = [Row(0, position, position + 1, random_trees(words)) for position, words in enumerate(sentences)]
    corpus = opened(write_corpus(tmp_path / "c.parsed", rows, shard_size=1))
    found, expected = Parses.read(corpus, 1, 1000, 10, np.random.default_rng(0)), Parses.of([r.sentence for r in rows])
    for name in ("words", "tags", "relations", "labels"):
        column, alone = getattr(found, name), getattr(expected, name)
        assert column.names[column.ids].tolist() == alone.names[alone.ids].tolist()
        assert column.names.tolist() == alone.names.tolist()
    for name in ("head_words", "left", "right", "starts"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_repeated_sentences_count_once(rows, tmp_path):
    twice = [Row(r.document + d * N, r.position, r.line, r.sentence) for d in range(2) for r in rows[:1500]]
    make_tasks(opened(write_corpus(tmp_path / "twice.parsed", twice, 1000)), tmp_path / "made", size=1000)
    found = [text for _, _, text in lines(tmp_path / "made", "sentence_length.txt")]
    assert len(set(found)) == len(found)


def test_without_trees_some_tasks_are_left_out(rows, tmp_path, command):
    bare = [Row(r.document, r.position, r.line, ParsedSentence(r.sentence.tokens)) for r in rows]
    _, *printed = command("tasks", "make-probing", write_corpus(tmp_path / "bare.parsed", bare, 1000), "-o", "made")
    assert "PPAttachment is left out: the corpus has no tags" in " ".join("".join(printed).split())
    made = {path.name for path in (tmp_path / "made").glob("*.txt")}
    assert made == {"sentence_length.txt", "word_content.txt", "bigram_shift.txt"}


def test_refusals(corpus, rows, tmp_path, one_line):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    few = opened(write_corpus(tmp_path / "few.parsed", rows[:50]))
    short = opened(write_corpus(tmp_path / "short.parsed", [Row(0, 0, 1, ParsedSentence(("Yes", ".")))]))
    for source, out, sizes, message in (
        (corpus, "full", {}, "already exists: give another folder with --out"),
        (corpus, "a", {"size": 10}, "size = 10: give at least 500"),
        (corpus, "a", {"sentences": 0}, "sentences = 0"),
        (few, "a", {}, r"too small for any task \(Length: .* examples; every part needs 50\): give"),
        (short, "a", {}, "no sentences of 5 to 28 words"),
    ):
        with one_line(message):
            make_tasks(source, tmp_path / out, **sizes)
    assert {path.name for path in tmp_path.iterdir()} == {"full", "few.parsed", "short.parsed"}
