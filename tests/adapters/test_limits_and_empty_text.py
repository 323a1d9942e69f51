"""Every adapter has the core's limit for the words of a sentence, and its rule for empty text."""

import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from corpora import RandomParser

from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import SentenceError

LONG = "the dead tree fell"
TEXTS = ["a bird", "", LONG, "  "]


def by_mteb(run, texts, **limit):
    pytest.importorskip("mteb", reason="needs the extra structviews[mteb]")
    from structviews.adapters.mteb import MTEBEncoder

    encoder = MTEBEncoder(run, RandomParser(), **limit)
    cut = f", cut to {limit.get('max_tokens')} words" * (limit.get("overlong") == "cut")
    assert encoder.mteb_model_meta.experiment_kwargs["vectors"] == encoder.model.description
    assert encoder.model.description.endswith(cut)
    return encoder.encode([{"text": texts}], task_metadata=SimpleNamespace(type="Classification"))


def by_sentence_transformers(run, texts, **limit):
    toolkit = pytest.importorskip("sentence_transformers", reason="needs structviews[sentence-transformers]")
    from structviews.adapters.sentence_transformers import StructViewsModule

    module = StructViewsModule(run, parser=RandomParser(), **limit)
    assert module.get_config_dict() == {"similarity": False} | {"max_tokens": 500, "overlong": "raise"} | limit
    return toolkit.SentenceTransformer(modules=[module], device="cpu").encode(texts)


def by_senteval(run, texts, **limit):
    from structviews.adapters.senteval import batcher, prepare

    params = {"embedder": Embedder.load(run, RandomParser(), **limit)}
    samples = [text.split() for text in texts]
    prepare(params, samples)
    return batcher(params, samples)


def by_sklearn(run, texts, **limit):
    from structviews.adapters.sklearn import SentenceVectorizer

    vectorizer = SentenceVectorizer(run).set_params(**limit)
    vectorizer._embedder().preparer._parser = RandomParser()
    return vectorizer.transform(texts)


@pytest.mark.parametrize("encoded", [by_mteb, by_sentence_transformers, by_senteval, by_sklearn])
def test_empty_text_is_a_full_stop_and_longer_sentences_are_an_error_or_cut(run, embedder, encoded):
    np.testing.assert_allclose(encoded(run, TEXTS), embedder.encode(["a bird", ".", LONG, "."]), atol=1e-5)
    with pytest.raises(SentenceError, match=r"^sentences\[\d\]: 4 words, but the limit is 3: split it"):
        encoded(run, TEXTS, max_tokens=3)
    with pytest.warns(UserWarning, match="^1 sentence was cut to the first 3 words"):
        vectors = encoded(run, TEXTS, max_tokens=3, overlong="cut")
    np.testing.assert_allclose(vectors, embedder.encode(["a bird", ".", "the dead tree", "."]), atol=1e-5)


@pytest.mark.parametrize("extra", ["mteb", "sentence-transformers"])
def test_without_the_toolkit_the_extra_is_named(monkeypatch, extra):
    toolkit = extra.replace("-", "_")
    adapter = f"structviews.adapters.{toolkit}"
    for name in [toolkit, *(name for name in sys.modules if name.startswith(f"{toolkit}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, adapter, raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'structviews\[{extra}\]'"):
        importlib.import_module(adapter)
