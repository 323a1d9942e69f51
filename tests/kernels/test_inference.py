"""The cells without gradients against plain recursion."""

import copy
from unittest import mock

import pytest
import test_cells
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cells import CELLS, cells, vocabulary_of
from trees_for_tests import SHAPES, gum, related, sentences

from structviews.batches.batch import collate
from structviews.kernels import dispatch, inference
from structviews.runtime.products import ROWS

# Largest differences between states: those of Tree-LSTMs lie between -1 and 1, others may be larger.
TOLERANCES = {"fp32": 1e-5, "bf16": 2e-2}


def make(name, some, dtype=torch.float64, compared_from=0):
    """A cell whose biases are not zero, vectors of the distinct words, and the batch, merged and not."""
    cell, vectors, _, plain = test_cells.make(name, some, input_dim=12, hidden=16)
    some = [*map(related, some)]
    with mock.patch("structviews.batches.trees.COMPARED_FROM", compared_from):
        merged = collate(some, {"words": vocabulary_of(some)}, [CELLS[name][1]], merged=True)
    return cell.to(dtype), vectors.detach().to(dtype), merged, plain


def compare(cell, vectors, merged, plain, precision, backend, tolerance):
    expected = dispatch.run(copy.deepcopy(cell).double(), vectors.double(), plain.ids["words"], plain, backend)
    for few in (0, 10**6):
        half = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16")
        with mock.patch.object(inference, "FEW", few), half:
            found = dispatch.run(cell, vectors, merged.ids["words"], merged)
        assert found.roots.dtype == found.states.dtype == vectors.dtype
        assert not found.roots.requires_grad
        for of in ("roots", "states"):
            exact = getattr(expected, of)
            largest = exact.abs().max().clamp(min=1).item()
            torch.testing.assert_close(getattr(found, of).double(), exact, rtol=0, atol=tolerance * largest)


@cells
@settings(max_examples=15, deadline=None)
@given(some=st.lists(sentences(max_words=8), min_size=1, max_size=6))
def test_random_trees_in_double_precision(name, some):
    for compared_from in (0, 10**6):
        compare(*make(name, some, compared_from=compared_from), "fp32", "naive", 1e-12)


@pytest.mark.parametrize("name", ["dep", "dep-sum", "dep-rel", "const"])
def test_a_pass_by_hand_is_that_of_the_equations(name):
    """Which a subclass runs, since it may have others."""
    cell, *others = make(name, gum(20))
    cell.__class__ = type("Other", (type(cell),), {})
    compare(cell, *others, "fp32", "naive", 1e-12)


@cells
@pytest.mark.parametrize("precision", TOLERANCES)
def test_levels_of_several_blocks(name, precision):
    some = gum(200)
    made = make(name, some, torch.float32)
    trees = getattr(made[2].ids["words"], CELLS[name][1])
    assert trees.levels[2] - trees.levels[1] > 2 * ROWS
    compare(*made, precision, "level", TOLERANCES[precision])


@cells
def test_weights_that_change_are_prepared_again(name):
    cell, vectors, merged, plain = make(name, SHAPES["mixed"])
    with torch.no_grad():
        for parameter in cell.parameters():
            dispatch.run(cell, vectors, merged.ids["words"], merged)
            parameter.mul_(1.5)
            compare(cell, vectors, merged, plain, "fp32", "naive", 1e-12)
