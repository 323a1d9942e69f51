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

SELF_SCORES = ("masked", "zero")
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
every_batch = pytest.mark.parametrize("batch", BATCHES)
both_self_scores = pytest.mark.parametrize("self_score", SELF_SCORES)


def contexts_by_loops(batch, distance=1):
    return [
        [j for j, (e, q) in enumerate(batch) if e == d and j != i and abs(p - q) <= distance]
        for i, (d, p) in enumerate(batch)
    ]


def contexts_of(batch, distance=1):
    document, position = torch.tensor(batch).T
    return Context(context_indices(document, position, distance))


def probability(f, g, i, j, self_score, exp, masked=()):
    """P(f, g)[i, j], the way it is written."""
    others = [k for k in range(len(f)) if k != i and k not in masked]
    total = sum(exp(dot(f[i], g[k])) for k in others) + (1 if self_score == "zero" else 0)
    return exp(dot(f[i], g[j])) / total


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def loss_by_loops(views, contexts, self_score, exp=math.exp, log=math.log):
    """The loss over lists of numbers; the functions decide of what kind, floats, decimals or tensors."""
    losses = []
    for f, g in combinations(views, 2):
        of_anchors = []
        for i, some in enumerate(contexts):
            terms = [
                -log((probability(f, g, i, j, self_score, exp) + probability(g, f, i, j, self_score, exp)) / 2)
                for j in some
            ]
            if terms:
                of_anchors.append(sum(terms) / len(terms))
        losses.append(sum(of_anchors) / len(of_anchors) if of_anchors else 0)
    return sum(losses) / len(losses)


def plain_log_p(f, g, self_score="masked"):
    """``log p_ij`` of all pairs of sentences, ``(M, M)``."""
    own = torch.eye(len(f), dtype=torch.bool)
    directions = [
        scores.masked_fill(own, -torch.inf if self_score == "masked" else 0.0).log_softmax(dim=1).masked_fill(own, 0.0)
        for scores in (f @ g.T, g @ f.T)
    ]
    return torch.logaddexp(*directions) - math.log(2)


def plain_loss(f, g, positives, self_score):
    log_p = plain_log_p(f, g, self_score)
    terms = [-log_p[i, some[some >= 0]].mean() for i, some in enumerate(positives) if (some >= 0).any()]
    return torch.stack(terms).mean()


def draw_positives(n, width):
    """None to ``width`` random contexts of each sentence, in any order, with gaps between them."""
    others = [torch.randperm(n) for _ in range(n)]
    positives = torch.stack([some[some != i][:width] for i, some in enumerate(others)])
    return torch.where(torch.rand(positives.shape) < 0.5, positives, -1)


def draw(n_views, n, scale=1.0):
    return [(scale * torch.randn(n, 3, dtype=torch.float64)).requires_grad_() for _ in range(n_views)]


def pairwise_loss(f, g, positives, self_score):
    """The loss, and the most probable candidate of each anchor."""
    loss, best, _ = contrast._ContrastiveLoss.apply(positives, self_score, None, False, f, g, g, f)
    return loss, best


def objective(n_views=2, **options):
    return create_objective("pairwise", Inputs(("seq",) * n_views, (3,) * n_views), **options)


@both_self_scores
@every_batch
@pytest.mark.parametrize("n_views", [2, 3])
def test_loss_gradient_and_accuracy_are_the_formula(batch, n_views, self_score):
    batch = BATCHES[batch]
    views, contexts = draw(n_views, len(batch)), contexts_by_loops(batch)
    loss, metrics = objective(n_views, self_score=self_score)(views, contexts_of(batch))
    expected = loss_by_loops(views, contexts, self_score, torch.exp, torch.log)
    assert loss.item() == metrics["loss"].item() == pytest.approx(torch.as_tensor(expected).item(), abs=1e-12)
    gradients = torch.autograd.grad(loss, views)
    wanted = torch.autograd.grad(expected, views) if any(contexts) else tuple(map(torch.zeros_like, views))
    torch.testing.assert_close(gradients, wanted, rtol=0, atol=1e-12)
    accuracies = []
    for f, g in combinations([view.tolist() for view in views], 2):
        hits = []
        for i, some in enumerate(contexts):
            p = {
                j: sum(probability(a, b, i, j, self_score, math.exp) for a, b in ((f, g), (g, f)))
                for j in range(len(batch))
                if j != i
            }
            if some:
                hits.append(max(p, key=p.get) in some)
        accuracies.append(sum(hits) / len(hits) if hits else 0)
    assert metrics["accuracy"].item() == pytest.approx(sum(accuracies) / len(accuracies))


