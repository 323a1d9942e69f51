"""The views ``average`` and ``sif``: the baselines of these names before a component is removed, beside other views."""

import numpy as np
import pytest
import torch
from corpora import RandomParser, opened, random_trees, small_config, tiny_corpus, tiny_rows, topic_corpus
from rich.console import Console
from safetensors.torch import load_file
from vector_files import fasttext_model, random_vectors, write_vectors

from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import expand
from structviews.encoding.sentence_encoder import SentenceEncoder
from structviews.errors import InputError
from structviews.training.baselines import make_baseline
from structviews.training.loop import train
from structviews.training.trainer import Training
from structviews.words.vocabulary import Vocabulary, count_words

DIM = 7
VIEWS = ("dep", "sif", "const")
MEANS = ("average", "sif")
LEARNING = ("dep", "const")
OWN = [row.sentence for row in tiny_rows()]
NEW = (["elsewhere"], ["zzz"], ["zzz", "elsewhere", min(OWN[0].tokens)], ["qqq", *OWN[1].tokens])
SENTENCES = [*OWN, *map(random_trees, NEW)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return tiny_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed")


@pytest.fixture(scope="module")
def vectors(corpus):
    """Of most words of the corpus and of another one."""
    words = [*sorted(count_words(opened(corpus)))[1:], "elsewhere"]
    return write_vectors(corpus.parent / "v.vec", words, random_vectors(words, DIM))


@pytest.fixture(scope="module")
def fixed(corpus, vectors):
    given = {"channels": ("fixed",), "vectors": str(vectors), "epochs": 2}
    every = (VIEWS, LEARNING, (*LEARNING, *MEANS))
    return {views: train(small_config(corpus, corpus.parent / "-".join(views), views, **given)) for views in every}


@pytest.mark.parametrize("name", MEANS)
def test_it_is_the_baseline(fixed, corpus, vectors, name, tmp_path):
    """Also of words that are composed."""
    words = sorted(count_words(opened(corpus)))
    (tmp_path / "v.bin").write_bytes(fasttext_model(words, random_vectors(range(len(words) + 64), DIM)))
    given = {"channels": ("fixed",), "vectors": str(tmp_path / "v.bin"), "epochs": 1}
    composing = train(small_config(corpus, tmp_path / "run", (*LEARNING, name), **given))
    for run, file in ((fixed[(*LEARNING, *MEANS)], vectors), (composing, tmp_path / "v.bin")):
        made = make_baseline(name, corpus, tmp_path / f"of-{file.name}", file, None, Console(quiet=True))
        baseline, view = Embedder.load(made), Embedder.load(run, RandomParser()).with_view(name)
        for pooling in ("vector", "mean", "pooled"):
            expected = baseline.with_representation(remove_component=False, pooling=pooling).encode(SENTENCES)
            found = view.with_representation(pooling=pooling).encode(SENTENCES)
            np.testing.assert_allclose(found, expected, atol=1e-6)
        assert expected[-3].any() == (file.suffix == ".bin")  # no word of the corpus


def test_the_others_are_trained_as_without_it(fixed):
    weights, alone = (load_file(fixed[views] / "model.safetensors") for views in (VIEWS, LEARNING))
    renamed = {name.replace(".views.2.", ".views.1."): weight for name, weight in weights.items()}
    assert renamed.keys() - alone.keys() == {"channels.fixed.words.0.frequencies"}
    for name, weight in alone.items():
        assert torch.equal(renamed[name], weight), name
    entries = [path.read_text().splitlines()[-1] for path in (fixed[v] / "log.jsonl" for v in (VIEWS, LEARNING))]
    embedders = [Embedder.load(fixed[views], RandomParser()) for views in (VIEWS, LEARNING)]
    assert (embedders[0].view_names, embedders[0].widths) == (list(VIEWS), [8, DIM, 8])
    vectors, both = (each.encode(SENTENCES) for each in embedders)
    np.testing.assert_array_equal(np.delete(vectors, np.s_[8 : 8 + DIM], axis=1), both)
    np.testing.assert_array_equal(vectors[:, 8 : 8 + DIM], embedders[0].with_view("sif").encode(SENTENCES))
    np.testing.assert_allclose(SentenceEncoder(embedders[0])(SENTENCES).detach(), vectors, atol=1e-5)
    assert entries[0].partition('"loss"')[2].partition(",")[0] == entries[1].partition('"loss"')[2].partition(",")[0]


def test_with_both_channels_it_reads_the_first_learning_views_words(corpus, vectors, tmp_path):
    settings = {"channels": ("fixed", "trained"), "vectors": str(vectors), "epochs": 1}
    run = train(small_config(corpus, tmp_path / "run", ("sif", "avg", "seq"), **settings))
    embedder = Embedder.load(run)
    trained = embedder.model.channels["trained"]
    assert [table.dim for table in trained.words] == [6, 6]
    assert [id(table) for table in trained.tables] == [id(trained.words[i]) for i in (0, 0, 1)]
    counts = np.array(Vocabulary.of_corpus(opened(corpus)).counts)
    np.testing.assert_allclose(trained.words[0].frequencies, counts / counts.sum(), rtol=1e-6)
    assert trained.words[1].frequencies is None
    known = [token for token in SENTENCES[0].tokens if embedder.vocabularies["trained"].ids([token])[0]]
    ids = torch.from_numpy(embedder.vocabularies["trained"].ids(known))
    weights = 0.001 / (0.001 + trained.words[0].frequencies[ids])
    expected = (weights[:, None] * trained.words[0].weight[ids]).mean(dim=0)
    found = embedder.with_view("sif").encode([SENTENCES[0]])[0]
    assert embedder.widths == [DIM + 6, 16, 16]
    np.testing.assert_allclose(found[DIM:], expected.detach(), atol=1e-6)
    assert [fit.view for fit in expand(run, corpus.parent / "v.vec").fits] == ["avg", "seq"]
    assert len(Embedder.load(run).encode([["elsewhere"]])) == 1


def test_another_corpus_has_its_own_frequencies(tmp_path):
    first = train(small_config(topic_corpus(tmp_path / "x.parsed", documents=8), tmp_path / "x", VIEWS, epochs=1))
    corpus = topic_corpus(tmp_path / "y.parsed", documents=12, seed=1)
    table = Training(small_config(corpus, tmp_path / "y", VIEWS, init_from=str(first))).model.channels["trained"].words
    fresh = count_words(opened(corpus))
    words = Training(small_config(corpus, tmp_path / "z", VIEWS, init_from=str(first))).vocabularies["trained"].words
    expected = [fresh[word] / fresh.total() for word in words[1:]]
    np.testing.assert_allclose(table[0].frequencies[1:], expected, rtol=1e-6)


def test_it_cannot_be_trained_alone(corpus, tmp_path):
    with pytest.raises(InputError, match="views sif,sif: learn nothing: add one that does, such as dep"):
        small_config(corpus, tmp_path / "run", ("sif", "sif"))
    with pytest.raises(InputError, match="1 view for the objective 'pairwise': it needs at least 2"):
        train(small_config(corpus, tmp_path / "run", ("dep", "sif"), epochs=1))
