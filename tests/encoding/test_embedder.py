"""Trained runs: their vectors, and their encoders as a module of PyTorch."""

import itertools
import shutil
from dataclasses import replace
from threading import get_ident

import numpy as np
import pytest
import torch
from corpora import RandomParser, opened, small_config, tiny_rows, topic_rows
from torch.utils.data import DataLoader

from structviews import SentenceEncoder
from structviews.batches.reader import CorpusReader
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.trained import TrainedEmbedder
from structviews.errors import InputError
from structviews.model import build_model
from structviews.runs.folder import model_checksum
from structviews.runs.settings_file import Parsed, read_settings, write_settings
from structviews.runs.which_vectors import Representation
from structviews.views import VIEWS
from structviews.words.vocabulary import UNKNOWN, Vocabulary

SENTENCES = [row.sentence for row in [*topic_rows(3, 5), *tiny_rows()]]
LEARNING = [name for name in VIEWS if VIEWS[name].learns and not VIEWS[name].reads_pieces]
PAIRS = list(itertools.pairwise([*LEARNING, LEARNING[0]]))


def untrained(names, parser=None):
    vocabularies = {"trained": Vocabulary([UNKNOWN, *sorted({word for s in SENTENCES for word in s.tokens})[::2]])}
    config = small_config("x.parsed", "run", names)
    parsed = Parsed("", RandomParser().describe(), {})
    return TrainedEmbedder(config, parsed, build_model(config, vocabularies), vocabularies, parser)


@pytest.fixture
def run(runs_of_all_kinds):
    return runs_of_all_kinds["trees"]


@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_a_sentence_has_one_vector_alone_and_in_any_batch(names):
    embedder = untrained(names)
    together = embedder.encode(SENTENCES)
    assert together.shape == (len(SENTENCES), embedder.dim) == (len(SENTENCES), 16)
    assert together.dtype == np.float32
    alone = np.concatenate([embedder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(alone, together, atol=1e-5, rtol=0)
    assert len(np.unique(together.round(4), axis=0)) > len(SENTENCES) / 2
    order = np.random.default_rng(0).permutation(len(SENTENCES))
    shuffled = embedder.encode([SENTENCES[i] for i in order], 7)
    np.testing.assert_allclose(shuffled, together[order], atol=1e-5, rtol=0)
    assert embedder.encode([]).shape == (0, embedder.dim)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("batch_size", [7, 1024])
def test_threads_share_the_batches_and_give_the_same(batch_size, monkeypatch):
    embedder, sentences, where, progress = untrained(("dep", "const", "seq")), SENTENCES * 40, set(), []
    alone = embedder.encode(sentences, batch_size)
    encode = TrainedEmbedder.encode_batch
    monkeypatch.setattr(TrainedEmbedder, "encode_batch", lambda *args: where.add(get_ident()) or encode(*args))
    torch.set_num_threads(3)
    try:
        shared = embedder.encode(sentences, batch_size, lambda done, total: progress.append((done, total)))
    finally:
        torch.set_num_threads(1)
    np.testing.assert_allclose(shared, alone, atol=1e-5, rtol=0)
    assert len(where) > 1
    assert progress == sorted(progress)
    assert progress[-1] == (len(sentences), len(sentences))


def test_views_stand_side_by_side_or_alone():
    embedder = untrained(("seq", "bow", "seq"))
    parts = embedder.encode_views(SENTENCES)
    assert [part.shape for part in parts] == [(len(SENTENCES), 8)] * 3
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), embedder.encode(SENTENCES))
    ids = embedder.vocabularies["trained"].ids(list(SENTENCES[3].tokens))
    table = embedder.model.channels["trained"].words[1].weight
    np.testing.assert_allclose(parts[1][3], table[ids].sum(dim=0).detach(), atol=1e-5)
    for name, part in zip(("seq.1", "bow", "seq.2"), parts, strict=True):
        alone = embedder.with_view(name)
        np.testing.assert_array_equal(alone.encode(SENTENCES), part)
        np.testing.assert_array_equal(alone.for_similarity().encode(SENTENCES), part)
        assert alone.dim == 8
    assert np.abs(parts[0] - parts[2]).max() > 0.01
    with pytest.raises(InputError, match=r"no view 'seq': the run has seq\.1, bow, seq\.2"):
        embedder.with_view("seq")


def test_only_the_trees_that_views_need_must_be_there():
    parser = RandomParser()
    sentence = replace(SENTENCES[0], left=(), right=(), labels=())
    untrained(("dep", "dep-sum"), parser).encode([sentence])
    untrained(("bow", "seq"), parser).encode(["The bird sings."])
    assert parser.n_parsed == 0
    untrained(("dep", "const"), parser).encode([sentence, SENTENCES[1]])
    assert parser.n_parsed == 1


