import pytest
import torch
from components import create_channel, create_objective
from trees_for_tests import SHAPES, WORDS

from structviews.batches.batch import collate
from structviews.model import Model
from structviews.objectives.objective import Context, Inputs, context_indices
from structviews.words.vocabulary import UNKNOWN, Vocabulary

VIEWS = ("dep", "seq", "const", "avg")
# The channels have vocabularies of their own.
VOCABULARIES = {"fixed": Vocabulary([UNKNOWN, *WORDS]), "trained": Vocabulary([UNKNOWN, *WORDS[:3]])}
SENTENCES = SHAPES["mixed"]
CONTEXT = Context(context_indices(torch.tensor([0, 0, 0, 0, 1, 1, 1]), torch.tensor([0, 1, 2, 3, 0, 1, 2]), 1))


def channel(name, views=VIEWS, dim=6, **options):
    return create_channel(views, len(VOCABULARIES[name]), 5, dim, **options)


@pytest.fixture
def model():
    return Model({"fixed": channel("fixed"), "trained": channel("trained", self_score="zero")}).double()


def make_batch(model):
    return collate(SENTENCES, VOCABULARIES, model.needs)


def test_the_loss_is_the_sum_of_the_channels(model):
    batch = make_batch(model)
    loss, metrics, vectors = model.losses(batch, CONTEXT)
    expected = []
    for (name, part), self_score in zip(model.channels.items(), ("masked", "zero"), strict=True):
        own = [view.vector for view in part.encode(batch, batch.ids[name])]
        expected.append(create_objective("pairwise", Inputs(VIEWS, (6,) * 4), self_score=self_score)(own, CONTEXT)[0])
        assert metrics[name]["loss"].item() == pytest.approx(expected[-1].item())
    assert loss.item() == pytest.approx(sum(expected).item())
    assert expected[0].item() != pytest.approx(expected[1].item())
    assert list(metrics) == ["fixed", "trained"]
    assert [[v.shape for v in some] for some in vectors] == [[(len(SENTENCES), 6)] * len(VIEWS)] * 2


def test_channels_share_no_parameter(model):
    batch = make_batch(model)
    part = model.channels["fixed"]
    encoded = [view.vector for view in part.encode(batch, batch.ids["fixed"])]
    part.objective(encoded, CONTEXT)[0].backward()
    for name, parameter in model.named_parameters():
        changes = parameter.grad is not None and bool(parameter.grad.to_dense().any())
        assert changes == name.startswith("channels.fixed."), name


def test_scores_are_in_full_precision_under_autocast(model):
    model.float()
    batch = make_batch(model)
    expected = model.losses(batch, CONTEXT)[0]
    scored = []
    for part in model.channels.values():
        part.objective.register_forward_pre_hook(lambda _, arguments: scored.extend(arguments[0]))
    with torch.autocast("cpu", torch.bfloat16):
        loss, _, vectors = model.losses(batch, CONTEXT)
    assert {each.dtype for each in (loss, *scored)} == {torch.float32}
    assert vectors[0][3].dtype == torch.bfloat16  # of the view avg
    assert loss.item() == pytest.approx(expected.item(), rel=0.05)
