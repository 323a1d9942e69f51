"""Sentence analogies: the file, the questions and the answers, against plain loops."""

import numpy as np
import pytest
from shell import refused

from structviews.encoding.embedder import Embedder
from structviews.evaluation.retrieval import analogy
from structviews.evaluation.retrieval.analogy import rank_answers, read_tuples, scores_by_category
from structviews.evaluation.retrieval.candidates import Pool
from structviews.evaluation.scores.results import load_entries
from structviews.runs.folder import model_checksum


@pytest.fixture
def folder(tmp_path):
    """A pool with three of the tuples' eight sentences in it, one of them twice."""
    pool = ("topic0-0 it", "topic0-1 it", "topic0-0 it", "topic2-1 of", "the topic3-2", "of the topic2-0 it")
    tuples = (
        "topic0-0 it\ttopic0-1 it\ttopic1-0 the\ttopic1-1 the",
        ": tense",
        "topic2-0 of\ttopic2-1 of\ttopic3-0 and\ttopic3-1 and",
        "topic0-1  it\ttopic1-1 the\ttopic0-0 it\ttopic1-0 the",
    )
    for name, lines in (("pool.txt", pool), ("tuples.tsv", tuples)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def test_tuples_are_read_with_their_categories(folder):
    tuples = read_tuples(folder / "tuples.tsv", Pool(folder / "pool.txt"))
    words = (("it", 2), ("the", 2), ("of", 2), ("and", 2))
    assert tuples.texts == [f"topic{k}-{i} {word}" for k, (word, n) in enumerate(words) for i in range(n)]
    assert tuples.rows.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [1, 3, 0, 2]]
    assert tuples.categories == ["all", "tense", "tense"]


def test_bad_tuples_are_one_line(folder):
    for content, message in (
        ("a\tb\tc\td\na\tb\tc\n", "tuples.tsv:2: 3 tab-separated sentences, not 4"),
        ("a\tb\t \td\n", "tuples.tsv:1: 4 tab-separated sentences, not 4 non-empty"),
        ("a\tb  x\tc\tb x\n", "tuples.tsv:1: two of the four sentences are the same"),
        (": family\n", "tuples.tsv: no analogies"),
    ):
        (folder / "tuples.tsv").write_text(content)
        assert message in refused(read_tuples, folder / "tuples.tsv", Pool(folder / "pool.txt"))


def test_every_sentence_of_a_tuple_is_asked_for(rng):
    """In the vectors of exact analogies, where D = C + B - A, each question's query is its answer."""
    a, b, c = rng.standard_normal((3, 5))
    vectors = np.stack([a, b, c, c + b - a])
    plus, also, minus, right = analogy.QUESTIONS.T
    np.testing.assert_allclose(vectors[plus] + vectors[also] - vectors[minus], vectors[right])
    assert sorted(right) == [0, 1, 2, 3]


@pytest.mark.parametrize("at_once", [1, 2**27])
def test_ranks_are_those_of_plain_loops(at_once, monkeypatch):
    monkeypatch.setattr(analogy, "AT_ONCE", at_once)
    rng = np.random.default_rng(2)
    vectors, pool = rng.standard_normal((12, 4)).astype(np.float32), rng.standard_normal((60, 4)).astype(np.float32)
    questions = np.array([rng.choice(12, 4, replace=False) for _ in range(25)])
    hidden = np.array([0, 7, 33])
    ranks, all_misled = rank_answers(vectors, questions, pool, hidden)
    for (plus, also, minus, right), higher, tied, misled in zip(questions, *ranks, all_misled, strict=True):
        query = vectors[plus] + vectors[also] - vectors[minus]

        def score(vector, query=query):
            return vector @ query / np.linalg.norm(query) / np.linalg.norm(vector)

        others = [v for i, v in enumerate(vectors) if i not in (plus, also, minus, right)]
        others += [v for i, v in enumerate(pool) if i not in hidden]
        assert higher == sum(score(v) > score(vectors[right]) for v in others)
        assert tied == 1
        assert misled == sum(score(vectors[i]) >= score(vectors[right]) for i in (plus, also, minus))
    assert len(set(all_misled)) > 1


def test_the_command_has_a_sentence_of_tuples_and_pool_as_one_candidate(run, folder, does):
    does("tasks", "analogies", run, "--tuples", "tuples.tsv", "--pool", "pool.txt")
    (entry,) = load_entries(run, model_checksum(run))
    pool = Pool(folder / "pool.txt")
    tuples = read_tuples(folder / "tuples.tsv", pool)
    distinct = list(dict.fromkeys([*tuples.texts, *pool.texts]))
    assert entry["settings"] == {"tuples": 3, "candidates": len(distinct)}
    vectors, n = Embedder.load(run).encode(distinct), len(tuples.texts)
    questions = np.concatenate([rows[analogy.QUESTIONS] for rows in tuples.rows])
    ranks, misled = rank_answers(vectors[:n], questions, vectors[n:], np.array([], dtype=int))
    expected = scores_by_category(ranks, misled, np.repeat(tuples.categories, 4))
    assert entry["scores"] == {category: pytest.approx(each) for category, each in expected.items()}
    assert {category: each["questions"] for category, each in expected.items()} == {"all": 12, "tense": 8}


def test_scores_count_the_nearest():
    ranks = analogy.Ranks(np.array([0, 0, 1, 40, 9]), np.array([1, 1, 1, 1, 1]))
    scores = scores_by_category(ranks, np.array([0, 2, 0, 3, 0]), np.array(["x", "x", "y", "y", "y"]))
    expected = {"accuracy": 0.4, "accuracy, inputs among the candidates": 0.2, "recall@10": 0.8, "median rank": 2}
    assert scores["all"] == {"questions": 5} | expected
    assert (scores["x"]["accuracy"], scores["y"]["accuracy"]) == (1, 0)
