"""Whole levels at once against one node at a time, and that against the equations."""

import math
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from trees_for_tests import (
    SHAPES,
    WORD,
    chain,
    chain_to_the_left,
    gum,
    sentences,
    star,
    with_trees,
    words,
)

from structviews import kernels
from structviews.batches.batch import collate
from structviews.kernels import dispatch
from structviews.kernels.cells import LEVEL_PASSES
from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.nary import BinaryCell
from structviews.kernels.tree_gru import BinaryGruCell, ChildSumGruCell
from structviews.words.vocabulary import UNKNOWN, Vocabulary

X, H = 4, 5
CELLS = {
    "dep": (partial(ChildSumCell, attention=True), "dependency"),
    "dep-sum": (partial(ChildSumCell, attention=False), "dependency"),
    "dep-gru": (ChildSumGruCell, "dependency"),
    "const": (BinaryCell, "constituency"),
    "const-gru": (BinaryGruCell, "constituency"),
}
cells = pytest.mark.parametrize("name", CELLS)


class Numbered:
    """Words that are all different, or all the same."""

    def __init__(self, numbers):
        self.numbers = numbers

    def look_up(self, sentences):
        return self.numbers(sum(map(len, sentences)), dtype=np.int64), None


# Which words are the same.
WORDINGS = {
    "as in the text": lambda some: Vocabulary([UNKNOWN, *dict.fromkeys(t for each in some for t in each.tokens)]),
    "all different": lambda some: Numbered(np.arange),
    "all the same": lambda some: Numbered(np.zeros),
}
# DGL is an extra; test_dgl.py says when it is missing.
BACKENDS = [name for name in kernels.BACKENDS if name != "dgl" or find_spec("dgl")]


def make(name, some, input_dim=X, hidden=H, wording="as in the text"):
    """A cell whose biases are not zero, vectors of the different words, the words, and the batch; float64."""
    torch.manual_seed(1)
    make_cell, kind = CELLS[name]
    cell = make_cell(input_dim, hidden).double()
    for parameter in cell.parameters():
        if parameter.dim() < 2:
            torch.nn.init.normal_(parameter, std=0.5)
    batch = collate(some, {"words": WORDINGS[wording](some)}, [kind])
    ids = batch.ids["words"]
    vectors = torch.randn(len(ids.distinct), input_dim, dtype=torch.float64, requires_grad=True)
    return cell, vectors, ids, batch


def results_and_gradients(cell, vectors, ids, batch, backend, of=("states", "roots", "attention")):
    """These results, and the gradients of a weighted sum of them by the vectors and by each parameter, if wanted."""
    results = dispatch.run(cell, vectors, ids, batch, backend)
    named_results = {name: getattr(results, name) for name in of}
    tensors = [result for result in named_results.values() if result is not None]
    generator = torch.Generator().manual_seed(2)
    weights = [torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t) for t in tensors]
    loss = sum((w * t).sum() for w, t in zip(weights, tensors, strict=True))
    named = {"vectors": vectors} | dict(cell.named_parameters())
    named = {name: tensor for name, tensor in named.items() if tensor.requires_grad}
    if not tensors:
        return named_results
    gradients = torch.autograd.grad(loss, list(named.values()), materialize_grads=True)
    return named_results | dict(zip(named, gradients, strict=True))


def check_same(found, expected, tolerance=1e-10):
    assert [value is None for value in found.values()] == [value is None for value in expected.values()]
    for what, value in expected.items():
        if value is not None:
            torch.testing.assert_close(found[what], value, rtol=0, atol=tolerance, msg=lambda m, w=what: f"{w}: {m}")


def check_backends(made, *backends, **how):
    check_same(*(results_and_gradients(*made, backend, **how) for backend in backends))


@cells
@pytest.mark.parametrize(
    ("shape", "wording"), [*((shape, "as in the text") for shape in SHAPES), *(("mixed", each) for each in WORDINGS)]
)
def test_level_is_naive(name, shape, wording):
    check_backends(make(name, SHAPES[shape], wording=wording), "level", "naive")


@pytest.mark.parametrize("name", ["dep", "dep-sum", "const"])
def test_a_pass_by_hand_is_that_of_the_equations(name):
    """Which a subclass runs, since it may have others."""
    cell, *others = make(name, SHAPES["random"])
    by_hand = results_and_gradients(cell, *others, "level")
    assert type(cell) in LEVEL_PASSES
    cell.__class__ = type("Other", (type(cell),), {})
    assert type(cell) not in LEVEL_PASSES
    check_same(by_hand, results_and_gradients(cell, *others, "level"))


