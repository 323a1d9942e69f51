"""Whole levels at once against one node at a time, and that against the equations."""

import math
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import count, product

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trees_for_tests import SHAPES, WORD, chain, chain_to_the_left, gum, related, sentences, star, with_trees, words

from structviews import kernels
from structviews.batches.batch import collate
from structviews.corpus.relations import LABELS, RELATIONS, SIDES
from structviews.kernels import dispatch
from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.nary import BinaryCell
from structviews.kernels.tree_gru import BinaryGruCell, ChildSumGruCell
from structviews.words.vocabulary import UNKNOWN, Vocabulary

X, H = 4, 5
CELLS = {
    "dep": (partial(ChildSumCell, attention=True), "dependency"),
    "dep-sum": (partial(ChildSumCell, attention=False), "dependency"),
    "dep-rel": (partial(ChildSumCell, attention=True, labels=LABELS), "labelled"),
    "labelled sum": (partial(ChildSumCell, attention=False, labels=LABELS), "labelled"),
    "dep-gru": (ChildSumGruCell, "dependency"),
    "const": (BinaryCell, "constituency"),
    "const-gru": (BinaryGruCell, "constituency"),
}
cells = pytest.mark.parametrize("name", CELLS)
# Which words are the same: the word that stands for the n-th one.
WORDINGS = {
    "as in the text": lambda word, n: word,
    "all different": lambda word, n: f"{word}-{n}",
    "all the same": lambda word, n: "a",
}


def vocabulary_of(some):
    return Vocabulary([UNKNOWN, *dict.fromkeys(token for each in some for token in each.tokens)])


# DGL is an extra; test_dgl.py says when it is missing.
BACKENDS = [name for name in kernels.BACKENDS if name != "dgl" or find_spec("dgl")]
batched = pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "naive"])


def make(name, some, input_dim=X, hidden=H, wording="as in the text"):
    """A cell whose biases are not zero, vectors of the different words, the words, and the batch; float64."""
    torch.manual_seed(1)
    make_cell, kind = CELLS[name]
    cell = make_cell(input_dim, hidden).double()
    for parameter in cell.parameters():
        if parameter.dim() < 2:
            torch.nn.init.normal_(parameter, std=0.5)
    numbers = count()
    some = [replace(s, tokens=tuple(WORDINGS[wording](t, next(numbers)) for t in s.tokens)) for s in map(related, some)]
    batch = collate(some, {"words": vocabulary_of(some)}, [kind])
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


@pytest.mark.parametrize("name", ["dep", "dep-sum", "dep-rel", "const"])
def test_a_pass_by_hand_is_that_of_the_equations(name):
    """Which a subclass runs, since it may have others."""
    cell, *others = make(name, SHAPES["random"])
    by_hand = results_and_gradients(cell, *others, "level")
    assert type(cell) in dispatch.LEVEL_PASSES
    cell.__class__ = type("Other", (type(cell),), {})
    assert type(cell) not in dispatch.LEVEL_PASSES
    check_same(by_hand, results_and_gradients(cell, *others, "level"))


@cells
@batched
@given(st.lists(sentences(max_words=8), min_size=1, max_size=4))
@example(SHAPES["mixed"])
@settings(max_examples=15)
@pytest.mark.filterwarnings("error")
def test_it_is_naive_on_random_trees(name, backend, some):
    check_backends(make(name, some), backend, "naive")


def in_single_precision(cell, vectors, *others):
    return cell.float(), vectors.detach().float().requires_grad_(), *others


def check_half_precision(made, backend="level", of_key_bias=0.05):
    """Within two percent, of states and of all gradients, by norm; cells and sums have single precision."""
    exact = results_and_gradients(*made, backend)
    with torch.autocast(made[1].device.type, torch.bfloat16):
        half = results_and_gradients(*made, backend)
    for what, expected in exact.items():
        if expected is None:
            assert half[what] is None
            continue
        assert half[what].dtype == torch.float32
        error = (half[what] - expected).norm() / expected.norm()
        # The key's bias moves all siblings alike, so what it gets all but cancels. An error of
        # zero would mean that nothing was done in half precision.
        assert 1e-5 < error < (of_key_bias if what == "key.bias" else 0.02), (what, error)


@cells
@batched
def test_half_precision_is_within_two_percent_on_real_trees(name, backend):
    check_half_precision(in_single_precision(*make(name, gum(50), input_dim=30, hidden=64)), backend)


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


