"""The pairwise objective against the paper's formula, in plain loops and on whole matrices; left-out candidates."""

import math
from dataclasses import replace
from decimal import Decimal
from itertools import combinations

import pytest
import torch
from components import create_objective
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from structviews.objectives import contrast
from structviews.objectives.objective import Context, Inputs, context_indices

# Documents end within the batch, sentences were skipped, some stand alone.
BATCHES = {
    "one document": [(0, 0), (0, 1), (0, 2), (0, 3)],
    "two documents": [(3, 7), (3, 8), (4, 0), (4, 1), (4, 2)],
    "document end at the same positions": [(0, 4), (1, 5), (1, 6)],
    "gaps": [(0, 0), (0, 1), (0, 3), (0, 4), (0, 9), (1, 0), (1, 2)],
    "alone": [(0, 0), (1, 0), (1, 1), (2, 5)],
    "no context": [(0, 0), (1, 0), (2, 0)],
    "one sentence": [(0, 0)],
}
both_self_scores = pytest.mark.parametrize("self_score", ["masked", "zero"])


def contexts_by_loops(batch, distance=1):
    return [
        [j for j, (e, q) in enumerate(batch) if e == d and j != i and abs(p - q) <= distance]
        for i, (d, p) in enumerate(batch)
    ]


def contexts_of(batch, distance=1):
    document, position = torch.tensor(batch).T
    return Context(context_indices(document, position, distance))


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def probability(f, g, i, j, self_score, exp, masked=()):
    """P(f, g)[i, j], the way it is written."""
    others = [k for k in range(len(f)) if k != i and k not in masked]
    total = sum(exp(dot(f[i], g[k])) for k in others) + (1 if self_score == "zero" else 0)
    return exp(dot(f[i], g[j])) / total


def loss_by_loops(pairs, contexts, self_score, exp=torch.exp, log=torch.log, left_out=False, masked=None):
    """Mean over pairs of views, anchors and contexts of ``-log p``, p the mean over a pair's directions (f, g).

    The functions decide of what kind the numbers are. ``masked`` are the anchors' duplicates; with ``left_out``, a
    context's other candidates are no contexts.
    """
    losses = []
    for directions in pairs:
        of_anchors = []
        for i, some in enumerate(contexts):
            terms = []
            for j in some:
                without = {*(masked[i] if masked else ()), *(some if left_out else ())} - {j}
                p = [probability(f, g, i, j, self_score, exp, without) for f, g in directions]
                terms.append(-log(sum(p) / len(p)))
            if terms:
                of_anchors.append(sum(terms) / len(terms))
        losses.append(sum(of_anchors) / len(of_anchors) if of_anchors else 0)
    return sum(losses) / len(losses)


def accuracy_by_loops(pairs, contexts, self_score):
    """How often the most probable candidate is a context."""
    found = []
    for directions in pairs:
        hits = []
        for i, some in enumerate(contexts):
            others = [j for j in range(len(contexts)) if j != i]
            p = {j: sum(probability(f, g, i, j, self_score, math.exp) for f, g in directions) for j in others}
            hits += [max(p, key=p.get) in some] if some else []
        found.append(sum(hits) / len(hits) if hits else 0)
    return sum(found) / len(found)


def check(outcome, learnt, expected, *, tolerance=1e-12, rtol=1e-12, atol=1e-12, scale=1):
    """The loss is the expected one to a tolerance, and the gradients of ``scale`` times the loss are."""
    loss, metrics = outcome
    expected = torch.as_tensor(expected, dtype=torch.float64)
    assert loss.item() == metrics["loss"].item() == pytest.approx(expected.item(), rel=tolerance, abs=tolerance)
    gradients = torch.autograd.grad(scale * loss, learnt, materialize_grads=True)
    wanted = [torch.zeros_like(each) for each in learnt]
    if expected.requires_grad:
        wanted = torch.autograd.grad(scale * expected, learnt, materialize_grads=True)
    torch.testing.assert_close([*gradients], [*wanted], rtol=rtol, atol=atol)


def both_directions(views):
    return [[(f, g), (g, f)] for f, g in combinations(views, 2)]


def numbers(pairs, kind=float):
    """Views as lists of numbers."""
    return [[tuple([[kind(x) for x in row] for row in v.tolist()] for v in sides) for sides in pair] for pair in pairs]


def draw(n_views, n, scale=1.0):
    return [(scale * torch.randn(n, 3, dtype=torch.float64)).requires_grad_() for _ in range(n_views)]


