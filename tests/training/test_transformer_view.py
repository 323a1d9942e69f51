"""The view ``transformer``: training, resuming, encoding, sharing and exporting a run with a trained transformer."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from corpora import random_trees, topic_corpus
from safetensors.torch import load_file
from shell import refused
from tiny_encoders import KINDS, encoder_folder, tokeniser
from torch import nn

from structviews import SentenceEncoder
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.retrieval.next_sentence import unseen
from structviews.hub.card import model_card
from structviews.hub.portable import check_arrived, stage
from structviews.pretrained.alignment import Aligner, as_texts
from structviews.pretrained.loading import Blueprint
from structviews.runs.settings_file import read_settings, write_settings
from structviews.training.checkpoint import Progress
from structviews.training.loop import train
from structviews.training.ranks import Ranks
from structviews.training.trainer import Training
from structviews.views.transformer import Transformer, TransformerConfig, freeze_below

WORDS = ["the film is n't bad , but -LRB- perhaps -RRB- long", "it rains", "the film", "film the", "the " * 60]
SENTENCES = [random_trees(text.split()) for text in WORDS]
NETWORK = "channels.trained.views.0.network."


@pytest.fixture
def settings(with_encoder, tmp_path):
    def make(out="run", views=("transformer", "dep"), **others):
        return with_encoder(tmp_path / out, views, **{"hidden": 32} | others)

    return make


@pytest.fixture(scope="module")
def run(with_encoder, tmp_path_factory):
    out = tmp_path_factory.mktemp("transformer") / "run"
    return train(with_encoder(out, ("transformer", "dep"), hidden=32, encoder_lr=1e-3))


@pytest.mark.parametrize(("kind", "pooling"), [*((kind, "mean") for kind in KINDS), ("bert", "first")])
def test_it_begins_as_the_encoder_reads_each_sentence(settings, tmp_path, kind, pooling):
    """Beside transformers itself, one sentence at a time."""
    folder = encoder_folder(tmp_path / kind, kind)
    training = Training(settings(encoder=str(folder), sentence_pooling=pooling))
    model = transformers.AutoModel.from_pretrained(folder).eval()
    pieces = transformers.AutoTokenizer.from_pretrained(folder)
    sentences = [training.inputs.corpus.sentence(row).tokens for row in (0, 3, 40)]
    batch = training.data.reader.batch(np.array([0, 3, 40]))
    with torch.no_grad():
        found = training.model.eval().encode(batch)[0][0].vector
        for vector, words in zip(found, sentences, strict=True):
            given = pieces(" ".join(words), return_tensors="pt", truncation=True, max_length=40)
            states = model(**given).last_hidden_state[0]
            expected = states.mean(dim=0) if pooling == "mean" else states[0]
            torch.testing.assert_close(vector, expected, rtol=1e-4, atol=1e-5)


def test_a_sentence_that_is_too_long_is_cut_and_one_without_pieces_is_unknown(settings):
    aligner = Training(settings()).blueprint.aligner
    pieces = aligner.read([sentence.tokens for sentence in SENTENCES])
    assert pieces.lengths.max() == pieces.lengths[-1] == aligner.longest == 40
    bare = tokeniser("bert").backend_tokenizer
    bare.post_processor = None
    pieces = Aligner(bare, 40, "[UNK]").read([("\x00",), ("the", "film")])
    assert pieces.lengths[0] == 1
    assert pieces.ids[0] == bare.token_to_id("[UNK]")
    assert as_texts([WORDS[0].split()]) == ["the film isn't bad , but ( perhaps ) long"]


def test_each_part_learns_at_its_rate(settings):
    """Adam's first step moves a weight by the learning rate."""
    training = Training(settings(lr=0.01, encoder_lr=1e-4))
    before = {name: weight.clone() for name, weight in training.model.state_dict().items()}
    step = next(iter(training.steps(training.restore())))
    training.step(*step.batches, words=step.words)
    moved = {name: float((w - before[name]).abs().max()) for name, w in training.model.state_dict().items()}
    transformer = [by for name, by in moved.items() if name.startswith(NETWORK) and ".pooler." not in name]
    assert max(transformer) == pytest.approx(1e-4, rel=0.01)
    assert max(by for name, by in moved.items() if ".views.1." in name) == pytest.approx(0.01, rel=0.01)


