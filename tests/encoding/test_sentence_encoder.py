"""A run's encoders as a module of PyTorch."""

import shutil
from itertools import cycle

import numpy as np
import pytest
import torch
from corpora import RandomParser, opened, small_config, tiny_corpus, tiny_rows
from torch.utils.data import DataLoader
from vector_files import random_vectors, write_vectors

from structviews import SentenceEncoder
from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import expand
from structviews.encoding.kinds.joined import join_runs
from structviews.errors import InputError
from structviews.runs.folder import model_checksum
from structviews.runs.which_vectors import Representation
from structviews.training.baselines import make_baseline
from structviews.training.loop import train
from structviews.words.vocabulary import count_words

SENTENCES = [row.sentence for row in tiny_rows()]
RAW = ["The bird sings.", "A dead tree fell", "It"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return tiny_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed")


@pytest.fixture(scope="module")
def vectors(corpus, tmp_path_factory):
    words = [*sorted(count_words(opened(corpus))), "elsewhere"]
    return write_vectors(tmp_path_factory.mktemp("vectors") / "v.vec", words, random_vectors(words, 5))


@pytest.fixture(scope="module")
def runs(corpus, vectors, tmp_path_factory):
    """Runs of every kind by name."""
    folder = tmp_path_factory.mktemp("runs")
    both = {"channels": ("fixed", "trained"), "vectors": str(vectors)}
    made = {
        "dep-const": train(small_config(corpus, folder / "dep-const", epochs=1)),
        "channels": train(small_config(corpus, folder / "channels", ("seq", "avg"), epochs=1, **both)),
        "generative": train(small_config(corpus, folder / "g", ("seq",), epochs=1, objective="generative")),
        "average": make_baseline("average", corpus, folder / "average", vectors, None, console=_quiet()),
    }
    made["joined"] = join_runs([made["dep-const"], made["average"]], folder / "joined", "concatenation")
    made["expanded"] = shutil.copytree(made["channels"], folder / "expanded")
    expand(made["expanded"], vectors)
    return made


def _quiet():
    from rich.console import Console

    return Console(quiet=True)


REPRESENTATIONS = [
    {},
    {"pooling": "mean", "normalise": True},
    {"remove_component": True},
    {"pooling": "mean", "remove_component": True, "normalise": True, "join": "average"},
]


@pytest.mark.parametrize(
    ("name", "changes"),
    zip(["dep-const", "channels", "generative", "expanded", "average", "dep-const"], cycle(REPRESENTATIONS)),
    ids=str,
)
def test_its_vectors_are_those_of_the_embedder(runs, name, changes):
    embedder = Embedder.load(runs[name], RandomParser()).with_representation(**changes)
    encoder = SentenceEncoder(embedder)
    vectors = encoder(RAW + SENTENCES).detach()
    assert vectors.shape == (len(RAW + SENTENCES), encoder.dim)
    np.testing.assert_allclose(vectors, embedder.encode(RAW + SENTENCES), atol=1e-5)
    alone = embedder.with_view(embedder.view_names[-1])
    np.testing.assert_allclose(SentenceEncoder(alone)(SENTENCES).detach(), alone.encode(SENTENCES), atol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"pooling": "mean", "remove_component": True}], ids=str)
def test_joined_runs(runs, changes):
    embedder = Embedder.load(runs["joined"], RandomParser()).with_representation(**changes)
    encoder = SentenceEncoder(embedder)
    np.testing.assert_allclose(encoder(RAW).detach(), embedder.encode(RAW), atol=1e-5)
    encoder(RAW).square().sum().backward()
    assert all(each.grad is not None for each in encoder.parameters())