@both_self_scores
@pytest.mark.parametrize("scale", [10.0, 30.0, 100.0])
def test_extreme_scores_are_exact_and_have_finite_gradients(self_score, scale):
    """Inner products beyond 1e3, whose exponentials are no floats; decimals hold them."""
    batch = BATCHES["gaps"]
    views = draw(2, len(batch), scale)
    assert (views[0] @ views[1].T).abs().max() > scale * scale
    loss, metrics = objective(self_score=self_score)(views, contexts_of(batch))
    decimals = [[[Decimal(x) for x in row] for row in view.tolist()] for view in views]
    expected = loss_by_loops(decimals, contexts_by_loops(batch), self_score, Decimal.exp, Decimal.ln)
    assert loss.item() == pytest.approx(float(expected), rel=1e-12)
    assert all(value.isfinite() for value in metrics.values())
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, views))


@both_self_scores
@pytest.mark.parametrize(("rows", "scale"), [(1, 1.0), (2, 8.0), (5, 1.0), (64, 8.0)])
def test_blocks_of_anchors_make_up_the_plain_formula(monkeypatch, rows, self_score, scale):
    monkeypatch.setattr(contrast, "SCORES_AT_ONCE", rows * 11 + 10)
    f, g = draw(2, 11, scale)
    positives = draw_positives(11, 6)
    positives[0, 0] = 5
    loss, best = pairwise_loss(f, g, positives, self_score)
    expected = plain_loss(f, g, positives, self_score)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    assert best.tolist() == plain_log_p(f, g, self_score).fill_diagonal_(-torch.inf).argmax(dim=1).tolist()
    gradients, wanted = (torch.autograd.grad(3 * value, (f, g)) for value in (loss, expected))
    torch.testing.assert_close(gradients, wanted, rtol=1e-12, atol=1e-14)


@both_self_scores
@pytest.mark.parametrize("swapped", [False, True])
def test_a_direction_may_leave_nothing_to_the_others(self_score, swapped):
    """Beside the zero of the sentence itself; the other direction decides then."""
    scores = torch.randn(5, 5, dtype=torch.float64)
    scores[1] -= 2e3
    views = [scores, torch.eye(5, dtype=torch.float64)]
    f, g = views[::-1] if swapped else views
    positives = torch.tensor([[2], [3], [4], [1], [-1]])
    loss, best = pairwise_loss(f, g, positives, self_score)
    torch.testing.assert_close(loss, plain_loss(f, g, positives, self_score), rtol=1e-12, atol=0)
    assert best.tolist() == plain_log_p(f, g, self_score).fill_diagonal_(-torch.inf).argmax(dim=1).tolist()


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
@every_batch
def test_chance_is_what_equal_vectors_reach(batch, self_score):
    batch = BATCHES[batch]
    n, contexts = len(batch), contexts_by_loops(batch)
    loss, metrics = objective(self_score=self_score)([torch.zeros(n, 3, dtype=torch.float64)] * 2, contexts_of(batch))
    assert metrics["chance_loss"].item() == pytest.approx(loss.item(), rel=1e-6)
    shares = [len(some) / (n - 1) for some in contexts if some]
    assert metrics["chance_accuracy"].item() == pytest.approx(sum(shares) / len(shares) if shares else 0)
    if shares:
        assert loss.item() == pytest.approx(math.log(n if self_score == "zero" else n - 1))


@every_batch
@pytest.mark.parametrize("distance", [1, 2, 3])
def test_contexts_are_neighbours_in_the_same_document(batch, distance):
    batch = BATCHES[batch]
    expected = contexts_by_loops(batch, distance)
    assert [row[row >= 0].tolist() for row in contexts_of(batch, distance).neighbours] == expected


