"""The optimiser, clipping, and several batches a step."""

import math
from itertools import islice

import pytest
import torch
from corpora import small_config, topic_corpus
from ranks import gradients, prepared

from structviews.errors import InputError
from structviews.training.checkpoint import Progress
from structviews.training.optimiser import LazyAdam, clip_gradients, merge_rows
from structviews.training.trainer import Training

SIZE = (6, 3)
LR, BETAS, EPS = 0.05, (0.9, 0.999), 1e-8


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
    for t, given in enumerate(steps, 1):
        for row, gradient in given.items():
            for i, g in enumerate(gradient.tolist()):
                first[row][i] = BETAS[0] * first[row][i] + (1 - BETAS[0]) * g
                second[row][i] = BETAS[1] * second[row][i] + (1 - BETAS[1]) * g * g
                mean, square = first[row][i] / (1 - BETAS[0] ** t), second[row][i] / (1 - BETAS[1] ** t)
                weight[row][i] -= LR * mean / (math.sqrt(square) + EPS)
    return torch.tensor(weight, dtype=torch.float64)


def test_rows_that_do_not_occur_stand_still_and_the_others_follow_adam():
    start = parameter().detach()
    steps = [{row: torch.randn(SIZE[1], dtype=torch.float64) for row in some_rows(step)} for step in range(12)]
    table = torch.nn.Parameter(start.clone())
    optimiser = LazyAdam([table], LR)
    for given in steps:
        table.grad = sparse(list(given), torch.stack(list(given.values())))
        optimiser.step()
    torch.testing.assert_close(table.detach(), row_by_row(start, steps), rtol=1e-12, atol=1e-12)
    assert torch.equal(table[5], start[5])
    (state,) = optimiser.state.values()
    before = {name: tensor.clone() for name, tensor in state.items()}
    table.grad = sparse([1], torch.ones(1, SIZE[1], dtype=torch.float64))
    optimiser.step()
    for name in ("exp_avg", "exp_avg_sq"):
        assert state[name].ne(before[name]).any(dim=1).tolist() == [row == 1 for row in range(6)]
    assert state["step"] == before["step"] + 1


def test_a_row_given_twice_has_the_sum_of_its_gradients():
    values = torch.randn(3, SIZE[1], dtype=torch.float64)
    gradient = torch.sparse_coo_tensor(torch.tensor([[1, 4, 1]]), values, SIZE, check_invariants=True)
    merged = merge_rows(gradient, torch.tensor([1, 4]))
    assert merged.is_coalesced()
    torch.testing.assert_close(merged.to_dense(), gradient.to_dense())
    twice, once = parameter(), parameter()
    twice.grad, once.grad = gradient, sparse([1, 4], torch.stack([values[0] + values[2], values[1]]))
    for table in (twice, once):
        clip_gradients([table], 0.5)
        LazyAdam([table], LR).step()
    torch.testing.assert_close(twice, once)


@pytest.mark.parametrize("largest", [0.5, 1e3])
def test_clipping_is_that_of_pytorch_on_dense_gradients(largest):
    first, second = torch.randn(SIZE, dtype=torch.float64), torch.randn(2, SIZE[1], dtype=torch.float64)
    ours, dense = ([parameter(), parameter(1), parameter(2)] for _ in range(2))
    ours[0].grad, ours[1].grad = first, sparse([1, 3], second)
    dense[0].grad, dense[1].grad = first.clone(), ours[1].grad.to_dense()
    clip_gradients(ours, largest)
    torch.nn.utils.clip_grad_norm_(dense, largest)
    assert ours[1].grad.is_sparse
    torch.testing.assert_close(ours[0].grad, dense[0].grad)
    torch.testing.assert_close(ours[1].grad.to_dense(), dense[1].grad)
    clip_gradients(ours[2:], largest)  # of tensors that are clipped one by one, some have none
    assert ours[2].grad is None