@pytest.mark.parametrize("name", ["dep-const", "channels", "generative", "expanded"])
def test_every_weight_of_the_encoders_gets_a_dense_gradient(runs, name):
    encoder = SentenceEncoder.load(runs[name], parser=RandomParser())
    encoder(RAW).square().sum().backward()
    asked = {each: weight for each, weight in encoder.named_parameters() if weight.requires_grad}
    assert asked
    for each, weight in asked.items():
        assert weight.grad is not None, each
        assert not weight.grad.is_sparse
    frozen = SentenceEncoder.load(runs[name], trainable=False, parser=RandomParser())
    assert not frozen(RAW).requires_grad
    assert not any(weight.requires_grad for weight in frozen.parameters())


def test_the_gradient_is_that_of_finite_differences(runs):
    embedder = Embedder.load(runs["dep-const"]).with_representation(
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


def test_a_head_is_trained_on_prepared_batches(runs):
    """On a frozen run it alone changes; trained together both do, and the loss falls."""
    labels = torch.tensor([len(sentence.tokens) % 2 for sentence in SENTENCES])
    for trainable in (False, True):
        encoder = SentenceEncoder.load(runs["dep-const"], trainable=trainable)
        model = torch.nn.Sequential(encoder, torch.nn.Linear(encoder.dim, 2))
        before = {name: each.clone() for name, each in model.state_dict().items()}
        optimiser = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=0.05)
        rows = list(zip(SENTENCES, labels, strict=True))
        loader = DataLoader(
            rows, 6, collate_fn=lambda rows, encoder=encoder: (encoder.collate([row[0] for row in rows]), [*rows])
        )
        losses = []
        for _ in range(8):
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


def test_a_state_dict_is_taken_over(runs):
    first, second = (SentenceEncoder.load(runs["dep-const"]) for _ in range(2))
    with torch.no_grad():
        for weight in first.parameters():
            weight.add_(0.1)
    assert (first(SENTENCES) - second(SENTENCES)).abs().max() > 0.01
    second.load_state_dict(first.state_dict())
    torch.testing.assert_close(first(SENTENCES), second(SENTENCES))


@pytest.mark.parametrize("name", ["dep-const", "channels", "expanded", "joined", "average"])
def test_what_is_saved_is_a_run(runs, name, tmp_path):
    encoder = SentenceEncoder.load(runs[name], parser=RandomParser())
    encoder.save(tmp_path / "same")
    assert model_checksum(tmp_path / "same") == model_checksum(runs[name])
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.add_(0.1)
    encoder.save(tmp_path / "other")
    again = Embedder.load(tmp_path / "other", RandomParser())
    np.testing.assert_allclose(again.encode(RAW), encoder(RAW).detach(), atol=1e-5)
    assert not (tmp_path / "other" / "state").exists()
    with pytest.raises(InputError, match="inside the run itself: save to another folder"):
        encoder.save(runs[name] / "saved")


def test_it_moves_as_modules_do(runs):
    encoder = SentenceEncoder.load(runs["dep-const"]).to("meta")
    assert encoder.device.type == encoder.embedder.device.type == "meta"
    assert encoder.collate(SENTENCES).to("meta").batch.device.type == "meta"


def test_all_of_it_is_where_the_run_is(runs):
    embedder = Embedder.load(runs["joined"], representation=Representation(remove_component=True))
    trained, _ = embedder.members
    trained.model.to("meta")
    encoder = SentenceEncoder(embedder)
    tensors = {**dict(encoder.named_parameters()), **dict(encoder.named_buffers())}
    assert any("directions" in name for name in tensors)
    assert {name for name, tensor in tensors.items() if tensor.device.type != "meta"} == set()
    _, untrained = encoder.members
    assert untrained(encoder.prepare(SENTENCES)).device.type == "meta"


def test_what_is_no_module_is_one_line(runs):
    transductive = Representation(remove_component=True, transductive=True)
    with pytest.raises(InputError, match="transductive = true"):
        SentenceEncoder.load(runs["dep-const"], representation=transductive)
    with pytest.raises(InputError, match="sentence 2: 'stop here': not parsed: says stop"):
        SentenceEncoder.load(runs["dep-const"], parser=RandomParser())(["fine", "stop here"])
