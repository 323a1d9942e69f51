"""Several batches a step: their gradients are averaged, each has its own negatives."""

from itertools import islice

import pytest
import torch
from corpora import small_config, topic_corpus

from structviews.training.checkpoint import Progress
from structviews.training.optimiser import merge_rows
from structviews.training.trainer import Training


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return topic_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed")


@pytest.fixture
def config(corpus, tmp_path):
    """88 training sentences and batches of 8: eleven and perhaps a rest, so the epoch's last step has fewer."""
    settings = {"batch_size": 8, "accumulate": 4, "epochs": 2, "precision": "fp32", "clip": 1e9}
    return small_config(corpus, tmp_path / "run", **settings)


def gradients(training):
    """Dense gradients by name; None where there is none."""
    return {
        name: None if p.grad is None else p.grad.to_dense() if p.grad.is_sparse else p.grad
        for name, p in training.model.named_parameters()
    }


@pytest.mark.parametrize("views", [("dep", "const"), ("bow", "seq")])
def test_the_gradient_is_the_mean_of_the_batches(config, views):
    made, alone = (Training(config.replaced(views=views)) for _ in range(2))
    for training in (made, alone):
        training.model.double()
        training.optimiser.step = lambda: None
    for step in islice(made.steps(Progress()), 2):
        metrics, _ = made.step(*step.batches, words=step.words)
        each, losses = [], []
        for batch in step.batches:
            losses.append(alone.step(batch)[0]["trained"]["loss"])
            each.append(gradients(alone))
        assert len(each) == 4
        assert float(metrics["trained"]["loss"]) == pytest.approx(float(torch.stack(losses).mean()))
        for name, gradient in gradients(made).items():
            expected = torch.stack([one[name] for one in each]).mean(dim=0)
            torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-14)


def test_steps_and_places(config):
    made = Training(config)
    steps = list(made.steps(Progress()))
    assert len(steps) == made.data.last_step()
    for epoch in range(2):
        mine = steps[epoch * 3 : epoch * 3 + 3]
        assert [len(step.batches) for step in mine[:2]] == [4, 4]
        assert 3 <= len(mine[2].batches) <= 4
        assert sum(len(batch) for step in mine for batch in step.batches) == len(made.data.train_rows)
        assert [step.progress.batch for step in mine] == [4, 8, 0]
        assert [step.progress.epoch for step in mine] == [epoch, epoch, epoch + 1]
    assert [step.progress.step for step in steps] == list(range(1, len(steps) + 1))
    again = list(made.steps(steps[1].progress))
    assert [step.progress for step in again] == [step.progress for step in steps[2:]]
    assert [b.position.tolist() for s in again for b in s.batches] == [
        b.position.tolist() for s in steps[2:] for b in s.batches
    ]


def test_merged_rows_are_those_of_coalescing():
    ids = torch.tensor([[5, 2, 5, 0, 2, 2]])
    gradient = torch.sparse_coo_tensor(ids, torch.randn(6, 3, dtype=torch.float64), (7, 3), check_invariants=True)
    merged = merge_rows(gradient, torch.tensor([0, 2, 4, 5]))
    assert merged.is_coalesced()
    torch.testing.assert_close(merged.to_dense(), gradient.to_dense())
    assert merged.indices().tolist() == [[0, 2, 4, 5]]