def objective(n_views=2, name="pairwise", **options):
    return create_objective(name, Inputs(("seq",) * n_views, (3,) * n_views), **options)


@both_self_scores
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("distance", [1, 2, 3])
@pytest.mark.parametrize(("name", "n_views"), [("pairwise", 2), ("pairwise", 3), ("quick-thoughts", 2)])
def test_loss_gradient_and_accuracy_are_the_formula(batch, name, n_views, distance, self_score):
    """That of quick-thoughts, equation 2, is about one direction of its pair."""
    batch = BATCHES[batch]
    views, contexts = draw(n_views, len(batch)), contexts_by_loops(batch, distance)
    outcome = objective(n_views, name, self_score=self_score)(views, contexts_of(batch, distance))
    pairs = both_directions(views) if name == "pairwise" else [[views]]
    check(outcome, views, loss_by_loops(pairs, contexts, self_score))
    assert outcome[1]["anchors"] == sum(bool(some) for some in contexts)
    assert outcome[1]["accuracy"].item() == pytest.approx(accuracy_by_loops(numbers(pairs), contexts, self_score))


@pytest.mark.parametrize("other_contexts", ["kept", "left-out"])
@pytest.mark.parametrize("name", ["pairwise", "quick-thoughts"])
def test_a_bilinear_critic_starts_as_the_inner_product_and_is_its_formula(name, other_contexts):
    """With a matrix for each ordered pair of views, also of unequal dimensions."""
    batch, options = BATCHES["gaps"], {"other_contexts": other_contexts} if name == "pairwise" else {}
    n_views = 3 if name == "pairwise" else 2

    def create(dims, critic):
        return create_objective(name, Inputs(("seq",) * n_views, dims[:n_views]), critic=critic, **options).double()

    views, context, contexts = draw(n_views, len(batch)), contexts_of(batch, 2), contexts_by_loops(batch, 2)
    losses = [create((3, 3, 3), critic)(views, context)[0] for critic in ("inner", "bilinear")]
    assert torch.equal(*losses)

    views = [torch.randn(len(batch), dim, dtype=torch.float64, requires_grad=True) for dim in (3, 5, 2)[:n_views]]
    bilinear = create((3, 5, 2), "bilinear")
    for weight in bilinear.critics.values():
        torch.nn.init.normal_(weight)
    by_letter = dict(zip("fgh"[:n_views], views, strict=True))

    def direction(pair):
        (a, b), w = (by_letter[letter] for letter in pair), bilinear.critics[pair]
        rows = [[sum(x[k] * w[k, m] for k in range(len(x))) for m in range(w.shape[1])] for x in a]
        return torch.stack([torch.stack(row) for row in rows]), b

    pairs = [("fg", "gf"), ("fh", "hf"), ("gh", "hg")] if n_views == 3 else [("fg",)]
    sides = [[direction(each) for each in pair] for pair in pairs]
    expected = loss_by_loops(sides, contexts, "masked", left_out=options == {"other_contexts": "left-out"})
    check(bilinear(views, context), [*views, *bilinear.parameters()], expected)


@both_self_scores
@pytest.mark.parametrize("scale", [10.0, 100.0])
def test_extreme_scores_are_exact_and_have_finite_gradients(self_score, scale):
    """Inner products beyond 1e3, whose exponentials are no floats; decimals hold them."""
    batch = BATCHES["gaps"]
    views = draw(2, len(batch), scale)
    assert (views[0] @ views[1].T).abs().max() > scale * scale
    loss, metrics = objective(self_score=self_score)(views, contexts_of(batch))
    pairs = numbers(both_directions(views), Decimal)
    expected = loss_by_loops(pairs, contexts_by_loops(batch), self_score, Decimal.exp, Decimal.ln)
    assert loss.item() == pytest.approx(float(expected), rel=1e-12)
    assert all(value.isfinite() for value in metrics.values())
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, views))


@both_self_scores
@pytest.mark.parametrize("swapped", [False, True])
def test_a_direction_may_leave_nothing_to_the_others(self_score, swapped):
    """Beside the zero of the sentence itself; the other direction decides then."""
    scores = torch.randn(5, 5, dtype=torch.float64)
    scores[1] -= 2e3
    views = [scores, torch.eye(5, dtype=torch.float64)][:: -1 if swapped else 1]
    neighbours = torch.tensor([[2], [3], [4], [1], [-1]])
    loss, _ = objective(self_score=self_score)(views, Context(neighbours))
    pairs, contexts = numbers(both_directions(views), Decimal), [[2], [3], [4], [1], []]
    assert loss.item() == pytest.approx(float(loss_by_loops(pairs, contexts, self_score, Decimal.exp, Decimal.ln)))