def child_sum_lstm(cell):
    """METHODS' equations of a Child-Sum Tree-LSTM; a node's children, and itself, are ``(h, c)``.

    Of a labelled cell a word is x and what its label adds to the products of i, o, u, f and q.
    """
    w_i, w_o, w_u = cell.input.weight.flatten().tolist()
    b_i, b_o, b_u = cell.input.bias.tolist()
    u_i, u_o, u_u = cell.recurrent.weight.flatten().tolist()
    w_f, b_f, u_f = cell.input_forget.weight.item(), cell.input_forget.bias.item(), cell.recurrent_forget.weight.item()

    def node(word, children):
        x, added = word if cell.labelled else (word, (0.0,) * 5)
        alpha = [1.0] * len(children)
        if cell.attention and children:
            q = cell.query.weight.item() * x + cell.query.bias.item() + added[4]
            p = [cell.key.weight.item() * h + cell.key.bias.item() for h, _ in children]
            weights = [math.exp(q * p_k / math.sqrt((q * q + 1e-8) * (p_k * p_k + 1e-8))) for p_k in p]
            alpha = [w / sum(weights) for w in weights]
        h_sum = sum(a * h for a, (h, _) in zip(alpha, children, strict=True))
        i, o = sigmoid(w_i * x + u_i * h_sum + b_i + added[0]), sigmoid(w_o * x + u_o * h_sum + b_o + added[1])
        u = math.tanh(w_u * x + u_u * h_sum + b_u + added[2])
        c = i * u + sum(sigmoid(w_f * x + u_f * h + b_f + added[3]) * c_k for h, c_k in children)
        return o * math.tanh(c), c

    return node


def binary_lstm(cell):
    """METHODS' equations of a binary Tree-LSTM."""
    w_i, w_o, w_u = cell.input.weight.flatten().tolist()
    u_i, u_o, u_u, u_fl, u_fr = cell.recurrent.weight.tolist()
    b_i, b_o, b_u = cell.bias.tolist()
    b_f = cell.bias_forget.item()

    def node(x, children):
        if not children:
            c = sigmoid(w_i * x + b_i) * math.tanh(w_u * x + b_u)
            return sigmoid(w_o * x + b_o) * math.tanh(c), c
        left, right = children

        def gate(u, b):
            return u[0] * left[0] + u[1] * right[0] + b

        i, o, u = sigmoid(gate(u_i, b_i)), sigmoid(gate(u_o, b_o)), math.tanh(gate(u_u, b_u))
        c = i * u + sigmoid(gate(u_fl, b_f)) * left[1] + sigmoid(gate(u_fr, b_f)) * right[1]
        return o * math.tanh(c), c

    return node


def child_sum_gru(cell):
    """Its module's equations; a node's children, and itself, are ``(h,)``."""
    w_n, w_z, w_r = cell.input.weight.flatten().tolist()
    b_n, b_z, b_r = cell.input.bias.tolist()
    u_n, u_z, u_r = (part.weight.item() for part in (cell.new, cell.update, cell.reset))

    def node(x, children):
        children = [h for (h,) in children]
        z = sigmoid(w_z * x + u_z * sum(children) + b_z)
        r = [sigmoid(w_r * x + u_r * h + b_r) for h in children]
        n = math.tanh(w_n * x + u_n * sum(r_k * h for r_k, h in zip(r, children, strict=True)) + b_n)
        return (z * sum(children) + (1 - z) * n,)

    return node


def binary_gru(cell):
    """Its module's equations."""
    w_n, w_z = cell.input.weight.flatten().tolist()
    u_n, u_z, u_g = *cell.new.weight.tolist(), *cell.gates.weight.tolist()
    b_n, b_z, b_g = cell.bias.tolist()

    def node(x, children):
        if not children:
            return ((1 - sigmoid(w_z * x + b_z)) * math.tanh(w_n * x + b_n),)
        (left,), (right,) = children
        z = sigmoid(u_z[0] * left + u_z[1] * right + b_z)
        g = sigmoid(u_g[0] * left + u_g[1] * right + b_g)
        return (z * (left + right) + (1 - z) * math.tanh(u_n[0] * g * left + u_n[1] * g * right + b_n),)

    return node


EQUATIONS = {
    ChildSumCell: child_sum_lstm,
    ChildSumGruCell: child_sum_gru,
    BinaryCell: binary_lstm,
    BinaryGruCell: binary_gru,
}


@cells
def test_a_cell_is_its_equations(name):
    """In plain numbers, H = X = 1: a head with a child on either side; ((0 1) 2)."""
    cell, vectors, ids, _ = made = make(name, [with_trees(words(3), (2, 0, 2), lambda _, b: b - 1)], 1, 1)
    node, x = EQUATIONS[type(cell)](cell), vectors[ids.inverse].flatten().tolist()
    if cell.labelled:  # nsubj:other on the left, nmod:poss at the root, an unknown one on the right, see ``related``
        numbers = [1 + RELATIONS.index("nsubj"), 1 + RELATIONS.index("nmod:poss"), 0]
        sides = [LABELS[0] + SIDES.index(side) for side in ("left", "root", "right")]
        added = cell.label.weight[:, numbers] + cell.label.weight[:, sides]
        x = list(zip(x, added.T.tolist(), strict=True))
    leaves = [node(each, []) for each in x]
    if cell.binary:
        pair = node(None, leaves[:2])
        expected = [*leaves, pair, node(None, [pair, leaves[2]])]
    else:
        expected = [leaves[0], node(x[1], [leaves[0], leaves[2]]), leaves[2]]
    for backend, gradients in product(BACKENDS, (True, False)):
        with torch.set_grad_enabled(gradients):
            states = dispatch.run(*made, backend).states
        assert states.requires_grad == gradients
        assert states.flatten().tolist() == pytest.approx([state[0] for state in expected], abs=1e-12)


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


def test_an_unknown_backend_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"unknown tree backend 'fast': choose one of level, dgl, naive"):
        dispatch.run(*make("dep", [WORD]), backend="fast")
