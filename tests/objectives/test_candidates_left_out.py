"""Sentences that the pairwise objective leaves out of its candidates: other contexts, and duplicates."""

import math
from dataclasses import replace

import pytest
import torch
from test_pairwise import BATCHES, both_self_scores, contexts_by_loops, contexts_of, draw, objective, probability

from structviews.objectives import contrast


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


def test_an_anchor_that_is_its_own_positive_is_not_left_out():
    views, neighbours = draw(2, 4), contexts_of(BATCHES["one document"]).neighbours
    with pytest.raises(ValueError, match="cannot be left out"):
        contrast.contrastive_loss([views], torch.arange(4), neighbours, "positive", left_out=True)


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
