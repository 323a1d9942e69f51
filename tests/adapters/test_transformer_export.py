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
    topic_corpus(tmp_path / "x.parsed", documents=4)

    def make(views=("transformer", "seq"), kind="bert", out="run", **others):
        encoder = encoder_folder(tmp_path / kind, kind)
        own = {"encoder": str(encoder), "hidden": 32, "steps": 1} | others
        return train(small_config(tmp_path / "x.parsed", tmp_path / out, views, **own))

    return make


@pytest.mark.parametrize(
    ("kind", "settings"), list(zip(KINDS, [{}, {"sentence_pooling": "first"}, {"normalise": True}, {}], strict=True))
)
def test_the_same_vectors_by_sentence_transformers_alone(trained, tmp_path, kind, settings):
    run = trained(kind=kind, **settings)
    out = export_transformer(run, tmp_path / "exported")
    embedder = Embedder.load(run).with_view("transformer")
    texts = as_texts([sentence.tokens for sentence in SENTENCES])
    model = sentence_transformers.SentenceTransformer(str(out), device="cpu", local_files_only=True)
    found, own = model.encode(texts), embedder.encode(SENTENCES)
    np.testing.assert_allclose(found, own, rtol=1e-4, atol=1e-5)
    assert np.abs(found - Embedder.load(run).with_view("seq").encode(SENTENCES)).max() > 0.01
    modules = [module["type"] for module in json.loads((out / "modules.json").read_text())]
    assert all(module.startswith("sentence_transformers.") for module in modules)
    card = (out / "README.md").read_text()
    assert "library_name: sentence-transformers" in card
    assert f"`{kind}`" in card
    assert str(tmp_path) not in card


def test_one_of_several(trained, tmp_path):
    run = trained(views=("transformer", "transformer", "seq"))
    with pytest.raises(InputError, match=r"give --view transformer\.1 or transformer\.2"):
        export_transformer(run, tmp_path / "exported", "transformer")
    out = export_transformer(run, tmp_path / "exported", "transformer.2")
    model = sentence_transformers.SentenceTransformer(str(out), device="cpu")
    own = Embedder.load(run).with_view("transformer.2").encode([SENTENCES[1]])
    np.testing.assert_allclose(model.encode(["it rains"]), own, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_exported(trained, tmp_path):
    """Half of an encoder-decoder would be loaded with other weights."""
    sizes = {"vocab_size": 400, "d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    T5Model(T5Config(**sizes, pad_token_id=1, decoder_start_token_id=1)).save_pretrained(tmp_path / "t5")
    tokeniser("roberta").save_pretrained(tmp_path / "t5")
    for name, settings, message in (
        ("plain", {"views": ("seq", "dep"), "encoder": "", "hidden": 8}, "has no view 'transformer', but seq, dep"),
        ("removed", {"remove_component": True}, "which sentence-transformers has no module for"),
        ("t5", {"encoder": str(tmp_path / "t5")}, "its transformer is half of an encoder-decoder"),
    ):
        with pytest.raises(InputError, match=message):
            export_transformer(trained(out=f"run-{name}", **settings), tmp_path / "exported")
        assert not (tmp_path / "exported").exists()
