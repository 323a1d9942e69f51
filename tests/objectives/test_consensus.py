"""The consensus objective against the papers' formulas, in plain loops, with components by SVD."""

from dataclasses import replace
from itertools import permutations, product

import pytest
import torch
from components import create_objective
from test_pairwise import BATCHES, check, contexts_by_loops, contexts_of, draw

from structviews.errors import InputError
from structviews.objectives.consensus import AGREEMENTS, EPSILON, TEMPERATURES
from structviews.objectives.objective import Inputs, next_indices

MANY = 500  # iterations after which the power method has come to its end on small matrices
every_agreement = pytest.mark.parametrize("agreement", AGREEMENTS)
with_and_without_self = pytest.mark.parametrize("include_self", [True, False])


def objective(agreement="multi", n_views=None, **options):
    views = ("seq", "avg", "bow", "dep")[: n_views or 2 - (agreement == "single")]
    return create_objective("consensus", Inputs(views, (3,) * len(views)), agreement=agreement, **options).double()


def cosine(a, b):
    return (a @ b) / ((a @ a + EPSILON).sqrt() * (b @ b + EPSILON).sqrt())


def agreement_by_definition(agreement, views, i, j):
    """M's and C's definitions for two views, and for any number, of vectors without their component."""
    pairs = {
        "single": [(views[0], views[0])],
        "multi": permutations(views, 2),
        "multi+single": product(views, views),
        "within": [(view, view) for view in views],
        "skip": [(sum(views), sum(views))],
    }[agreement]
    return sum(cosine(f[i], g[j]) for f, g in pairs)


def loss_by_loops(agreement, views, contexts, temperature, include_self, summed=False, window=0):
    n = len(contexts)
    reach = window // 2 or n
    losses = []
    for i, some in enumerate(contexts):
        candidates = [j for j in range(n) if (include_self or j != i) and i - reach <= j < i + reach]
        scores = {j: agreement_by_definition(agreement, views, i, j) / temperature for j in candidates}
        total = sum(torch.exp(score) for score in scores.values())
        positives = [*some, i] if include_self else some
        terms = [-torch.log(torch.exp(scores[j]) / total) for j in positives]
        if some:
            losses.append(sum(terms) / (1 if summed else len(terms)))
    return sum(losses) / len(losses) if losses else torch.zeros((), dtype=torch.float64)


def projected(view):
    """Without the first right singular vector, which is a constant."""
    u = torch.linalg.svd(view.detach())[2][0]
    return view - (view @ u)[:, None] * u


@every_agreement
@with_and_without_self
@pytest.mark.parametrize(
    ("batch", "distance", "iterations", "n_views", "settings"),
    [
        *((name, 1, 0, 2, {}) for name in BATCHES),
        *((name, 3, MANY, 3, {}) for name in ("two documents", "alone")),
        # M equation 1 and C equation 2.
        *(("gaps", 1, 0, 2, {"over_contexts": over, "window": n}) for over, n in (("sum", 0), ("mean", 4), ("sum", 6))),
    ],
)
def test_the_loss_and_its_gradient_are_the_formula(
    agreement, batch, include_self, distance, iterations, n_views, settings
):
    batch, n_views = BATCHES[batch], 1 if agreement == "single" else n_views
    views, contexts = draw(n_views, len(batch)), contexts_by_loops(batch, distance)
    options = {"include_self": include_self, "power_iterations": iterations} | settings
    run = objective(agreement, n_views, temperature=0.3, **options)
    outcome = run(views, contexts_of(batch, distance))
    seen = [projected(view) if iterations else view for view in views]
    how = include_self, settings.get("over_contexts") == "sum", settings.get("window", 0)
    expected = loss_by_loops(agreement, seen, contexts, run.log_temperature.exp(), *how)
    check(outcome, [*views, run.log_temperature], expected, tolerance=1e-9, rtol=1e-6, atol=1e-8)
    assert outcome[1]["temperature"].item() == pytest.approx(0.3)


@with_and_without_self
def test_a_small_temperature_does_not_hide_the_other_sentences(include_self):
    """The sentence itself has nearly all of the probability; accuracy is about the others."""
    axes = torch.eye(4)[[0, 0, 1, 1]] + torch.tensor([[0.0, 0, 0.3, 0], [0, 0, 0, 0.9], [0, 0, 0.5, 0], [0, 0, 0, 0.7]])
    batch = [(0, 0), (0, 1), (1, 0), (1, 1)]
    run = objective(include_self=include_self, temperature=TEMPERATURES[0], power_iterations=0).float()
    loss, metrics = run([axes, axes], contexts_of(batch))
    assert metrics["accuracy"] == 1
    assert loss.isfinite()


@pytest.mark.parametrize(("agreement", "n_views"), [("single", 1), ("multi", 2), ("skip", 3)])
def test_validation_has_the_cosines_of_adjacent_sentences_in_all_views(agreement, n_views):
    """Of a sentence and the next: not over a gap, the end of a document, or backwards."""
    batch = [(0, 0), (0, 1), (0, 2), (0, 4), (1, 5), (1, 6)]
    views, context = draw(n_views, len(batch)), contexts_of(batch, distance=3)
    run = objective(agreement, n_views, power_iterations=MANY).eval()
    _, metrics = run(views, replace(context, next=next_indices(*torch.tensor(batch).T)))
    left = dict(zip("fgh", map(projected, views), strict=False))
    pairs = [(0, 1), (1, 2), (4, 5)]
    found = {name: value.item() for name, value in metrics.items() if name.startswith("adjacent")}
    expected = {
        f"adjacent_{a}{b}": sum(cosine(left[a][i], left[b][j]).item() for i, j in pairs) / len(pairs)
        for a, b in product(left, left)
    }
    assert found == pytest.approx(expected, abs=1e-6)
    alone = replace(context, next=torch.full((len(batch),), -1))
    assert run(views, alone)[1]["adjacent_ff"] == 0


@pytest.mark.parametrize(("far", "bound"), [(-100.0, TEMPERATURES[0]), (100.0, TEMPERATURES[1])])
def test_a_learnt_temperature_is_bounded_and_its_bound_is_warned_of(far, bound):
    run, batch = objective(), (draw(2, 4), contexts_of(BATCHES["one document"]))
    assert run.warning(run(*batch)[1]) == ""
    torch.nn.init.constant_(run.log_temperature, far)
    run.after_step()
    temperature = run(*batch)[1]["temperature"].item()
    assert temperature == pytest.approx(bound)
    assert f"reached its bound {bound}" in run.warning({"temperature": temperature})


def test_a_fixed_temperature_does_not_learn():
    run = objective(temperature=TEMPERATURES[0], learn_temperature=False)
    run(draw(2, 4), contexts_of(BATCHES["one document"]))[0].backward()
    assert run.log_temperature.grad is None
    assert run.warning({"temperature": TEMPERATURES[0]}) == ""


def test_a_window_has_two_halves():
    with pytest.raises(InputError, match="window = 3: give an even number"):
        objective(window=3)


@every_agreement
def test_the_number_of_views_that_an_agreement_takes(agreement, one_line):
    single = agreement == "single"
    views, wanted = (("seq", "avg"), "one view") if single else (("seq",), "two or more views")
    with one_line(f"needs {wanted}, not .* --views .* --agreement"):
        create_objective("consensus", Inputs(views, (3,) * len(views)), agreement=agreement)
