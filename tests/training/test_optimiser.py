import math

import pytest
import torch

from structviews.training.optimiser import LazyAdam, clip_gradients

SIZE = (6, 3)
LR, BETAS, EPS = 0.05, (0.8, 0.95), 1e-6


def parameter(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Parameter(torch.randn(SIZE, dtype=torch.float64))


def sparse(rows, values):
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, SIZE, check_invariants=True, is_coalesced=True)


def some_rows(step):
    """Every row now and then; row 5 never, row 0 always."""
    return [0, *(row for row in range(1, 5) if (step + row) % (row + 1) == 0)]


def row_by_row(start, steps):
    """The documented semantics in plain numbers: ``steps`` are dicts from row to its gradient."""
    weight = start.tolist()
    first, second = ([[0.0] * SIZE[1] for _ in range(SIZE[0])] for _ in range(2))
    for t, gradients in enumerate(steps, 1):
        for row, gradient in gradients.items():
            for i, g in enumerate(gradient.tolist()):
                first[row][i] = BETAS[0] * first[row][i] + (1 - BETAS[0]) * g
                second[row][i] = BETAS[1] * second[row][i] + (1 - BETAS[1]) * g * g
                mean, square = first[row][i] / (1 - BETAS[0] ** t), second[row][i] / (1 - BETAS[1] ** t)
                weight[row][i] -= LR * mean / (math.sqrt(square) + EPS)
    return torch.tensor(weight, dtype=torch.float64)


def lazily(start, steps):
    table = torch.nn.Parameter(start.detach().clone())
    optimiser = LazyAdam([table], LR, BETAS, EPS)
    for gradients in steps:
        table.grad = sparse(list(gradients), torch.stack(list(gradients.values())))
        optimiser.step()
    return table.detach(), optimiser


def test_rows_that_do_not_occur_stand_still_and_the_others_follow_adam():
    start = parameter().detach()
    steps = [{row: torch.randn(SIZE[1], dtype=torch.float64) for row in some_rows(step)} for step in range(12)]
    assert not all(len(step) == len(steps[0]) for step in steps)
    weight, optimiser = lazily(start, steps)
    torch.testing.assert_close(weight, row_by_row(start, steps), rtol=1e-12, atol=1e-12)
    assert torch.equal(weight[5], start[5])
    (state,) = optimiser.state.values()
    assert not state["exp_avg"][5].any()
    before = {name: tensor.clone() for name, tensor in state.items()}
    optimiser.param_groups[0]["params"][0].grad = sparse([1], torch.ones(1, SIZE[1], dtype=torch.float64))
    optimiser.step()
    others = [0, 2, 3, 4, 5]
    assert all(torch.equal(state[name][others], before[name][others]) for name in ("exp_avg", "exp_avg_sq"))
    assert state["exp_avg"][1].ne(before["exp_avg"][1]).all()
    assert state["step"] == before["step"] + 1


def test_where_every_row_occurs_it_is_adam_to_the_bit():
    lazy, plain = parameter(), parameter()
    optimisers = LazyAdam([lazy], LR, BETAS, EPS), torch.optim.Adam([plain], LR, BETAS, EPS, fused=True)
    for _ in range(10):
        plain.grad = torch.randn(SIZE, dtype=torch.float64)
        lazy.grad = sparse(list(range(SIZE[0])), plain.grad.clone())
        for optimiser in optimisers:
            optimiser.step()
    assert torch.equal(lazy, plain)


def test_a_row_given_twice_has_the_sum_of_its_gradients():
    values = torch.randn(3, SIZE[1], dtype=torch.float64)
    twice, once = parameter(), parameter()
    twice.grad = torch.sparse_coo_tensor(torch.tensor([[1, 4, 1]]), values, SIZE, check_invariants=True)
    once.grad = sparse([1, 4], torch.stack([values[0] + values[2], values[1]]))
    for table in (twice, once):
        clip_gradients([table], 0.5)
        LazyAdam([table], LR).step()
    torch.testing.assert_close(twice, once)


@pytest.mark.parametrize("largest", [0.5, 1e3])
def test_clipping_is_that_of_pytorch_on_dense_gradients(largest):
    rows = [1, 3]
    ours, dense = [parameter(), parameter(1), parameter(2)], [parameter(), parameter(1), parameter(2)]
    ours[0].grad = torch.randn(SIZE, dtype=torch.float64)
    ours[1].grad = sparse(rows, torch.randn(len(rows), SIZE[1], dtype=torch.float64))
    for mine, other in zip(ours[:2], dense[:2], strict=True):
        other.grad = mine.grad.to_dense() if mine.grad.is_sparse else mine.grad.clone()
    clip_gradients(ours, largest)
    torch.nn.utils.clip_grad_norm_(dense, largest)
    assert ours[1].grad.is_sparse
    for mine, other in zip(ours[:2], dense[:2], strict=True):
        torch.testing.assert_close(mine.grad.to_dense() if mine.grad.is_sparse else mine.grad, other.grad)
    assert ours[2].grad is None
