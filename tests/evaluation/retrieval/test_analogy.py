"""Sentence analogies: the file, the questions, the answers and the mining, against plain loops."""

import itertools

import numpy as np
import pytest
from corpora import random_trees, small_config, topic_corpus, write_corpus
from typer.testing import CliRunner

from structviews.cli.app import app
from structviews.corpus.format import Row
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.retrieval import analogy, analogy_mining
from structviews.evaluation.retrieval.analogy import (
    analogy_scores,
    answer,
    rank_answers,
    read_tuples,
)
from structviews.evaluation.retrieval.analogy_mining import (
    mine,
    read_word_analogies,
    sentence_pairs,
    write_tuples,
)
from structviews.evaluation.retrieval.candidates import open_pool, pool_vectors
from structviews.evaluation.retrieval.records import load_entries
from structviews.runs.folder import model_checksum
from structviews.training.loop import train


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return train(small_config(topic_corpus(folder / "x.parsed"), folder / "run", ("seq", "avg"), steps=2))


@pytest.fixture
def place(tmp_path):
    """A pool with three of the tuples' eight sentences in it, one of them twice."""
    (tmp_path / "pool.txt").write_text(
        "topic0-0 it\ntopic0-1 it\ntopic0-0 it\ntopic2-1 of\nthe topic3-2\nof the topic2-0 it\n"
    )
    lines = [
        "topic0-0 it\ttopic0-1 it\ttopic1-0 the\ttopic1-1 the",
        ": tense",
        "topic2-0 of\ttopic2-1 of\ttopic3-0 and\ttopic3-1 and",
    ]
    (tmp_path / "tuples.tsv").write_text(
        "\n".join([*lines, "topic0-1  it\ttopic1-1 the\ttopic0-0 it\ttopic1-0 the"]) + "\n"
    )
    return tmp_path


def test_tuples_are_read_with_their_categories(place):
    tuples = read_tuples(place / "tuples.tsv", open_pool(place / "pool.txt"))
    assert tuples.texts == [
        "topic0-0 it", "topic0-1 it", "topic1-0 the", "topic1-1 the", "topic2-0 of", "topic2-1 of",
        "topic3-0 and", "topic3-1 and",
    ]  # fmt: skip
    assert tuples.rows.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [1, 3, 0, 2]]
    assert tuples.categories == ["all", "tense", "tense"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\tc\td\na\tb\tc\n", "tuples.tsv:2: 3 tab-separated sentences, not 4"),
        ("a\tb\tc\td\te\n", "tuples.tsv:1: 5 tab-separated sentences"),
        ("a\tb\t \td\n", "tuples.tsv:1: 4 tab-separated sentences, not 4 non-empty"),
        ("a\tb\tc\td\n\n", "tuples.tsv:2: 1 tab-separated sentences"),
        ("a\tb  x\tc\tb x\n", "tuples.tsv:1: two of the four sentences are the same"),
        (": family\n", "tuples.tsv: no analogies"),
        ("", "tuples.tsv: empty"),
    ],
)
def test_bad_tuples_are_one_line(place, content, message):
    (place / "tuples.tsv").write_text(content)
    with pytest.raises(InputError) as error:
        read_tuples(place / "tuples.tsv", open_pool(place / "pool.txt"))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_every_sentence_of_a_tuple_is_asked_for():
    """In the vectors of exact analogies, where D = C + B - A, each question's query is its answer."""
    a, b, c = np.random.default_rng(0).standard_normal((3, 5))
    vectors = np.stack([a, b, c, c + b - a])
    for plus, also, minus, right in analogy.QUESTIONS:
        np.testing.assert_allclose(vectors[plus] + vectors[also] - vectors[minus], vectors[right])
    assert sorted(analogy.QUESTIONS[:, 3]) == [0, 1, 2, 3]