def test_a_vector_is_that_of_the_training_batch(run):
    """Reading from the corpus and encoding afterwards see the same words and trees."""
    embedder = Embedder.load(run)
    reader = CorpusReader(opened(embedder.config.data.corpus), embedder.vocabularies, embedder.model.needs)
    with torch.inference_mode():
        views = embedder.model.encode(reader.batch(np.arange(12)))
        expected = torch.cat([encoded.vector for view in views for encoded in view], dim=1)
    vectors = embedder.encode([row.sentence for row in tiny_rows()])
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("hidden", "reason"), [(9, r"channels\..* has shape \("), (10**6, "its settings ask for larger ones")]
)
def test_settings_of_another_size_ask_for_no_memory(run, tmp_path, hidden, reason, one_line):
    """One that came from elsewhere may say anything: 10**6 would be terabytes."""
    other = shutil.copytree(run, tmp_path / "run")
    settings = read_settings(other)
    settings["views"]["hidden"] = hidden
    write_settings(other, settings)
    with one_line(f"not the weights of this run's model: {reason}"):
        Embedder.load(other)


TINY = [row.sentence for row in tiny_rows()]
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
    vectors = encoder(RAW + TINY).detach()
    assert vectors.shape == (len(RAW + TINY), encoder.dim)
    np.testing.assert_allclose(vectors, embedder.encode(RAW + TINY), atol=1e-5)
    assert encoder([]).shape == embedder.encode([]).shape
    alone = embedder.with_view(embedder.view_names[-1])
    np.testing.assert_allclose(SentenceEncoder(alone)(TINY).detach(), alone.encode(TINY), atol=1e-5)


@pytest.mark.parametrize("name", ["trees", "channels", "generative", "expanded", "joined"])
def test_every_weight_of_the_encoders_gets_a_dense_gradient(runs_of_all_kinds, name):
    encoder = SentenceEncoder.load(runs_of_all_kinds[name], parser=RandomParser())
    encoder(RAW).square().sum().backward()
    gradients = {each: weight.grad for each, weight in encoder.named_parameters() if weight.requires_grad}
    assert gradients
    assert [each for each, gradient in gradients.items() if gradient is None or gradient.is_sparse] == []


def test_the_gradient_is_that_of_finite_differences(runs_of_all_kinds):
    chosen = Representation(remove_component=True, normalise=True, join="average")
    encoder = SentenceEncoder(Embedder.load(runs_of_all_kinds["trees"], representation=chosen)).double()
    weight = encoder.get_parameter("model.channels.trained.words.1.weight")
    mixed = torch.randn(encoder.dim, dtype=torch.float64)

    def value():
        return (encoder(TINY[:3]) @ mixed).sum()

    value().backward()
    row, column = divmod(int(weight.grad.abs().argmax()), weight.shape[1])
    ends = []
    for step in (1e-5, -2e-5):
        with torch.no_grad():
            weight[row, column] += step
            ends.append(float(value()))
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(weight.grad[row, column]), rel=1e-4)


@pytest.mark.parametrize("trainable", [False, True])
def test_a_head_is_trained_on_prepared_batches(run, trainable):
    """On a frozen run it alone changes; trained together both do, and the loss falls."""
    encoder = SentenceEncoder.load(run, trainable=trainable)
    assert encoder(TINY).requires_grad == trainable
    model = torch.nn.Sequential(encoder, torch.nn.Linear(encoder.dim, 2))
    before = {name: each.clone() for name, each in model.state_dict().items()}
    optimiser = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=0.05)

    def collate(sentences):
        return encoder.collate(sentences), torch.tensor([len(each.tokens) % 2 for each in sentences])

    losses = []
    for _ in range(4):
        for prepared, labels in DataLoader(TINY, 6, collate_fn=collate):
            assert len(prepared) == len(labels)
            loss = torch.nn.functional.cross_entropy(model(prepared), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0]
    changed = {name for name, each in model.state_dict().items() if not torch.equal(each, before[name])}
    assert {"1.weight", "1.bias"} <= changed
    assert (changed > {"1.weight", "1.bias"}) == trainable


@pytest.mark.parametrize("name", ["trees", "channels", "expanded", "joined", "average"])
def test_what_is_saved_is_a_run(runs_of_all_kinds, name, tmp_path, monkeypatch):
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
    if name == "joined":
        monkeypatch.setattr("structviews.encoding.sentence_encoder.write_weights", None)
        with pytest.raises(TypeError):
            encoder.save(tmp_path / "half")
        with pytest.raises(InputError, match="no checkpoint yet"):
            Embedder.load(tmp_path / "half")


def test_all_of_it_is_where_the_run_is(runs_of_all_kinds):
    embedder = Embedder.load(runs_of_all_kinds["joined"], representation=Representation(remove_component=True))
    embedder.members[0].model.to("meta")
    encoder = SentenceEncoder(embedder)
    tensors = {**dict(encoder.named_parameters()), **dict(encoder.named_buffers())}
    assert any("directions" in name for name in tensors)
    assert {name for name, tensor in tensors.items() if tensor.device.type != "meta"} == set()
    assert encoder.members[1](encoder.prepare(TINY)).device.type == "meta"


def test_what_is_no_module_is_one_line(runs_of_all_kinds):
    transductive = Representation(remove_component=True, transductive=True)
    with pytest.raises(InputError, match="transductive = true"):
        SentenceEncoder.load(runs_of_all_kinds["trees"], representation=transductive)
