"""Quick-thoughts against the paper's formula in plain loops."""

import math

import pytest
import torch
from components import create_objective
from test_pairwise import (
    BATCHES,
    both_self_scores,
    contexts_by_loops,
    contexts_of,
    draw,
    every_batch,
    probability,
)

from structviews.errors import InputError
from structviews.objectives.objective import Inputs


def objective(views=("seq", "seq"), **options):
    return create_objective("quick-thoughts", Inputs(views, (3,) * len(views)), **options)


def loss_by_loops(f, g, contexts, self_score, exp=math.exp, log=math.log):
    """Mean over sentences with contexts of the mean over their contexts of -log P(f, g), equation 2."""
    losses = []
    for i, some in enumerate(contexts):
        terms = [-log(probability(f, g, i, j, self_score, exp)) for j in some]
        if terms:
            losses.append(sum(terms) / len(terms))
    return sum(losses) / len(losses) if losses else 0


@both_self_scores
@every_batch
@pytest.mark.parametrize("distance", [1, 3])
def test_the_loss_and_its_gradient_are_the_formula(batch, distance, self_score):
    batch = BATCHES[batch]
    f, g = draw(2, len(batch))
    contexts = contexts_by_loops(batch, distance)
    loss, metrics = objective(self_score=self_score)([f, g], contexts_of(batch, distance))
    assert loss.item() == pytest.approx(loss_by_loops(f.tolist(), g.tolist(), contexts, self_score), abs=1e-12)
    assert metrics["anchors"] == sum(bool(some) for some in contexts)
    if any(contexts):
        wanted = torch.autograd.grad(loss_by_loops(f, g, contexts, self_score, torch.exp, torch.log), [f, g])
        torch.testing.assert_close(torch.autograd.grad(loss, [f, g]), wanted, rtol=0, atol=1e-12)


@both_self_scores
@every_batch
def test_accuracy_is_of_the_first_view_reading_the_second(batch, self_score):
    batch = BATCHES[batch]
    f, g = draw(2, len(batch))
    contexts = contexts_by_loops(batch)
    hits = []
    for i, some in enumerate(contexts):
        scores = {j: (f[i] @ g[j]).item() for j in range(len(batch)) if j != i}
        if some:
            hits.append(max(scores, key=scores.get) in some)
    _, metrics = objective(self_score=self_score)([f, g], contexts_of(batch))
    assert metrics["accuracy"].item() == pytest.approx(sum(hits) / len(hits) if hits else 0)


def test_the_views_are_not_interchangeable():
    f, g = draw(2, 7)
    context = contexts_of(BATCHES["gaps"])
    assert objective()([f, g], context)[0] != objective()([g, f], context)[0]


@pytest.mark.parametrize("views", [("seq", "bow"), ("seq", "seq-uni"), ("dep", "dep-sum")])
def test_different_architectures_are_refused(views):
    with pytest.raises(InputError, match=f"views {views[0]},{views[1]} for .* same architecture: give one view twice"):
        objective(views)