@both_self_scores
@pytest.mark.parametrize(("rows", "scale"), [(1, 1.0), (2, 3.0), (5, 1.0), (64, 3.0)])
def test_blocks_of_anchors_make_up_the_formula(monkeypatch, rows, self_score, scale):
    """With none to six contexts of each, in any order, with gaps between them."""
    monkeypatch.setattr(contrast, "SCORES_AT_ONCE", rows * 11 + 10)
    views = draw(2, 11, scale)
    others = torch.stack([(some := torch.randperm(11))[some != i][:6] for i in range(11)])
    neighbours = torch.where(torch.rand(others.shape) < 0.5, others, -1)
    contexts = [row[row >= 0].tolist() for row in neighbours]
    outcome = objective(self_score=self_score)(views, Context(neighbours))
    check(outcome, views, loss_by_loops(both_directions(views), contexts, self_score))
    expected = accuracy_by_loops(numbers(both_directions(views)), contexts, self_score)
    assert outcome[1]["accuracy"].item() == pytest.approx(expected)


def test_no_tensor_is_as_large_as_all_scores(monkeypatch):
    monkeypatch.setattr(contrast, "SCORES_AT_ONCE", 128)
    n, sizes = 32, []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            result = op(*args, **(kwargs or {}))
            sizes.extend(x.numel() for x in tree_leaves(result) if isinstance(x, torch.Tensor))
            return result

    with Sizes():
        objective()(draw(2, n), contexts_of([(0, i) for i in range(n)]))[0].backward()
    assert max(sizes) == 128


@both_self_scores
@pytest.mark.parametrize(("distance", "rows"), [(1, 64), (2, 1)])
@pytest.mark.parametrize("batch", ["one document", "two documents", "gaps", "alone"])
def test_other_contexts_left_out_of_the_denominator(monkeypatch, batch, rows, distance, self_score):
    batch = BATCHES[batch]
    monkeypatch.setattr(contrast, "SCORES_AT_ONCE", rows * len(batch))
    views, contexts = draw(2, len(batch), 2.0), contexts_by_loops(batch, distance)
    context = contexts_of(batch, distance)
    outcome = objective(self_score=self_score, other_contexts="left-out")(views, context)
    check(outcome, views, loss_by_loops(both_directions(views), contexts, self_score, left_out=True))
    assert outcome[1]["accuracy"] == objective(self_score=self_score)(views, context)[1]["accuracy"]


@both_self_scores
def test_a_context_far_above_all_others_when_left_out(self_score):
    """Its exponential would leave nothing of the others' in single precision."""
    batch = BATCHES["one document"]
    views = [(view * 1e3).detach().float().requires_grad_() for view in draw(2, len(batch))]
    run = objective(self_score=self_score, other_contexts="left-out")
    loss, _ = run(views, contexts_of(batch))
    exact, _ = run([view.detach().double() for view in views], contexts_of(batch))
    assert loss.item() == pytest.approx(exact.item(), rel=1e-5)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, views))


SAME = {"gaps": [7, 7, 3, 7, 5, 3, 5], "one document": [2, 2, 2, 2], "alone": [4, 1, 4, 4], "no context": [1, 1, 1]}


@both_self_scores
@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("batch", SAME)
def test_duplicates_are_no_candidates(monkeypatch, batch, rows, self_score):
    same, batch = SAME[batch], BATCHES[batch]
    n = len(batch)
    monkeypatch.setattr(contrast, "SCORES_AT_ONCE", rows * n)
    views, contexts = draw(2, n), contexts_by_loops(batch)
    # The other candidates that equal an anchor or one of its contexts, contexts excepted.
    masked = [
        [j for j in range(n) if j not in (i, *some) and same[j] in {same[k] for k in (i, *some)}]
        for i, some in enumerate(contexts)
    ]
    context = replace(contexts_of(batch), same=torch.tensor(same))
    outcome = objective(self_score=self_score, mask_duplicates=True)(views, context)
    check(outcome, views, loss_by_loops(both_directions(views), contexts, self_score, masked=masked))
    shares = [len(some) / (n - 1) for some, of_anchor in zip(masked, contexts, strict=True) if of_anchor]
    assert outcome[1]["masked"].item() == pytest.approx(sum(shares) / max(len(shares), 1))
