"""Exact search, against loops over all vectors; pools, their files, and the command."""

import shutil

import numpy as np
import pytest
from corpora import topic_rows, write_corpus
from rich.console import Console
from shell import fails, refused

from structviews.cli import evaluate
from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import SentenceError
from structviews.evaluation.retrieval import candidates, neighbours
from structviews.evaluation.retrieval.candidates import Pool, pool_vectors, vectors_path
from structviews.evaluation.retrieval.neighbours import count_rivals, nearest


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks of vectors and several of queries in small tests."""
    monkeypatch.setattr(neighbours, "FIRST_BLOCK", 2)
    monkeypatch.setattr(neighbours, "QUERIES", 3)
    monkeypatch.setattr(neighbours, "BLOCK_BYTES", 4 * 6 * 17)


def cosine(a, b):
    lengths = np.sqrt(float(a @ a)) * np.sqrt(float(b @ b))
    return float(a @ b) / lengths if lengths else 0.0


@pytest.mark.parametrize("k", [1, 10, 130])
@pytest.mark.usefixtures("small_blocks")
def test_nearest_is_that_of_plain_loops(k):
    rng = np.random.default_rng(k)
    vectors, queries = rng.standard_normal((120, 6)).astype(np.float32), rng.standard_normal((8, 6)).astype(np.float32)
    itself = np.array([-1, 0, 119, 50, -1, 17, 17, 3])
    found = nearest(queries, vectors, k, itself)
    for query, own, scores, rows in zip(queries, itself, found.scores, found.rows, strict=True):
        expected = sorted((i for i in range(120) if i != own), key=lambda i: -cosine(query, vectors[i]))[:k]
        assert rows.tolist() == expected + [-1] * (k - len(expected))
        np.testing.assert_allclose(scores[: len(expected)], [cosine(query, vectors[i]) for i in expected], atol=1e-4)


@pytest.mark.usefixtures("small_blocks")
def test_of_equals_the_first_is_found(rng):
    vectors = np.eye(6, dtype=np.float32)[rng.integers(6, size=100)] * rng.choice([1, 2, 4], size=(100, 1)).astype("f4")
    queries = np.eye(6, dtype=np.float32)
    for query, rows in enumerate(nearest(queries, vectors, 8, np.full(6, -1)).rows):
        assert rows.tolist() == np.flatnonzero(vectors[:, query] > 0)[:8].tolist()


@pytest.mark.usefixtures("small_blocks")
def test_rivals_are_those_of_plain_loops():
    rng = np.random.default_rng(1)
    # Directions along one axis or two, so that cosines are equal exactly or clearly not; some are zero.
    vectors = (rng.integers(-1, 2, size=(90, 6)) * (rng.random((90, 6)) < 0.3)).astype(np.float32)
    queries = np.eye(6, dtype=np.float32)
    scores = np.array([0, 0, 1, -1, 0, 1], np.float32)
    hidden = np.array([0, 3, 4, 40, 41, 89])
    ranks = count_rivals(queries, vectors, scores, hidden)
    for query, score, higher, tied in zip(queries, scores, *ranks, strict=True):
        rivals = [cosine(query, vectors[i]) for i in range(90) if i not in hidden]
        assert higher == sum(rival > score for rival in rivals)
        assert tied == sum(rival == score for rival in rivals)
    assert ranks.tied.min() > 0


LINES = ["one bird sings", "two birds sing", "", "one  bird sings", "three birds", "one bird sings", "two birds sing"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "pool.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def test_a_sentence_is_in_the_pool_once(text):
    opened = Pool(text)
    assert opened.texts == ["one bird sings", "two birds sing", "three birds"]
    assert opened.positions.tolist() == [1, 2, 5]
    assert opened.counts.tolist() == [3, 2, 1]
    assert opened.rows_of(["three birds", "four birds", "one bird sings"]).tolist() == [2, -1, 0]
    assert opened.describe(0) == f"{text}:1 (and 2 more)  one bird sings"
    assert opened.describe(2) == f"{text}:5  three birds"


def test_a_parsed_corpus_is_a_pool_with_its_trees(tmp_path):
    rows = topic_rows(documents=3)
    opened = Pool(write_corpus(tmp_path / "x.parsed", [*rows, *rows[:5]], shard_size=10))
    texts = [" ".join(row.sentence.tokens) for row in [*rows, *rows[:5]]]
    assert opened.texts == list(dict.fromkeys(texts))
    assert opened.positions.tolist() == [texts.index(text) for text in opened.texts]
    assert opened.counts.tolist() == [texts.count(text) for text in opened.texts]
    assert opened.sentences(3, 9) == [rows[i].sentence for i in opened.positions[3:9]]
    assert opened.read("They don't.") == ("They do n't .", ("They", "do", "n't", "."))
    assert Pool(tmp_path / "x.parsed", tokenised=True).read("don't  x") == ("don't x", ("don't", "x"))


def test_an_interrupted_encoding_goes_on_and_ends_the_same(run, tmp_path, monkeypatch, interrupted):
    monkeypatch.setattr(candidates, "AT_ONCE", 7)
    opened = Pool(write_corpus(tmp_path / "x.parsed", topic_rows(documents=5)))
    embedder = Embedder.load(run)
    path = vectors_path(opened, run, embedder)
    blocks = [embedder.encode(opened.sentences(i, i + 7)) for i in range(0, len(opened), 7)]
    expected, seen = np.concatenate(blocks), []
    with interrupted(3), pytest.raises(KeyboardInterrupt):
        pool_vectors(opened, run, embedder)
    with interrupted(len(blocks)) as calls:
        found = pool_vectors(opened, run, embedder, lambda *done: seen.append(done))
    np.testing.assert_array_equal(found, expected)
    assert len(calls) == len(blocks) - 3
    assert seen[-1] == (len(opened), len(opened))
    assert set(path.parent.iterdir()) == {path, path.with_suffix(".digests")}
    with interrupted(0):
        vectors = pool_vectors(opened, run, embedder)
    assert isinstance(vectors, np.memmap)
    np.testing.assert_array_equal(vectors, expected)
    assert path.read_bytes()[-expected.nbytes :] == expected.tobytes()


def test_other_vectors_and_other_sentences_get_another_file(run, text):
    embedder, opened = Embedder.load(run), Pool(text)
    changed = text.with_name("changed.txt")
    changed.write_text(text.read_text() + "one more\n")
    pools = (opened, Pool(text, tokenised=True), Pool(changed))
    paths = [vectors_path(pool, run, embedder) for pool in pools]
    paths.append(vectors_path(opened, run, embedder.with_representation(pooling="mean")))
    assert len({path.name for path in paths}) == 4
    assert {path.parent.name for path in paths} == {"pool.txt.vectors", "changed.txt.vectors"}


class Gives:
    """An embedder of given vectors."""

    dim, description = 2, "given"

    def __init__(self, *vectors):
        self.vectors = vectors

    def encode(self, sentences, **options):
        if not self.vectors:
            raise SentenceError(2, "'two birds sing': not parsed")
        return np.array(self.vectors[: len(sentences)], dtype=np.float32)


def test_what_cannot_be_encoded_says_where(run, text):
    assert "pool.txt:5: 'two birds sing': not parsed" in refused(pool_vectors, Pool(text), run, Gives())
    infinite = Gives([1, 2], [3, 4], [np.nan, 1])
    assert "pool.txt:5: its vector is not finite" in refused(pool_vectors, Pool(text), run, infinite)
    assert not list((text.parent / "pool.txt.vectors").glob("*.npy"))


@pytest.mark.usefixtures("text")
def test_the_command_shows_the_nearest_but_not_the_query(run, tmp_path, does):
    flags = ("--corpus", "pool.txt", "-k", 2, "--tokenised", "--query")
    title, *lines = does("nearest", run, *flags, "one bird   sings").splitlines()
    assert title == "one bird sings"
    shown = {line[7:].strip() for line in lines}
    assert shown == {"pool.txt:2 (and 1 more)  two birds sing", "pool.txt:5  three birds"}
    (tmp_path / "queries.txt").write_text("three birds\nsomething else\n")
    printed = does("nearest", run, *flags, "queries.txt", "--similarity")
    assert [line for line in printed.splitlines() if line[0] != " "] == ["three birds", "something else"]
    assert len(printed.splitlines()) == 6


@pytest.mark.usefixtures("text")
def test_what_several_runs_find_stands_side_by_side(run, tmp_path, does, monkeypatch):
    # Every row on one line; a console keeps the $COLUMNS that it finds when it is made.
    monkeypatch.setattr(evaluate, "console", Console(width=400))
    shutil.copytree(run, tmp_path / "other")
    flags = ("--corpus", "pool.txt", "-k", 2, "--tokenised", "--query", "one bird sings")
    title, *lines = does("nearest", run, "other", *flags).splitlines()
    assert title.strip() == "one bird sings"
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if line.startswith("│")]
    assert rows == [[line.strip()] * 2 for line in does("nearest", run, *flags).splitlines()[1:]]


@pytest.mark.usefixtures("text")
def test_bad_input_is_one_line(run, tmp_path, command):
    (tmp_path / "empty.txt").write_text("\n \n\n")
    for flags, message in (
        (("--query", "x", "-k", "0"), "Invalid value for '-k'"),
        (("--query", " "), "--query: empty: give a sentence"),
        (("--query", "x", "--corpus", "empty.txt"), "empty.txt: empty: give a file or corpus with sentences"),
    ):
        assert message in fails(command, tmp_path, "nearest", run, "--corpus", "pool.txt", *flags)
