"""Quick-thoughts' other losses and negatives in plain loops; test_pairwise.py has its own loss."""

from dataclasses import replace

import pytest
import torch
from components import create_objective
from test_pairwise import BATCHES, check, contexts_by_loops, contexts_of, draw

from structviews.errors import InputError
from structviews.objectives.objective import Inputs
from structviews.objectives.quick_thoughts import drawn, eligible

every_loss = pytest.mark.parametrize("loss", ["softmax", "binary", "margin"])
MARGIN = 0.7


def objective(views=("seq", "seq"), **options):
    return create_objective("quick-thoughts", Inputs(views, (3,) * len(views)), **options)


def alternative_by_loops(kind, f, g, contexts, negatives):
    """Mean over sentences with contexts; the score of a pair is an inner product."""
    losses = []
    for i, some in enumerate(contexts):
        near, far = [f[i] @ g[j] for j in some], [f[i] @ g[k] for k in negatives[i]]
        if not some:
            continue
        if kind == "softmax":
            total = torch.log(sum(torch.exp(score) for score in near + far))
            losses.append(sum(total - score for score in near) / len(near))
        elif kind == "binary":
            of_contexts = sum(-torch.log(torch.sigmoid(score)) for score in near) / len(near)
            losses.append(of_contexts + sum(-torch.log(1 - torch.sigmoid(score)) for score in far))
        else:
            hinges = [max(MARGIN - high + low, 0 * low) for high in near for low in far]
            losses.append(sum(hinges) / len(near))
    return sum(losses) / len(losses)


@every_loss
@pytest.mark.parametrize("negatives", ["batch", "random", "nearest"])
@pytest.mark.parametrize("batch", ["two documents", "gaps", "alone"])
def test_other_losses_and_negatives_are_their_formulas(batch, loss, negatives):
    batch = BATCHES[batch]
    f, g = draw(2, len(batch))
    contexts, context = contexts_by_loops(batch, 2), contexts_of(batch, 2)
    torch.manual_seed(3)
    sampled = drawn(eligible(context.neighbours), 2)
    others = [[k for k in range(len(batch)) if k != i and k not in some] for i, some in enumerate(contexts)]
    chosen = {
        "batch": others,
        "random": [row.nonzero()[:, 0].tolist() for row in sampled],
        "nearest": [
            sorted(some, key=lambda k, i=i: -torch.cosine_similarity(f[i], f[k], dim=0).item())[:2]
            for i, some in enumerate(others)
        ],
    }
    settings = {"margin": MARGIN} if loss == "margin" else {}
    run = objective(loss=loss, negatives=negatives, **settings, **({} if negatives == "batch" else {"contrasts": 2}))
    torch.manual_seed(3)
    outcome, chosen = run([f, g], context), chosen[negatives]
    check(outcome, [f, g], alternative_by_loops(loss, f, g, contexts, chosen))
    zeros = torch.zeros(len(batch), 3, dtype=torch.float64)
    candidates = [(i, some, some + chosen[i]) for i, some in enumerate(contexts) if some]
    shares = [len(some) / len(among) for _, some, among in candidates]
    hits = [max(among, key=lambda k, i=i: (f[i] @ g[k]).item()) in some for i, some, among in candidates]
    expected = {
        "chance_loss": alternative_by_loops(loss, zeros, zeros, contexts, chosen).item(),
        "chance_accuracy": sum(shares) / len(shares),
        "accuracy": sum(hits) / len(hits),
    }
    assert {metric: outcome[1][metric].item() for metric in expected} == pytest.approx(expected)


@pytest.mark.parametrize("negatives", ["random", "nearest"])
@every_loss
def test_validation_is_among_the_whole_batch(loss, negatives):
    views, context = draw(2, 7), contexts_of(BATCHES["gaps"])
    few, all_of_it = objective(loss=loss, negatives=negatives, contrasts=1), objective(loss=loss)
    assert few(views, context)[0] != all_of_it(views, context)[0]
    assert few.eval()(views, context)[0] == all_of_it(views, context)[0]


def test_duplicates_are_no_negatives():
    views, context = draw(2, 7), contexts_of(BATCHES["gaps"])
    context = replace(context, same=torch.tensor([7, 7, 3, 7, 5, 3, 5]))
    settings = {"mask_duplicates": True}
    whole = objective(**settings)(views, context)
    some = objective(negatives="random", contrasts=7, **settings)(views, context)
    assert some[0].item() == pytest.approx(whole[0].item(), rel=1e-12)
    assert some[1]["masked"].item() == pytest.approx(whole[1]["masked"].item())


def test_random_negatives_are_equally_likely():
    allowed = eligible(contexts_of([(0, i) for i in range(6)]).neighbours)
    counts = torch.zeros(6, 6)
    for _ in range(3000):
        sampled = drawn(allowed, 2)
        assert (sampled.sum(dim=1) == 2).all()
        counts += sampled
    shares = counts / 3000 * allowed.sum(dim=1, keepdim=True) / 2
    assert not counts[~allowed].any()
    assert shares[allowed].sub(1).abs().max() < 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "binary", "self_score": "zero"}, "self_score = zero with loss = binary: only a softmax .*: leave"),
        ({"loss": "binary", "margin": 0.5}, "margin = 0.5 with loss = binary: leave"),
        ({"contrasts": 5}, "contrasts = 5 with negatives = batch, .*: leave it out, or add --negatives random"),
        ({"views": ("seq", "seq-uni")}, "views seq,seq-uni for .* same architecture: give one view twice"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        objective(**settings)