@cells
@given(st.lists(sentences(max_words=8), min_size=1, max_size=4))
@settings(max_examples=20)
def test_level_is_naive_on_random_trees(name, some):
    check_backends(make(name, some), "level", "naive")


def in_single_precision(cell, vectors, *others):
    return cell.float(), vectors.detach().float().requires_grad_(), *others


@cells
def test_half_precision_is_within_two_percent_on_real_trees(name):
    """Of states and of all gradients, by norm; cells and sums have single precision."""
    made = in_single_precision(*make(name, gum(50), input_dim=30, hidden=64))
    exact = results_and_gradients(*made, "level")
    with torch.autocast("cpu", torch.bfloat16):
        half = results_and_gradients(*made, "level")
    assert (half["attention"] is not None) == (name == "dep")
    for what, expected in exact.items():
        if expected is not None:
            assert half[what].dtype == torch.float32
            error = (half[what] - expected).norm() / expected.norm()
            # The key's bias moves all siblings alike, so what it gets all but cancels. An error of
            # zero would mean that nothing was done in half precision.
            assert 1e-5 < error < (0.05 if what == "key.bias" else 0.02), (what, error)


@cells
@pytest.mark.parametrize("some", [[WORD], [chain(4)], [chain_to_the_left(3)], [star(4), WORD, chain(2)]])
def test_gradients_are_those_of_finite_differences(name, some):
    cell, vectors, ids, batch = make(name, some, input_dim=2, hidden=2)

    def run(*_):
        results = dispatch.run(cell, vectors, ids, batch)
        some = (results.states, results.roots, results.attention)
        return tuple(result for result in some if result is not None and len(result))

    # The check moves these tensors in place, and the cell reads them.
    assert torch.autograd.gradcheck(run, (vectors, *cell.parameters()))


@cells
@pytest.mark.parametrize("backend", BACKENDS)
def test_unknown_words_have_finite_gradients_at_the_start(name, backend):
    _, vectors, ids, batch = make(name, [star(4), WORD, chain(3)])
    cell = CELLS[name][0](X, H).double()
    unknown = torch.zeros_like(vectors, requires_grad=True)
    for what, value in results_and_gradients(cell, unknown, ids, batch, backend).items():
        assert value is None or value.isfinite().all(), what


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def check_states(made, expected):
    for backend in BACKENDS:
        assert dispatch.run(*made, backend).states.flatten().tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["dep", "dep-sum"])
def test_child_sum_is_its_equations(name):
    """METHODS' equations in plain numbers: H = X = 1, a head with a child on either side."""
    some = [with_trees(words(3), (2, 0, 2), lambda a, _: a + 1)]
    cell, vectors, ids, _ = made = make(name, some, 1, 1)
    w_i, w_o, w_u = cell.input.weight.flatten().tolist()
    b_i, b_o, b_u = cell.input.bias.tolist()
    u_i, u_o, u_u = cell.recurrent.weight.flatten().tolist()
    w_f, b_f, u_f = cell.input_forget.weight.item(), cell.input_forget.bias.item(), cell.recurrent_forget.weight.item()

    def node(x, children):
        alpha = [1.0] * len(children)
        if name == "dep" and children:
            q = cell.query.weight.item() * x + cell.query.bias.item()
            p = [cell.key.weight.item() * h + cell.key.bias.item() for h, _ in children]
            weights = [math.exp(q * p_k / math.sqrt((q * q + 1e-8) * (p_k * p_k + 1e-8))) for p_k in p]
            alpha = [w / sum(weights) for w in weights]
        h_sum = sum(a * h for a, (h, _) in zip(alpha, children, strict=True))
        i, o = sigmoid(w_i * x + u_i * h_sum + b_i), sigmoid(w_o * x + u_o * h_sum + b_o)
        u = math.tanh(w_u * x + u_u * h_sum + b_u)
        c = i * u + sum(sigmoid(w_f * x + u_f * h + b_f) * c_k for h, c_k in children)
        return o * math.tanh(c), c

    x = vectors[ids.inverse].flatten().tolist()
    below = [node(x[0], []), node(x[2], [])]
    expected = [below[0][0], node(x[1], below)[0], below[1][0]]
    check_states(made, expected)


