"""Training with perturbed sentences: the steps, resuming, validation, and what is refused."""

import shutil
from itertools import islice

import pytest
import torch
from corpora import small_config
from perturbed import RULES, grammar_corpus, perturbed

from structviews.batches.reader import epoch_batches
from structviews.errors import InputError
from structviews.objectives import OBJECTIVES
from structviews.training.checkpoint import Progress
from structviews.training.loop import train
from structviews.training.trainer import Training

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return grammar_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed", sentences=120)


@pytest.fixture(scope="module")
def altered(corpus):
    return perturbed(corpus)


@pytest.fixture
def config(corpus, altered, tmp_path):
    return small_config(corpus.path, tmp_path / "run", epochs=2, validate_every=4, perturbed=str(altered.path))


def test_each_batch_is_followed_by_forms_of_its_sentences(config):
    training = Training(config)
    data, c = training.data, config.optimisation
    steps = list(training.steps(Progress()))
    rows = [(each, epoch) for epoch in range(2) for each in epoch_batches(data.train_rows, c.batch_size, c.seed, epoch)]
    assert len(steps) == len(rows)
    for step, (own, epoch) in zip(steps, rows, strict=True):
        (batch,) = step.batches
        drawn = data.pairs.drawn(own, epoch)
        assert len(batch) == len(own) + len(drawn.rows) > len(own)
        assert batch.source.tolist() == [-1] * len(own) + drawn.source.tolist()
        assert batch.changed.tolist() == [False] * len(own) + drawn.changed.tolist()
        (ids,) = step.words.values()
        assert ids.tolist() == batch.ids["trained"].own.tolist()
    # From any step on they are the same.
    again = list(islice(training.steps(steps[2].progress), 4))
    for one, other in zip(steps[3:], again, strict=False):
        assert one.batches[0].lengths.tolist() == other.batches[0].lengths.tolist()
        assert torch.equal(one.batches[0].source, other.batches[0].source)


def test_forms_are_positives_and_candidates(config):
    """The loss is that of the formula over sentences and forms, in loops and in double precision."""
    training = Training(config.replaced(precision="fp32"))
    training.model.double()
    batch = next(training.steps(Progress())).batches[0]
    loss, metrics, ((f, g),) = training.losses(batch)
    near = training.model.context(batch, 1).neighbours
    document, position = batch.document.tolist(), batch.position.tolist()
    losses = []
    for i in range(len(batch)):
        positives = [
            j
            for j in range(len(batch))
            if (document[i] == document[j] and abs(position[i] - position[j]) == 1)
            or (batch.source[i] == j and not batch.changed[i])
            or (batch.source[j] == i and not batch.changed[j])
        ]
        assert sorted(j for j in near[i].tolist() if j >= 0) == positives
        others = [j for j in range(len(batch)) if j != i]
        for j in positives:
            p = sum((q[i] @ k[j]).exp() / (k[others] @ q[i]).exp().sum() for q, k in ((f, g), (g, f))) / 2
            losses.append(-p.log() / len(positives))
    anchors = sum(bool((row >= 0).any()) for row in near)
    expected = torch.stack(losses).sum() / anchors
    torch.testing.assert_close(loss, expected)
    parameters = [p for p in training.model.parameters() if p.requires_grad]
    found, wanted = (torch.autograd.grad(each, parameters, retain_graph=True) for each in (loss, expected))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.to_dense(), other.to_dense())
    assert metrics["trained"]["anchors"] == anchors


def test_held_out_sentences_are_text_alone(config):
    with_pairs, without = (Training(each) for each in (config, config.replaced(perturbed="")))
    assert with_pairs.validate() == without.validate()


@pytest.mark.parametrize("name", ["quick-thoughts", "consensus", "generative", "simcse"])
def test_objectives_take_them_or_say_that_they_do_not(config, name):
    views = {"quick-thoughts": ("seq", "seq"), "consensus": ("dep", "seq")}.get(name, ("seq",))
    if OBJECTIVES[name].takes_pairs:
        training = Training(config.replaced(objective=name, views=views))
        assert training.losses(next(training.steps(Progress())).batches[0])[0].isfinite()
    else:
        with pytest.raises(InputError, match=f"objective '{name}' cannot learn from perturbed .*pairwise or"):
            config.replaced(objective=name, views=views)
    with pytest.raises(InputError, match="with window = 4: perturbed sentences have no place in the text"):
        config.replaced(objective="consensus", window=4)


def test_another_version_needs_another_folder(tmp_path):
    corpus = grammar_corpus(tmp_path / "x.parsed")
    altered = perturbed(corpus)
    config = small_config(corpus.path, tmp_path / "run", steps=1, perturbed=str(altered.path))
    train(config)
    shutil.rmtree(altered.path)
    perturbed(corpus, RULES[:3])
    with pytest.raises(InputError, match=r"run: was trained on another version of .*x\.perturbed: give another folder"):
        train(config)