@pytest.fixture
def config(tmp_path):
    """88 training sentences and batches of 8: eleven and perhaps a rest, so the epoch's last step has fewer."""
    settings = {"batch_size": 8, "accumulate": 4, "epochs": 2, "precision": "fp32", "clip": 1e9}
    return small_config(topic_corpus(tmp_path / "x.parsed"), tmp_path / "run", **settings)


@pytest.mark.parametrize("views", [("dep", "const"), ("bow", "seq")])
def test_the_gradient_is_the_mean_of_the_batches(config, views):
    accumulated, alone = (prepared(config.replaced(views=views)) for _ in range(2))
    for step in islice(accumulated.steps(Progress()), 2):
        metrics, _ = accumulated.step(*step.batches, words=step.words)
        each, losses = [], []
        for batch in step.batches:
            losses.append(alone.step(batch)[0]["trained"]["loss"])
            each.append(gradients(alone))
        assert len(each) == 4
        assert float(metrics["trained"]["loss"]) == pytest.approx(float(torch.stack(losses).mean()))
        for name, gradient in gradients(accumulated).items():
            expected = torch.stack([one[name] for one in each]).mean(dim=0)
            torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-14)


def test_steps_and_places(config):
    made = Training(config)
    steps = list(made.steps(Progress()))
    assert [step.progress.step for step in steps] == list(range(1, made.data.last_step() + 1))
    for epoch in range(2):
        mine = steps[epoch * 3 : epoch * 3 + 3]
        assert [len(step.batches) for step in mine[:2]] == [4, 4]
        assert 3 <= len(mine[2].batches) <= 4
        assert sum(len(batch) for step in mine for batch in step.batches) == len(made.data.train_rows)
        assert [(step.progress.epoch, step.progress.batch) for step in mine] == [(epoch, 4), (epoch, 8), (epoch + 1, 0)]
    for again, step in zip(made.steps(steps[1].progress), steps[2:], strict=True):
        assert again.progress == step.progress
        assert [b.position.tolist() for b in again.batches] == [b.position.tolist() for b in step.batches]


def test_a_run_is_as_the_quick_thoughts_code_has_it(config):
    """Batches in the corpus's order, contexts across documents, the first sentences held out, each tensor clipped."""
    settings = {"across_documents": True, "batch_order": "corpus", "held_out": 10, "accumulate": 1, "clip_by": "tensor"}
    made = Training(config.replaced(**settings, clip=1e-3))
    made.optimiser.step = lambda: None
    assert made.data.held_out_rows.tolist() == list(range(10))
    places = [batch.position for step in islice(made.steps(Progress()), 11) for batch in step.batches]
    whole = torch.cat([each for each in places if len(each) == 8])
    assert (whole.diff() == 1).all()
    (batch,) = next(made.steps(Progress())).batches
    neighbours = made.model.context(batch, 1).neighbours
    assert ((neighbours >= 0).sum(dim=1)[1:-1] == 2).all()  # the documents have eight sentences each
    made.step(batch)
    norms = [float(gradient.norm()) for gradient in gradients(made).values()]
    assert max(norms) == pytest.approx(1e-3, rel=1e-3)
    assert sum(norm > 9e-4 for norm in norms) > 3


def test_a_number_of_held_out_sentences_is_whole(config):
    with pytest.raises(InputError, match=r"held_out = 1.5: give a share below 1, or a whole number of sentences"):
        config.replaced(held_out=1.5)


def test_where_every_row_occurs_it_is_adam_to_the_bit():
    lazy, plain = parameter(), parameter()
    optimisers = LazyAdam([lazy], LR), torch.optim.Adam([plain], LR, fused=True)
    for _ in range(10):
        plain.grad = torch.randn(SIZE, dtype=torch.float64)
        lazy.grad = sparse(list(range(SIZE[0])), plain.grad.clone())
        for optimiser in optimisers:
            optimiser.step()
    assert torch.equal(lazy, plain)