def test_binary_is_its_equations():
    """METHODS' equations in plain numbers: H = X = 1, three words, ((0 1) 2)."""
    some = [with_trees(words(3), (2, 0, 2), lambda _, b: b - 1)]
    cell, vectors, ids, _ = made = make("const", some, 1, 1)
    w_i, w_o, w_u = cell.input.weight.flatten().tolist()
    u_i, u_o, u_u, u_fl, u_fr = cell.recurrent.weight.tolist()
    b_i, b_o, b_u = cell.bias.tolist()
    b_f = cell.bias_forget.item()

    def leaf(x):
        c = sigmoid(w_i * x + b_i) * math.tanh(w_u * x + b_u)
        return sigmoid(w_o * x + b_o) * math.tanh(c), c

    def node(left, right):
        def gate(u, b):
            return u[0] * left[0] + u[1] * right[0] + b

        i, o, u = sigmoid(gate(u_i, b_i)), sigmoid(gate(u_o, b_o)), math.tanh(gate(u_u, b_u))
        c = i * u + sigmoid(gate(u_fl, b_f)) * left[1] + sigmoid(gate(u_fr, b_f)) * right[1]
        return o * math.tanh(c), c

    leaves = [leaf(x) for x in vectors[ids.inverse].flatten().tolist()]
    pair = node(leaves[0], leaves[1])
    expected = [h for h, _ in (*leaves, pair, node(pair, leaves[2]))]
    check_states(made, expected)


def test_child_sum_gru_is_its_equations():
    """Its module's equations in plain numbers: H = X = 1, a head with a child on either side."""
    some = [with_trees(words(3), (2, 0, 2), lambda a, _: a + 1)]
    cell, vectors, ids, _ = made = make("dep-gru", some, 1, 1)
    w_n, w_z, w_r = cell.input.weight.flatten().tolist()
    b_n, b_z, b_r = cell.input.bias.tolist()
    u_n, u_z, u_r = (part.weight.item() for part in (cell.new, cell.update, cell.reset))

    def node(x, children):
        z = sigmoid(w_z * x + u_z * sum(children) + b_z)
        r = [sigmoid(w_r * x + u_r * h + b_r) for h in children]
        n = math.tanh(w_n * x + u_n * sum(r_k * h for r_k, h in zip(r, children, strict=True)) + b_n)
        return z * sum(children) + (1 - z) * n

    x = vectors[ids.inverse].flatten().tolist()
    below = [node(x[0], []), node(x[2], [])]
    expected = [below[0], node(x[1], below), below[1]]
    check_states(made, expected)


def test_binary_gru_is_its_equations():
    """Its module's equations in plain numbers: H = X = 1, three words, ((0 1) 2)."""
    some = [with_trees(words(3), (2, 0, 2), lambda _, b: b - 1)]
    cell, vectors, ids, _ = made = make("const-gru", some, 1, 1)
    w_n, w_z = cell.input.weight.flatten().tolist()
    u_n, u_z, u_g = *cell.new.weight.tolist(), *cell.gates.weight.tolist()
    b_n, b_z, b_g = cell.bias.tolist()

    def leaf(x):
        return (1 - sigmoid(w_z * x + b_z)) * math.tanh(w_n * x + b_n)

    def node(left, right):
        z = sigmoid(u_z[0] * left + u_z[1] * right + b_z)
        g = sigmoid(u_g[0] * left + u_g[1] * right + b_g)
        return z * (left + right) + (1 - z) * math.tanh(u_n[0] * g * left + u_n[1] * g * right + b_n)

    leaves = [leaf(x) for x in vectors[ids.inverse].flatten().tolist()]
    pair = node(leaves[0], leaves[1])
    expected = [*leaves, pair, node(pair, leaves[2])]
    check_states(made, expected)


@cells
@pytest.mark.parametrize("wanted", ["input.weight", "recurrent.weight"])
def test_what_is_fixed_gets_no_gradient_and_the_others_theirs(name, wanted):
    cell, vectors, *others = make(name, SHAPES["mixed"])
    if "gru" in name and wanted == "recurrent.weight":
        wanted = "new.weight"
    expected = results_and_gradients(cell, vectors, *others, "level")[wanted]
    for parameter_name, parameter in cell.named_parameters():
        parameter.requires_grad_(parameter_name == wanted)
    found = results_and_gradients(cell, vectors.detach(), *others, "level")
    torch.testing.assert_close(found[wanted], expected, rtol=0, atol=1e-12)


@cells
@pytest.mark.parametrize("of", ["states", "roots", "attention"])
def test_each_result_alone_has_its_gradients(name, of):
    check_backends(make(name, SHAPES["mixed"]), "level", "naive", of=(of,))


@cells
def test_it_runs_without_gradients(name):
    made = make(name, SHAPES["mixed"])
    expected = dispatch.run(*made)
    with torch.no_grad():
        results = dispatch.run(*made)
    assert not results.roots.requires_grad
    assert torch.equal(results.roots, expected.roots)
    assert torch.equal(results.states, expected.states)


def test_an_unknown_backend_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"unknown tree backend 'fast': choose one of level, dgl, naive"):
        dispatch.run(*make("dep", [WORD]), backend="fast")
