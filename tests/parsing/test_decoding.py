"""Decoders of batches against oracles, sentence by sentence."""

from functools import lru_cache
from itertools import combinations

import numpy as np
from decoding_oracle import all_trees, arborescence, best_constituents, children, constituents, is_tree, spanning_tree
from hypothesis import given, settings
from hypothesis import strategies as st

from structviews.parsing.decoding import chu_liu_edmonds, cky, marginals, spanning_trees

SIZES, SEEDS = st.integers(1, 5), st.integers(0, 2**32 - 1)
# Few distinct values make ties; the last range makes differences that only float64 holds.
VALUES = st.sampled_from(["ties", "normal", "tiny", "large"])


def total(scores, heads):
    words = np.arange(1, len(scores))
    return scores[words, heads[1:]].sum()


def make(shape, values, rng):
    if values == "ties":
        return rng.integers(-1, 2, shape).astype(float)
    return rng.normal(size=shape) * {"normal": 1, "tiny": 1e-6, "large": 1e6}[values]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.sampled_from([0, 1, 4]), SEEDS)
def test_the_probability_of_an_arc_is_that_of_the_trees_that_have_it(lengths, scale, seed):
    size = max(lengths) + 1
    scores = scale * np.random.default_rng(seed).normal(size=(len(lengths), size, size))
    found = marginals(scores, np.array(lengths))
    for b, n in enumerate(lengths):
        expected, sum_of_all = np.zeros((size, size)), 0.0
        for heads in all_trees(n):
            weight = np.exp(total(scores[b, : n + 1, : n + 1], np.array([0, *heads])))
            expected[np.arange(1, n + 1), heads] += weight
            sum_of_all += weight
        np.testing.assert_allclose(found[b], expected / sum_of_all, rtol=1e-6, atol=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 14), min_size=1, max_size=3), VALUES, st.sampled_from([0, 1, 9]), SEEDS)
def test_dependency_trees_are_the_best_of_each_sentence(lengths, values, locality, seed):
    # The larger the bonus for words that stand together, the more cycles and cycles of cycles.
    size = max(lengths) + 1
    distance = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    scores = make((len(lengths), size, size), values, np.random.default_rng(seed)) * 3 - locality * distance
    before = scores.copy()
    together, free = spanning_trees(scores, np.array(lengths)), chu_liu_edmonds(scores)
    np.testing.assert_array_equal(scores, before)
    for b, n in enumerate(lengths):
        own = scores[b, : n + 1, : n + 1]
        assert (together[b, 1 : n + 1] == 0).sum() == 1
        both = (together[b, : n + 1], spanning_tree(own), own), (free[b], arborescence(scores[b]), scores[b])
        for found, best, its in both:
            assert is_tree(found)
            assert abs(total(its, found) - total(its, best)) <= 1e-9 * np.abs(scores).max()


@lru_cache
def constituencies(n):
    """Every n-ary tree without unary nodes, as its spans of two words and more, which do not cross."""
    spans = [(start, end) for start, end in combinations(range(n + 1), 2) if 1 < end - start < n]
    crossing = {((a, c), (b, d)) for a, b, c, d in combinations(range(n + 1), 4)}
    some = (chosen for size in range(n - 1) for chosen in combinations(spans, size))
    return [{(0, n), *chosen} for chosen in some if crossing.isdisjoint(combinations(chosen, 2))]


def worth(scores, spans):
    return sum(scores[end - start, start] for start, end in spans)


@settings(deadline=None, max_examples=120)
@given(st.lists(SIZES, min_size=1, max_size=5) | st.lists(st.integers(1, 25), min_size=1, max_size=4), VALUES, SEEDS)
def test_cky_of_a_batch_is_cell_by_cell_and_finds_the_best_n_ary_tree(lengths, values, seed):
    rng = np.random.default_rng(seed)
    scores = make((max(lengths) + 1, max(lengths), len(lengths)), values, rng).astype(np.float32)
    trees = cky(scores, np.array(lengths))
    for b, n in enumerate(lengths):
        alone, own = scores[..., b], trees.sentence == b
        nodes = list(map(tuple, np.stack([trees.start, trees.split, trees.end], axis=1)[own].tolist()))
        assert nodes == best_constituents(alone, n)
        assert [trees.left[own].tolist(), trees.right[own].tolist()] == list(children(n, nodes))
        whole = trees.whole[own] | (alone[(trees.end - trees.start)[own], trees.start[own]] > 0)
        assert whole.tolist() == constituents(n, nodes, alone)
        if 1 < n <= 5:
            chosen = {(start, end) for (start, _, end), is_one in zip(nodes, whole, strict=True) if is_one}
            exact = alone.astype(float)
            best = max(worth(exact, tree) for tree in constituencies(n))
            assert abs(worth(exact, chosen) - best) <= 1e-5 * np.abs(scores).max()
