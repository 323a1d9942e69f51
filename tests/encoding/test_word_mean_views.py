"""The views ``average`` and ``sif``: the baselines of these names before a component is removed, beside other views."""

import numpy as np
import pytest
import torch
from corpora import RandomParser, opened, random_trees, small_config, tiny_corpus, topic_corpus
from packed_runs import pack
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
POOLINGS = ["vector", "mean", "pooled"]


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
    def settings(views):
        folder = corpus.parent / "-".join(views)
        return small_config(corpus, folder, views, channels=("fixed",), vectors=str(vectors), epochs=2)

    return {views: train(settings(views)) for views in (VIEWS, LEARNING, (*LEARNING, *MEANS))}


@pytest.fixture(scope="module")
def sentences(corpus):
    own = [opened(corpus).sentence(i) for i in range(len(opened(corpus)))]
    unknown = min(own[0].tokens)
    return [*own, *map(random_trees, (["elsewhere"], ["zzz"], ["zzz", "elsewhere", unknown], ["qqq", *own[1].tokens]))]


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("name", MEANS)
def test_it_is_the_baseline(fixed, corpus, vectors, sentences, name, pooling, tmp_path):
    baseline = Embedder.load(make_baseline(name, corpus, tmp_path / name, vectors, None, Console(quiet=True)))
    run = Embedder.load(fixed[(*LEARNING, *MEANS)], RandomParser())
    view = run.with_view(name).with_representation(pooling=pooling)
    expected = baseline.with_representation(remove_component=False, pooling=pooling).encode(sentences)
    np.testing.assert_allclose(view.encode(sentences), expected, atol=1e-6)
    assert not view.encode([sentences[-3]]).any()


@pytest.mark.parametrize("name", MEANS)
def test_it_is_the_baseline_where_unknown_words_are_composed_too(corpus, sentences, name, tmp_path):
    words = sorted(count_words(opened(corpus)))
    (tmp_path / "v.bin").write_bytes(fasttext_model(words, random_vectors(range(len(words) + 64), DIM)))
    given = {"channels": ("fixed",), "vectors": str(tmp_path / "v.bin"), "epochs": 1}
    run = train(small_config(corpus, tmp_path / "run", (*LEARNING, name), **given))
    made = make_baseline(name, corpus, tmp_path / name, tmp_path / "v.bin", None, Console(quiet=True))
    expected = Embedder.load(made).with_representation(remove_component=False).encode(sentences)
    np.testing.assert_allclose(Embedder.load(run).with_view(name).encode(sentences), expected, atol=1e-6)
    assert expected[-3].any()  # no word of the corpus


def test_the_others_are_trained_as_without_it(fixed):
    weights, alone = (load_file(fixed[views] / "model.safetensors") for views in (VIEWS, LEARNING))
    renamed = {name.replace(".views.2.", ".views.1."): weight for name, weight in weights.items()}
    assert renamed.keys() - alone.keys() == {"channels.fixed.words.0.frequencies"}
    for name, weight in alone.items():
        assert torch.equal(renamed[name], weight), name
    entries = [path.read_text().splitlines()[-1] for path in (fixed[v] / "log.jsonl" for v in (VIEWS, LEARNING))]
    assert entries[0].partition('"loss"')[2].partition(",")[0] == entries[1].partition('"loss"')[2].partition(",")[0]


def test_three_views_side_by_side(fixed, sentences):
    embedder = Embedder.load(fixed[VIEWS], RandomParser())
    both = Embedder.load(fixed[LEARNING], RandomParser())
    assert (embedder.view_names, embedder.widths) == (list(VIEWS), [8, DIM, 8])
    vectors = embedder.encode(sentences)
    np.testing.assert_array_equal(np.delete(vectors, np.s_[8 : 8 + DIM], axis=1), both.encode(sentences))
    np.testing.assert_array_equal(vectors[:, 8 : 8 + DIM], embedder.with_view("sif").encode(sentences))
    removed = embedder.with_representation(remove_component=True).encode(sentences)
    assert np.isfinite(removed).all()
    module = SentenceEncoder(Embedder.load(fixed[VIEWS], RandomParser()))
    np.testing.assert_allclose(module(sentences).detach().numpy(), vectors, atol=1e-5)


def test_with_both_channels_it_reads_the_first_learning_views_words(corpus, vectors, sentences, tmp_path):
    settings = {"channels": ("fixed", "trained"), "vectors": str(vectors), "epochs": 1}
    run = train(small_config(corpus, tmp_path / "run", ("sif", "avg", "seq"), **settings))
    embedder = Embedder.load(run)
    trained = embedder.model.channels["trained"]
    assert [table.dim for table in trained.words] == [6, 6]
    assert [id(table) for table in trained.tables] == [id(trained.words[i]) for i in (0, 0, 1)]
    counts = np.array(Vocabulary.of_corpus(opened(corpus)).counts)
    np.testing.assert_allclose(trained.words[0].frequencies, counts / counts.sum(), rtol=1e-6)
    assert trained.words[1].frequencies is None
    known = [token for token in sentences[0].tokens if embedder.vocabularies["trained"].ids([token])[0]]
    ids = torch.from_numpy(embedder.vocabularies["trained"].ids(known))
    weights = 0.001 / (0.001 + trained.words[0].frequencies[ids])
    expected = (weights[:, None] * trained.words[0].weight[ids]).mean(dim=0)
    found = embedder.with_view("sif").encode([sentences[0]])[0]
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


def test_packed(fixed, tmp_path):
    own = Embedder.load(fixed[VIEWS], RandomParser()).with_view("sif")
    pack(fixed[VIEWS], tmp_path / "packed", 20)
    packed = Embedder.load(tmp_path / "packed", RandomParser()).with_view("sif")
    kept = packed.vocabularies["fixed"].words[1:]
    assert len(kept) == 20
    some = [random_trees(kept[:6]), random_trees(kept[5:]), random_trees([*kept[:4], "zzz"])]
    expected = own.encode(some)
    np.testing.assert_allclose(packed.encode(some), expected, atol=0.01 * np.abs(expected).max())
    removed = [each.with_representation(remove_component=True).encode(some) for each in (own, packed)]
    np.testing.assert_allclose(removed[1], removed[0], atol=0.01 * np.abs(expected).max())
    frequencies = [each.model.channels["fixed"].words[0].frequencies for each in (own, packed)]
    np.testing.assert_allclose(frequencies[1], frequencies[0][:21], rtol=1e-3)


def test_it_cannot_be_trained_alone(corpus, tmp_path):
    with pytest.raises(InputError, match="views sif,sif: learn nothing: add one that does, such as dep"):
        small_config(corpus, tmp_path / "run", ("sif", "sif"))
    with pytest.raises(InputError, match="1 view for the objective 'pairwise': it needs at least 2"):
        train(small_config(corpus, tmp_path / "run", ("dep", "sif"), epochs=1))