@pytest.mark.parametrize("at_once", [1, 2**27])
def test_ranks_are_those_of_plain_loops(at_once, monkeypatch):
    monkeypatch.setattr(analogy, "AT_ONCE", at_once)
    rng = np.random.default_rng(2)
    vectors, pool = rng.standard_normal((12, 4)).astype(np.float32), rng.standard_normal((60, 4)).astype(np.float32)
    given = np.array([rng.choice(12, 4, replace=False) for _ in range(25)])
    hidden = np.array([0, 7, 33])
    found = rank_answers(vectors, given, pool, hidden)
    for (plus, also, minus, right), higher, tied, misled in zip(given, *found.ranks, found.misled, strict=True):
        query = vectors[plus] + vectors[also] - vectors[minus]

        def score(vector, query=query):
            return vector @ query / np.linalg.norm(query) / np.linalg.norm(vector)

        others = [v for i, v in enumerate(vectors) if i not in (plus, also, minus, right)]
        others += [v for i, v in enumerate(pool) if i not in hidden]
        assert higher == sum(score(v) > score(vectors[right]) for v in others)
        assert tied == 1
        assert misled == sum(score(vectors[i]) >= score(vectors[right]) for i in (plus, also, minus))
    assert len(set(found.misled)) > 1


def test_a_sentence_of_tuples_and_pool_is_one_candidate(run, place):
    pool, embedder = open_pool(place / "pool.txt"), Embedder.load(run)
    tuples = read_tuples(place / "tuples.tsv", pool)
    answers = answer(tuples, pool, run, embedder)
    distinct = list(dict.fromkeys([*tuples.texts, *pool.texts]))
    assert len(distinct) == 10
    unit = embedder.encode(distinct)
    vectors, unit = unit, unit / np.linalg.norm(unit, axis=1, keepdims=True)
    expected = {"all": [], "tense": []}
    for rows, category in zip(tuples.rows, tuples.categories, strict=True):
        for plus, also, minus, right in rows[analogy.QUESTIONS]:
            scores = unit @ (vectors[plus] + vectors[also] - vectors[minus])
            others = np.delete(scores, [plus, also, minus, right])
            expected[category].append((int((others > scores[right]).sum()), 1 + int((others == scores[right]).sum())))
    found = {name: list(zip(*(part.tolist() for part in each.ranks), strict=True)) for name, each in answers.items()}
    assert found == expected
    assert [len(each) for each in answers.values()] == [4, 8]


def test_scores_count_the_nearest():
    ranks = analogy.Ranks(np.array([0, 0, 1, 40, 9]), np.array([1, 1, 1, 1, 1]))
    found = analogy.Analogies(ranks, np.array([0, 2, 0, 3, 0]))
    scores = analogy_scores({"x": found[np.array([0, 1])], "y": found[np.array([2, 3, 4])]})
    assert scores["all"] == {
        "questions": 5,
        "accuracy": 0.4,
        "accuracy, inputs among the candidates": 0.2,
        "recall@10": 0.8,
        "median rank": 2,
    }
    assert (scores["x"]["accuracy"], scores["y"]["accuracy"]) == (1, 0)


SENTENCES = [
    "He sang .", "She sang .", "he sang !", "His dad slept", "The king fell", "the QUEEN fell .", "A king fell",
    "a queen fell over", "He saw the king", "He saw the queen", "she saw the king", "king king", "queen king",
    "His dad slept", '" His mom slept "', "I sang , he", "I sang she",
]  # fmt: skip
WORDS = ": family\nhe she king queen\ndad mom he she\nking queen dad mom\n: none\ngood better bad worse\n"


@pytest.fixture
def corpus(tmp_path):
    rows = [Row(0, i, i + 1, random_trees(text.split())) for i, text in enumerate(SENTENCES)]
    from structviews.corpus.parsed_corpus import ParsedCorpus

    return ParsedCorpus.open(write_corpus(tmp_path / "x.parsed", rows, shard_size=4))


def key(text):
    return tuple(word for word in text.lower().split() if any(c.isalnum() for c in word))