def loss_without_other_contexts(f, g, contexts, self_score):
    """Each context's softmax is over it and the sentences that are no contexts."""
    losses = []
    for i, some in enumerate(contexts):
        terms = []
        for j in some:
            masked = set(some) - {j}
            p = [probability(a, b, i, j, self_score, torch.exp, masked) for a, b in ((f, g), (g, f))]
            terms.append(-torch.log(sum(p) / 2))
        if terms:
            losses.append(sum(terms) / len(terms))
    return sum(losses) / len(losses)


@both_self_scores
@pytest.mark.parametrize("distance", [1, 2])
@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("batch", ["one document", "two documents", "gaps", "alone"])
def test_other_contexts_left_out_of_the_denominator(monkeypatch, batch, rows, distance, self_score):
    batch = BATCHES[batch]
    monkeypatch.setattr(contrast, "SCORES_AT_ONCE", rows * len(batch))
    views, contexts = draw(2, len(batch), 2.0), contexts_by_loops(batch, distance)
    loss, metrics = objective(self_score=self_score, other_contexts="left-out")(views, contexts_of(batch, distance))
    expected = loss_without_other_contexts(*views, contexts, self_score)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12, abs=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(loss, views), torch.autograd.grad(expected, views), rtol=0, atol=1e-12
    )
    kept = objective(self_score=self_score)(views, contexts_of(batch, distance))[1]
    assert metrics["accuracy"] == kept["accuracy"]
    n = len(batch) - (self_score == "masked")
    chances = [math.log(n - len(some) + 1) for some in contexts if some]
    assert metrics["chance_loss"].item() == pytest.approx(sum(chances) / len(chances))


@both_self_scores
def test_a_context_far_above_all_others_when_left_out(self_score):
    """Its exponential would leave nothing of the others' in single precision."""
    batch = BATCHES["one document"]
    views = [(view * 1e3).detach().float().requires_grad_() for view in draw(2, len(batch))]
    loss, _ = objective(self_score=self_score, other_contexts="left-out")(views, contexts_of(batch))
    doubles = [view.detach().double() for view in views]
    exact, _ = objective(self_score=self_score, other_contexts="left-out")(doubles, contexts_of(batch))
    assert loss.item() == pytest.approx(exact.item(), rel=1e-5)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, views))


def duplicates_by_loops(same, contexts):
    """For each anchor the other candidates that equal it or one of its contexts, contexts excepted."""
    return [
        [j for j in range(len(same)) if j != i and j not in some and same[j] in {same[k] for k in [i, *some]}]
        for i, some in enumerate(contexts)
    ]


SAME = {"gaps": [7, 7, 3, 7, 5, 3, 5], "one document": [2, 2, 2, 2], "alone": [4, 1, 4, 4], "no context": [1, 1, 1]}


@both_self_scores
@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("batch", SAME)
def test_duplicates_are_no_candidates(monkeypatch, batch, rows, self_score):
    same, batch = SAME[batch], BATCHES[batch]
    monkeypatch.setattr(contrast, "SCORES_AT_ONCE", rows * len(batch))
    views, contexts = draw(2, len(batch)), contexts_by_loops(batch)
    masked = duplicates_by_loops(same, contexts)
    terms = []
    for i, some in enumerate(contexts):
        p = {
            j: sum(probability(a, b, i, j, self_score, torch.exp, masked[i]) for a, b in (views, views[::-1]))
            for j in some
        }
        if some:
            terms.append(-sum(torch.log(value / 2) for value in p.values()) / len(some))
    context = replace(contexts_of(batch), same=torch.tensor(same))
    loss, metrics = objective(self_score=self_score, mask_duplicates=True)(views, context)
    if not terms:
        assert (loss.item(), metrics["masked"].item()) == (0, 0)
        return
    expected = sum(terms) / len(terms)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(loss, views), torch.autograd.grad(expected, views), rtol=0, atol=1e-12
    )
    share = [len(some) / (len(batch) - 1) for some, of_anchor in zip(masked, contexts, strict=True) if of_anchor]
    assert metrics["masked"].item() == pytest.approx(sum(share) / len(share))
