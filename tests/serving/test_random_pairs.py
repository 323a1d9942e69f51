"""What a cosine is compared with: the pairs of a sample, counted one by one."""

from itertools import combinations

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs structviews[serve]")

from structviews.evaluation.retrieval.candidates import open_pool
from structviews.serving import random_pairs
from structviews.serving.endpoints import compared
from structviews.serving.random_pairs import RandomPairs
from structviews.serving.served import ServedRun


def cosines(vectors):
    return [float(a @ b / np.sqrt(a @ a * (b @ b))) for a, b in combinations(vectors.astype(np.float64), 2)]


def test_shares_are_those_of_pairs_counted_one_by_one(embedders, pool):
    embedder = embedders[1]
    pairs = RandomPairs.of(pool, embedder)
    sentences = pool.sentences(0, len(pool))
    by_hand = [cosines(each) for each in [*embedder.encode_views(sentences), embedder.encode(sentences)]]
    for found, expected in zip(pairs.cosines, by_hand, strict=True):
        np.testing.assert_allclose(found, sorted(expected), atol=1e-5)
    asked = [np.mean(each) for each in by_hand]
    shares = pairs.closer_than(asked[:-1], asked[-1])
    counted = [np.mean(np.array(each) < value) for each, value in zip(by_hand, asked, strict=True)]
    assert [*shares.views, shares.joined] == pytest.approx(counted)
    assert 0 < shares.joined < 1


def test_a_large_pool_is_sampled_in_the_same_way_each_time(embedders, tmp_path, monkeypatch):
    monkeypatch.setattr(random_pairs, "SENTENCES", 5)
    text = tmp_path / "x.txt"
    text.write_text("".join(f"bird {i} sings to {'the ' * i} cat\n" for i in range(30)))
    one, other = (RandomPairs.of(open_pool(text), embedders[0]) for _ in range(2))
    assert {len(each) for each in one.cosines} == {10}
    np.testing.assert_array_equal(one.cosines, other.cosines)


def test_one_sentence_makes_no_pair(embedders, tmp_path):
    text = tmp_path / "x.txt"
    text.write_text("one bird\none bird\n")
    assert RandomPairs.of(open_pool(text), embedders[0]) is None


def test_the_answer_names_the_share_of_each_view(served):
    a, b = served[0].encode(["a bird sings", "one cat"])
    found = compared(served[0], a, b)
    assert list(found.closer_than.views) == ["dep", "const"]
    expected = served[0].random_pairs.closer_than(list(found.views.values()), found.joined)
    assert found.closer_than.joined == expected.joined
    assert compared(ServedRun("x", served[0].embedder), a, b).closer_than is None
