"""A run's transformer by itself, loaded by sentence-transformers alone."""

import json

import numpy as np
import pytest
from corpora import random_trees, small_config, topic_corpus
from tiny_encoders import KINDS, encoder_folder, tokeniser
from transformers import T5Config, T5Model

from structviews.adapters.transformer_export import export_transformer
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.pretrained.alignment import as_texts
from structviews.training.loop import train

sentence_transformers = pytest.importorskip("sentence_transformers")

WORDS = ["the film is n't bad , but -LRB- perhaps -RRB- long", "it rains", "电影 很 好看 。", "the " * 60]
SENTENCES = [random_trees(text.split()) for text in WORDS]


@pytest.fixture
def trained(tmp_path):
    topic_corpus(tmp_path / "x.parsed", documents=8)

    def make(views=("transformer", "seq"), kind="bert", **others):
        encoder = encoder_folder(tmp_path / kind, kind)
        own = {"encoder": str(encoder), "hidden": 32, "steps": 2} | others
        return train(small_config(tmp_path / "x.parsed", tmp_path / "run", views, **own))

    return make


@pytest.mark.parametrize(
    ("kind", "settings"),
    [*((kind, {}) for kind in KINDS), ("bert", {"sentence_pooling": "first"}), ("bert", {"normalise": True})],
)
def test_the_same_vectors(trained, tmp_path, kind, settings):
    run = trained(kind=kind, **settings)
    out = export_transformer(run, tmp_path / "exported")
    embedder = Embedder.load(run).with_view("transformer")
    texts = as_texts([sentence.tokens for sentence in SENTENCES])
    model = sentence_transformers.SentenceTransformer(str(out), device="cpu", local_files_only=True)
    found, own = model.encode(texts), embedder.encode(SENTENCES)
    np.testing.assert_allclose(found, own, rtol=1e-4, atol=1e-5)
    assert np.abs(found - Embedder.load(run).with_view("seq").encode(SENTENCES)).max() > 0.01


def test_it_needs_nothing_of_ours(trained, tmp_path):
    """All its modules are of sentence-transformers; and its model card says how it is loaded."""
    out = export_transformer(trained(), tmp_path / "exported")
    kinds = [module["type"] for module in json.loads((out / "modules.json").read_text())]
    assert all(kind.startswith("sentence_transformers.") for kind in kinds)
    card = (out / "README.md").read_text()
    assert "library_name: sentence-transformers" in card
    assert "`bert`" in card
    assert str(tmp_path) not in card


def test_one_of_several(trained, tmp_path):
    run = trained(views=("transformer", "transformer", "seq"))
    for view in ("", "seq", "transformer"):
        with pytest.raises(InputError, match=r"give --view transformer\.1 or transformer\.2"):
            export_transformer(run, tmp_path / "exported", view)
    out = export_transformer(run, tmp_path / "exported", "transformer.2")
    model = sentence_transformers.SentenceTransformer(str(out), device="cpu")
    own = Embedder.load(run).with_view("transformer.2").encode([SENTENCES[1]])
    np.testing.assert_allclose(model.encode(["it rains"]), own, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"views": ("seq", "dep"), "encoder": "", "hidden": 8},
            "has no view 'transformer', but seq, dep: give another",
        ),
        ({"remove_component": True}, "which sentence-transformers has no module for"),
    ],
)
def test_what_cannot_be_exported(trained, tmp_path, settings, message):
    with pytest.raises(InputError, match=message):
        export_transformer(trained(**settings), tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def test_half_of_an_encoder_decoder_is_not_exported_with_other_weights(trained, tmp_path):
    about = T5Config(
        vocab_size=400, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=2, pad_token_id=1, decoder_start_token_id=1
    )
    T5Model(about).save_pretrained(tmp_path / "t5")
    tokeniser("roberta").save_pretrained(tmp_path / "t5")
    run = trained(encoder=str(tmp_path / "t5"))
    with pytest.raises(InputError, match="its transformer is half of an encoder-decoder"):
        export_transformer(run, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()
