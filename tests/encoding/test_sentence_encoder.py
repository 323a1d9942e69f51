"""A run's encoders as a module of PyTorch."""

import numpy as np
import pytest
import torch
from corpora import RandomParser, tiny_rows
from torch.utils.data import DataLoader

from structviews import SentenceEncoder
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.runs.folder import model_checksum
from structviews.runs.which_vectors import Representation

SENTENCES = [row.sentence for row in tiny_rows()]
RAW = ["The bird sings.", "A dead tree fell", "It"]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("trees", {}),
        ("channels", {"pooling": "mean", "normalise": True}),
        ("generative", {"remove_component": True}),
        ("expanded", {"pooling": "mean", "remove_component": True, "normalise": True, "join": "average"}),
        ("average", {}),
        ("joined", {"pooling": "mean", "remove_component": True}),
    ],
    ids=str,
)
def test_its_vectors_are_those_of_the_embedder(runs_of_all_kinds, name, changes):
    embedder = Embedder.load(runs_of_all_kinds[name], RandomParser()).with_representation(**changes)
    encoder = SentenceEncoder(embedder)
    vectors = encoder(RAW + SENTENCES).detach()
    assert vectors.shape == (len(RAW + SENTENCES), encoder.dim)
    np.testing.assert_allclose(vectors, embedder.encode(RAW + SENTENCES), atol=1e-5)
    alone = embedder.with_view(embedder.view_names[-1])
    np.testing.assert_allclose(SentenceEncoder(alone)(SENTENCES).detach(), alone.encode(SENTENCES), atol=1e-5)


@pytest.mark.parametrize("name", ["trees", "channels", "generative", "expanded", "joined"])
def test_every_weight_of_the_encoders_gets_a_dense_gradient(runs_of_all_kinds, name):
    encoder = SentenceEncoder.load(runs_of_all_kinds[name], parser=RandomParser())
    encoder(RAW).square().sum().backward()
    asked = {each: weight for each, weight in encoder.named_parameters() if weight.requires_grad}
    assert asked
    for each, weight in asked.items():
        assert weight.grad is not None, each
        assert not weight.grad.is_sparse
    frozen = SentenceEncoder.load(runs_of_all_kinds[name], trainable=False, parser=RandomParser())
    assert not frozen(RAW).requires_grad
    assert not any(weight.requires_grad for weight in frozen.parameters())


def test_the_gradient_is_that_of_finite_differences(runs_of_all_kinds):
    embedder = Embedder.load(runs_of_all_kinds["trees"]).with_representation(
        remove_component=True, normalise=True, join="average"
    )
    encoder = SentenceEncoder(embedder).double()
    weight = encoder.get_parameter("model.channels.trained.words.1.weight")
    mixed = torch.randn(encoder.dim, dtype=torch.float64)

    def value():
        return (encoder(SENTENCES[:3]) @ mixed).sum()

    value().backward()
    row, column = divmod(int(weight.grad.abs().argmax()), weight.shape[1])
    ends = []
    for step in (1e-5, -2e-5):
        with torch.no_grad():
            weight[row, column] += step
            ends.append(float(value()))
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(weight.grad[row, column]), rel=1e-4)


def test_a_head_is_trained_on_prepared_batches(runs_of_all_kinds):
    """On a frozen run it alone changes; trained together both do, and the loss falls."""
    labels = torch.tensor([len(sentence.tokens) % 2 for sentence in SENTENCES])
    for trainable in (False, True):
        encoder = SentenceEncoder.load(runs_of_all_kinds["trees"], trainable=trainable)
        model = torch.nn.Sequential(encoder, torch.nn.Linear(encoder.dim, 2))
        before = {name: each.clone() for name, each in model.state_dict().items()}
        optimiser = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=0.05)
        rows = list(zip(SENTENCES, labels, strict=True))
        loader = DataLoader(
            rows, 6, collate_fn=lambda rows, encoder=encoder: (encoder.collate([row[0] for row in rows]), [*rows])
        )
        losses = []
        for _ in range(4):
            for prepared, given in loader:
                assert len(prepared) == len(given)
                loss = torch.nn.functional.cross_entropy(model(prepared), torch.stack([row[1] for row in given]))
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                losses.append(loss.item())
        assert losses[-1] < losses[0]
        changed = {name for name, each in model.state_dict().items() if not torch.equal(each, before[name])}
        assert {"1.weight", "1.bias"} <= changed
        assert (changed > {"1.weight", "1.bias"}) == trainable


@pytest.mark.parametrize("name", ["trees", "channels", "expanded", "joined", "average"])
def test_what_is_saved_is_a_run(runs_of_all_kinds, name, tmp_path):
    encoder = SentenceEncoder.load(runs_of_all_kinds[name], parser=RandomParser())
    encoder.save(tmp_path / "same")
    assert model_checksum(tmp_path / "same") == model_checksum(runs_of_all_kinds[name])
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.add_(0.1)
    encoder.save(tmp_path / "other")
    again = Embedder.load(tmp_path / "other", RandomParser())
    np.testing.assert_allclose(again.encode(RAW), encoder(RAW).detach(), atol=1e-5)
    assert not (tmp_path / "other" / "state").exists()
    with pytest.raises(InputError, match="inside the run itself: save to another folder"):
        encoder.save(runs_of_all_kinds[name] / "saved")


def test_all_of_it_is_where_the_run_is(runs_of_all_kinds):
    embedder = Embedder.load(runs_of_all_kinds["joined"], representation=Representation(remove_component=True))
    trained, _ = embedder.members
    trained.model.to("meta")
    encoder = SentenceEncoder(embedder)
    tensors = {**dict(encoder.named_parameters()), **dict(encoder.named_buffers())}
    assert any("directions" in name for name in tensors)
    assert {name for name, tensor in tensors.items() if tensor.device.type != "meta"} == set()
    _, untrained = encoder.members
    assert untrained(encoder.prepare(SENTENCES)).device.type == "meta"


def test_what_is_no_module_is_one_line(runs_of_all_kinds):
    transductive = Representation(remove_component=True, transductive=True)
    with pytest.raises(InputError, match="transductive = true"):
        SentenceEncoder.load(runs_of_all_kinds["trees"], representation=transductive)
    with pytest.raises(InputError, match="sentence 2: 'stop here': not parsed: says stop"):
        SentenceEncoder.load(runs_of_all_kinds["trees"], parser=RandomParser())(["fine", "stop here"])