def test_only_the_top_layers_are_trained(settings, place):
    """The others need no memory for training either."""
    run = train(settings(top_layers=1, encoder_lr=1e-3))
    before = transformers.AutoModel.from_pretrained(place / "encoder").state_dict()
    weights = load_file(run / "model.safetensors")
    after = {name.removeprefix(NETWORK): w for name, w in weights.items() if name.startswith(NETWORK)}
    assert after.keys() == before.keys()
    changed = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    assert changed
    assert all(name.startswith("encoder.layer.1.") for name in changed)
    said = refused(Training, settings("more", top_layers=3))
    assert "top_layers = 3: the encoder has 2 layers: give at most 2" in said
    every, some = (Training(settings(f"{layers}", top_layers=layers)) for layers in (0, 1))
    frozen = sum(each.numel() for each in some.model.parameters() if not each.requires_grad)
    assert frozen > 1000
    assert every.needed_bytes - some.needed_bytes == 12 * frozen


SIZE = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 8}
RELATIVE = {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]}


@pytest.mark.parametrize(
    "about",
    [
        transformers.BertConfig(**SIZE),
        transformers.MPNetConfig(**SIZE),
        transformers.DebertaV2Config(**SIZE, **RELATIVE),
        transformers.XLMConfig(vocab_size=20, emb_dim=8, n_layers=3, n_heads=2),
    ],
    ids=lambda about: about.model_type,
)
def test_what_frozen_layers_compute_never_changes(about):
    """Some encoders have biases, embeddings or norms that several layers read, registered after the layers."""
    torch.manual_seed(0)
    network = transformers.AutoModel.from_config(about)
    freeze_below(network, 1)
    assert network.training
    pieces = torch.tensor([[3, 4, 5]])
    before = network.eval()(pieces, output_hidden_states=True)
    trained = [each for each in network.parameters() if each.requires_grad]
    before.last_hidden_state.square().sum().backward()
    torch.optim.SGD(trained, 1.0).step()
    after = network(pieces, output_hidden_states=True)
    assert all(torch.equal(*each) for each in zip(before.hidden_states[:3], after.hidden_states[:3], strict=True))
    assert not torch.equal(before.last_hidden_state, after.last_hidden_state)


