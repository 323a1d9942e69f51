"""What every registered objective keeps to."""

import pytest
import torch
from torch import nn

from structviews import objectives
from structviews.errors import InputError
from structviews.objectives import base, context_indices
from structviews.objectives.pairwise import Pairwise

B, DIM = 7, 4
every_objective = pytest.mark.parametrize("name", objectives.names())
CONTEXTS = context_indices(torch.tensor([0, 0, 0, 1, 1, 1, 2]), torch.tensor([0, 1, 2, 0, 1, 5, 0]), 1)


def make(name):
    """The objective for as few views as it takes, and their vectors."""
    n_views = base._REGISTRY[name].min_views
    objective = objectives.create(name, [DIM] * n_views).double()
    return objective, [torch.randn(B, DIM, dtype=torch.float64, requires_grad=True) for _ in range(n_views)]


@every_objective
def test_a_loss_and_metrics_that_are_numbers(name):
    objective, views = make(name)
    loss, metrics = objective(views, CONTEXTS)
    assert loss.shape == ()
    assert loss.isfinite()
    assert metrics
    for metric, value in metrics.items():
        assert value.shape == (), metric
        assert value.isfinite(), metric
        assert not value.requires_grad, metric


@every_objective
def test_every_view_and_parameter_learns(name):
    objective, views = make(name)
    objective(views, CONTEXTS)[0].backward()
    for what, tensor in [("view", view) for view in views] + list(objective.named_parameters()):
        assert tensor.grad is not None, what
        assert tensor.grad.isfinite().all(), what
        assert tensor.grad.any(), what


@every_objective
def test_following_the_gradient_lowers_the_loss(name):
    objective, views = make(name)
    torch.manual_seed(1)
    before, _ = objective(views, CONTEXTS)
    before.backward()
    torch.manual_seed(1)
    after, _ = objective([view.detach() - 1e-3 * view.grad for view in views], CONTEXTS)
    assert after < before


@every_objective
@pytest.mark.parametrize("n", [1, 3])
def test_a_batch_without_contexts_is_harmless(name, n):
    objective, views = make(name)
    views = [view[:n].detach().requires_grad_() for view in views]
    loss, metrics = objective(views, torch.full((n, 3), -1))
    assert loss.isfinite()
    assert all(value.isfinite() for value in metrics.values())
    loss.backward()
    assert all(view.grad is None or view.grad.isfinite().all() for view in views)


@every_objective
@pytest.mark.parametrize("scale", [0.0, 1e3])
def test_extreme_vectors_are_harmless(name, scale):
    objective, views = make(name)
    views = [(scale * view).detach().requires_grad_() for view in views]
    loss, _ = objective(views, CONTEXTS)
    loss.backward()
    assert loss.isfinite()
    assert all(view.grad.isfinite().all() for view in views)


@every_objective
def test_nothing_waits_for_the_device(name):
    """Tensors without data: what asks for a value, or for a size that depends on values, is an error."""
    objective, views = make(name)
    views = [view.detach().to("meta").requires_grad_() for view in views]
    document, position = torch.empty(2, B, dtype=torch.int64, device="meta")
    loss, metrics = objective.to("meta")(views, context_indices(document, position, 1))
    loss.backward()
    assert all(tensor.is_meta for tensor in (loss, *metrics.values(), *(view.grad for view in views)))


@every_objective
def test_the_same_seed_gives_the_same_loss(name):
    objective, views = make(name)
    losses = []
    for _ in range(2):
        torch.manual_seed(2)
        losses.append(objective(views, CONTEXTS)[0])
    assert torch.equal(*losses)


@every_objective
def test_after_a_step_it_can_go_on(name):
    objective, views = make(name)
    objective.after_step()
    assert objective(views, CONTEXTS)[0].isfinite()
    assert all(isinstance(view, nn.Module) for view in objective.extra_views().values())


@every_objective
def test_too_few_or_too_many_views_are_an_error_that_names_it(name):
    cls = base._REGISTRY[name]
    numbers = [cls.min_views - 1] + ([cls.max_views + 1] if cls.max_views is not None else [])
    for n in numbers:
        with pytest.raises(InputError, match=f"{n} views? for the objective '{name}'"):
            objectives.create(name, [DIM] * n)


def test_unequal_dimensions_are_refused():
    with pytest.raises(InputError, match="unequal dimensions 4, 6"):
        objectives.create("pairwise", [4, 6])


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="'pairwise' is registered already"):
        base.register("pairwise")(Pairwise)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        InputError, match=f"unknown objective 'pair': the objectives are {', '.join(objectives.names())}"
    ):
        objectives.create("pair", [DIM, DIM])
