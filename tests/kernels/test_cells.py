"""Whole levels at once against one node at a time, and that against the equations."""

import math
from functools import partial
from importlib.util import find_spec

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from trees_for_tests import SHAPES, WORD, chain, chain_to_the_left, gum, sentences, star, with_trees, words

from structviews import kernels
from structviews.batching import collate
from structviews.kernels import BinaryCell, ChildSumCell

X, H = 4, 5
CELLS = {
    "dep": (partial(ChildSumCell, attention=True), "dependency"),
    "dep-sum": (partial(ChildSumCell, attention=False), "dependency"),
    "const": (BinaryCell, "constituency"),
}
cells = pytest.mark.parametrize("name", CELLS)
# DGL is an extra; test_dgl.py says when it is missing.
BACKENDS = [name for name in kernels.BACKENDS if name != "dgl" or find_spec("dgl")]


def make(name, some, input_dim=X, hidden=H):
    """A cell whose biases are not zero, word vectors, and the trees; float64."""
    torch.manual_seed(1)
    make_cell, kind = CELLS[name]
    cell = make_cell(input_dim, hidden).double()
    for parameter in cell.parameters():
        if parameter.dim() < 2:
            torch.nn.init.normal_(parameter, std=0.5)
    batch = collate(some, {}, [kind])
    inputs = torch.randn(int(batch.lengths.sum()), input_dim, dtype=torch.float64, requires_grad=True)
    return cell, inputs, getattr(batch, f"{kind}_trees")


def results_and_gradients(cell, inputs, trees, backend):
    """States, roots, attention, and the gradients by the inputs and by each parameter."""
    results = kernels.run(cell, inputs, trees, backend)
    named_results = {"states": results.states, "roots": results.roots, "attention": results.attention}
    tensors = [result for result in named_results.values() if result is not None]
    generator = torch.Generator().manual_seed(2)
    weights = [torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t) for t in tensors]
    loss = sum((w * t).sum() for w, t in zip(weights, tensors, strict=True))
    named = {"inputs": inputs} | dict(cell.named_parameters())
    gradients = torch.autograd.grad(loss, list(named.values()), materialize_grads=True)
    return named_results | dict(zip(named, gradients, strict=True))


def check_level_is_naive(name, some):
    cell, inputs, trees = make(name, some)
    level = results_and_gradients(cell, inputs, trees, "level")
    naive = results_and_gradients(cell, inputs, trees, "naive")
    assert (level["attention"] is not None) == (naive["attention"] is not None) == (name == "dep")
    for what, expected in naive.items():
        if expected is not None:
            torch.testing.assert_close(level[what], expected, rtol=0, atol=1e-10, msg=lambda m, w=what: f"{w}: {m}")


@cells
@pytest.mark.parametrize("shape", SHAPES)
def test_level_is_naive(name, shape):
    check_level_is_naive(name, SHAPES[shape])


@cells
@given(st.lists(sentences(max_words=8), min_size=1, max_size=4))
@settings(max_examples=20)
def test_level_is_naive_on_random_trees(name, some):
    check_level_is_naive(name, some)


@cells
def test_level_is_naive_on_real_trees(name):
    check_level_is_naive(name, gum(25))


@cells
def test_half_precision_is_within_two_percent_on_real_trees(name):
    """Of states and of all gradients, by norm; cells and sums have single precision."""
    cell, inputs, trees = make(name, gum(50), input_dim=30, hidden=64)
    cell, inputs = cell.float(), inputs.detach().float().requires_grad_()
    exact = results_and_gradients(cell, inputs, trees, "level")
    with torch.autocast("cpu", torch.bfloat16):
        half = results_and_gradients(cell, inputs, trees, "level")
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
    cell, inputs, trees = make(name, some, input_dim=2, hidden=2)

    def run(*_):
        results = kernels.run(cell, inputs, trees)
        some = (results.states, results.roots, results.attention)
        return tuple(result for result in some if result is not None and len(result))

    # The check moves these tensors in place, and the cell reads them.
    assert torch.autograd.gradcheck(run, (inputs, *cell.parameters()))


@cells
@pytest.mark.parametrize("backend", BACKENDS)
def test_unknown_words_have_finite_gradients_at_the_start(name, backend):
    _, _, trees = make(name, [star(4), WORD, chain(3)])
    cell = CELLS[name][0](X, H).double()
    inputs = torch.zeros(8, X, dtype=torch.float64, requires_grad=True)
    for what, value in results_and_gradients(cell, inputs, trees, backend).items():
        assert value is None or value.isfinite().all(), what


@cells
@pytest.mark.parametrize("backend", BACKENDS)
def test_single_words_leave_recurrent_weights_alone(name, backend):
    cell, inputs, trees = make(name, [WORD, WORD])
    gradients = results_and_gradients(cell, inputs, trees, backend)
    for what in dict(cell.named_parameters()):
        used = what in ("input.weight", "input.bias", "bias")
        assert bool(gradients[what].any()) == used, what


@pytest.mark.parametrize("shape", SHAPES)
def test_attention_of_siblings_sums_to_one(shape):
    cell, inputs, trees = make("dep", SHAPES[shape])
    attention = kernels.run(cell, inputs, trees).attention
    assert len(attention) == trees.n_edges
    sums = torch.zeros(len(trees), dtype=torch.float64).index_add(0, trees.parent[trees.children], attention)
    torch.testing.assert_close(sums, (torch.arange(len(trees)) >= trees.n_leaves).double())


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("name", ["dep", "dep-sum"])
def test_child_sum_is_its_equations(name):
    """METHODS' equations in plain numbers: H = X = 1, a head with a child on either side."""
    cell, inputs, trees = make(name, [with_trees(words(3), (2, 0, 2), lambda a, _: a + 1)], 1, 1)
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

    x = inputs.flatten().tolist()
    below = [node(x[0], []), node(x[2], [])]
    expected = [below[0][0], node(x[1], below)[0], below[1][0]]
    for backend in BACKENDS:
        assert kernels.run(cell, inputs, trees, backend).states.flatten().tolist() == pytest.approx(expected, abs=1e-12)


def test_binary_is_its_equations():
    """METHODS' equations in plain numbers: H = X = 1, three words, ((0 1) 2)."""
    cell, inputs, trees = make("const", [with_trees(words(3), (2, 0, 2), lambda _, b: b - 1)], 1, 1)
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

    leaves = [leaf(x) for x in inputs.flatten().tolist()]
    pair = node(leaves[0], leaves[1])
    expected = [h for h, _ in (*leaves, pair, node(pair, leaves[2]))]
    for backend in BACKENDS:
        assert kernels.run(cell, inputs, trees, backend).states.flatten().tolist() == pytest.approx(expected, abs=1e-12)


def test_an_unknown_backend_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"unknown tree backend 'fast': one of level, dgl, naive"):
        kernels.run(*make("dep", [WORD]), backend="fast")


@pytest.mark.parametrize("backend", kernels.BACKENDS)
def test_a_binary_cell_wants_binary_trees(backend):
    cell, inputs, _ = make("const", [chain(3)])
    with pytest.raises(ValueError, match="not binary"):
        kernels.run(cell, inputs, collate([chain(3)], {}, ["dependency"]).dependency_trees, backend)