def test_layers_that_share_their_weights_are_trained_together():
    network = transformers.AutoModel.from_config(transformers.AlbertConfig(**SIZE, embedding_size=8))
    assert "the encoder's layers share their weights: leave it out" in refused(freeze_below, network, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder": ""}, "the view 'transformer' needs a pretrained encoder"),
        ({"encoder": "x:1"}, "the view 'transformer' reads the last layer"),
        ({"channels": ["trained", "contextual"]}, "reads no channel's words, and would be trained once for each"),
        ({"views": ("transformer", "average")}, "'average' reads the words that another view learns"),
        ({"views": ("transformer",), "objective": "generative"}, "predicts words of a vocabulary"),
        ({"views": ("dep", "const")}, "only the channel 'contextual' and the view 'transformer' read it"),
        ({"hidden": 8}, "have 32 dimensions, and so has the view 'transformer': give --hidden 32"),
        ({"views": ("dep",), "objective": "simcse", "encoder": "", "hidden": 8}, "are the same in the view 'dep'"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, changes, message):
    assert message in refused(lambda: Training(settings(**changes)))


def test_what_an_encoder_cannot_do_is_refused(settings, tmp_path):
    mpnet, dry = encoder_folder(tmp_path / "mpnet", "mpnet"), encoder_folder(tmp_path / "dry", "bert")
    said = refused(Training, settings(encoder=str(mpnet), recompute=True))
    assert said.startswith("recompute = true: ")
    assert said.endswith("cannot compute its layers again: leave out --recompute")
    text = (dry / "config.json").read_text()
    (dry / "config.json").write_text(text.replace('dropout_prob": 0.1', 'dropout_prob": 0.0'))
    said = refused(Training, settings(views=("transformer",), objective="simcse", encoder=str(dry)))
    assert "has no dropout" in said


def test_encoding_never_drops_states(run):
    """Though the same model is trained on by sentence-transformers."""
    encoder = SentenceEncoder.load(run)
    own = encoder.embedder.encode(SENTENCES)
    encoder.train()
    np.testing.assert_array_equal(encoder.embedder.encode(SENTENCES), own)
    assert all(module.training for module in encoder.modules())


def test_views_that_learn_nothing_have_the_dimension_of_the_words_they_read(settings):
    """Those of ``bow``, whose words have the dimension of its vectors, and not of the view before it."""
    run = train(settings(views=("transformer", "bow", "average"), steps=2))
    assert [len(row) for row in Embedder.load(run).encode(SENTENCES)] == [32 + 32 + 32] * len(SENTENCES)


def test_simcse(settings):
    """Every sentence counts, and the two encodings differ by dropout alone."""
    training = Training(settings(views=("transformer",), objective="simcse", lr=1e-3))
    batch = training.data.reader.batch(np.arange(20))
    context = training.model.context(batch, 1)
    torch.manual_seed(0)
    _, metrics, ((first, second),) = training.model.losses(batch, context)
    assert metrics["trained"]["anchors"] == 20
    assert 0.3 < torch.nn.functional.cosine_similarity(first, second).mean() < 1 - 1e-4
    _, _, ((first, second),) = training.model.eval().losses(batch, context)
    assert torch.equal(first, second)


def test_lines_in_no_order_are_held_out_and_dealt_one_by_one(with_encoder, tmp_path):
    """They are one document, which an objective with contexts needs whole."""
    lines = topic_corpus(tmp_path / "lines.parsed", documents=1, sentences=40)

    def settings(views, **others):
        own = {"hidden": 32, "held_out": 0.2, "batch_size": 4} | others
        return with_encoder(tmp_path / "run", views, **own).replaced(corpus=str(lines))

    one = Training(settings(["transformer"], objective="simcse", steps=2))
    assert 2 <= len(one.data.held_out_rows) <= 20
    assert sorted([*one.data.train_rows, *one.data.held_out_rows]) == [*range(40)]
    (first, *_) = one.steps(Progress())
    assert (np.diff(first.batches[0].position) != 1).any()  # drawn at random, as no neighbours are read
    run, corpus = train(one.config), ParsedCorpus.open(lines)
    assert np.flatnonzero(unseen([run], corpus, np.zeros(40))).tolist() == one.data.held_out_rows.tolist()
    shares = []
    for rank in range(2):
        steps = Training(one.config.replaced(steps=0), Ranks(rank, 2)).steps(Progress())
        shares.append({row for step in steps for batch in step.batches for row in batch.position.tolist()})
    assert min(map(len, shares)) >= 8
    assert not shares[0] & shares[1]
    assert shares[0] | shares[1] <= {*one.data.train_rows.tolist()}
    with pytest.raises(InputError, match="has enough training documents for 1 of 2 processes"):
        Training(settings(["transformer", "dep"]), Ranks(0, 2))


def test_dropout_that_is_a_function_counts(tmp_path):
    tokens = tokeniser("roberta")
    size = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    for rate in (0.0, 0.3):
        about = transformers.BartConfig(vocab_size=len(tokens), dropout=0.0, attention_dropout=rate, **size, **heads)
        transformers.AutoModel.from_config(about).save_pretrained(tmp_path)
        tokens.save_pretrained(tmp_path)
        view = Transformer(4, 8, TransformerConfig(), Blueprint.of(tmp_path)).train()
        assert not any(isinstance(part, nn.Dropout) for part in view.modules())
        pieces = torch.arange(5, 9)[None]
        same = torch.equal(*(view.network(input_ids=pieces).last_hidden_state for _ in range(2)))
        assert view.drops == (not same) == (rate > 0)


def test_starting_from_a_run(settings, run):
    training = Training(settings("next", init_from=str(run)))
    weights = load_file(run / "model.safetensors")
    for name, weight in training.model.state_dict().items():
        assert torch.equal(weight, weights[name]), name
    other = settings("other", init_from=str(run), sentence_pooling="first")
    assert "sentence_pooling = mean, not first" in refused(Training, other)


def test_the_tokeniser_of_another_run_is_refused(run, place, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    other = Path(shutil.copytree(place / "encoder", tmp_path / "cased"))
    text = (other / "tokenizer.json").read_text()
    assert '"lowercase": true' in text
    (other / "tokenizer.json").write_text(text.replace('"lowercase": true', '"lowercase": false'))
    Blueprint.of(other).write(copy / "encoder.safetensors")
    said = refused(Embedder.load, copy)
    assert f"{copy}/model.safetensors: not trained with this run's tokeniser" in said


@pytest.mark.parametrize("name", ["my bert+ü", "."])
def test_shared_without_the_folder_it_began_from(run, tmp_path, name):
    """Whatever its name, which is for the reader; a path is refused."""
    run = shutil.copytree(run, tmp_path / "run")
    its = read_settings(run)
    its["words"]["encoder"] = name if name == "." else f"{Path(its['words']['encoder']).parent}/{name}"
    write_settings(run, its)
    pulled = tmp_path / "pulled"
    stage(run, pulled)
    check_arrived(pulled)
    assert "; as trained, it is in this repository" in model_card(pulled, "me/x", Embedder.load(pulled))
    assert str(tmp_path.parent) not in (pulled / "config.toml").read_text()
    np.testing.assert_array_equal(Embedder.load(pulled).encode(SENTENCES), Embedder.load(run).encode(SENTENCES))
    arrived = read_settings(pulled)
    arrived["words"]["encoder"] = "../../secret"
    write_settings(pulled, arrived)
    assert "refers to a local folder" in refused(check_arrived, pulled)