def test_pairs_are_those_of_plain_loops(corpus):
    wanted = {("he", "she"): None, ("king", "queen"): None, ("dad", "mom"): None, ("she", "he"): None}
    first = {}
    for row, text in enumerate(SENTENCES):
        first.setdefault(key(text), row)
    for (a, b), found in sentence_pairs(corpus, wanted).items():
        expected = set()
        for (s, row), (t, other) in itertools.permutations(first.items(), 2):
            different = [(x, y) for x, y in zip(s, t, strict=False) if x != y]
            if len(s) == len(t) and different == [(a, b)]:
                expected.add((row, other))
        assert expected
        assert set(found) == expected
        assert len(found) == len(expected)


def test_tuples_are_joined_by_word_analogies(corpus, tmp_path):
    (tmp_path / "words.txt").write_text(WORDS)
    mined = mine(corpus, read_word_analogies(tmp_path / "words.txt"))
    assert {name: found.analogies for name, found in mined.items()} == {"family": 3, "none": 1}
    assert not mined["none"].tuples
    replaced = {("he", "she"), ("king", "queen"), ("dad", "mom")}
    assert len(mined["family"].tuples) == 3 + 1 + 1
    for a, b, c, d in mined["family"].tuples:
        for s, t in ((a, b), (c, d)):
            assert s in SENTENCES
            assert t in SENTENCES
            assert next((x, y) for x, y in zip(key(s), key(t), strict=True) if x != y) in replaced
    write_tuples(tmp_path / "tuples.tsv", mined)
    read = read_tuples(tmp_path / "tuples.tsv", open_pool(tmp_path / "x.parsed", tokenised=True))
    assert [tuple(read.texts[i] for i in rows) for rows in read.rows] == mined["family"].tuples
    assert set(read.categories) == {"family"}


def test_a_word_analogy_gives_few_tuples(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(analogy_mining, "MOST", 2)
    (tmp_path / "words.txt").write_text("he she king queen\n")
    (found,) = mine(corpus, read_word_analogies(tmp_path / "words.txt")).values()
    assert len(found.tuples) == 2
    assert len({a for a, *_ in found.tuples}) == 2


def test_bad_word_lists_are_one_line(corpus, tmp_path):
    words = tmp_path / "words.txt"
    for content, message in (
        ("a b c d\n: x\na b c\n", "words.txt:3: 3 words, not 4"),
        (": x\n", "words.txt: no analogies"),
    ):
        words.write_text(content)
        with pytest.raises(InputError, match=message):
            read_word_analogies(words)
    words.write_text("good better bad worse\n")
    with pytest.raises(InputError, match=r"no sentences that differ only in the words .*: give a larger corpus"):
        mine(corpus, read_word_analogies(words))


def test_the_commands_make_and_score(run, corpus, tmp_path):
    (tmp_path / "words.txt").write_text(WORDS)
    tuples = str(tmp_path / "tuples.tsv")
    made = CliRunner().invoke(
        app, ["tasks", "make-analogies", str(corpus.path), "--words", str(tmp_path / "words.txt"), "-o", tuples]
    )
    assert made.exit_code == 0, made.output
    assert "family: 5 tuples from 3 word analogies" in made.stdout
    command = ["tasks", "analogies", str(run), "--tuples", tuples, "--pool", str(corpus.path), "--tokenised"]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 0, ended.output
    (entry,) = load_entries(run, model_checksum(run))
    assert entry["settings"] == {"tuples": 5, "candidates": len(open_pool(corpus.path))}
    assert entry["scores"]["all"]["questions"] == 20
    assert set(entry["scores"]) == {"family", "all"}


def test_pool_vectors_are_shared_with_nearest(run, place):
    pool, embedder = open_pool(place / "pool.txt"), Embedder.load(run)
    made = pool_vectors(pool, run, embedder).filename
    answer(read_tuples(place / "tuples.tsv", pool), pool, run, embedder)
    files = sorted(path.name for path in (place / "pool.txt.vectors").iterdir())
    assert files == [f"{made.stem}.digests", made.name]
