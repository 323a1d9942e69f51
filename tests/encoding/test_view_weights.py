"""Weights of views: what is joined, what is left out and not computed, and cosines of what is joined."""

import json

import numpy as np
import pytest
from corpora import RandomParser, opened, small_config, tiny_corpus

from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import join_runs
from structviews.encoding.representation import normalised
from structviews.encoding.sentence_encoder import SentenceEncoder
from structviews.errors import InputError
from structviews.evaluation.scores.results import results_name
from structviews.runs.settings_file import load_run
from structviews.runs.which_vectors import Representation
from structviews.training.baselines import make_baseline
from structviews.training.loop import train

VIEWS = ("dep", "const", "avg")
WEIGHTS = (1.0, 0.5, 2.0)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return tiny_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed")


@pytest.fixture(scope="module")
def run(corpus):
    chosen = {"normalise": True, "similarity_view_weights": (0, 0, 3)}
    return train(small_config(corpus, corpus.parent / "run", VIEWS, epochs=1, **chosen))


@pytest.fixture
def embedder(run):
    return Embedder.load(run, RandomParser())


@pytest.fixture(scope="module")
def sentences(corpus):
    return [opened(corpus).sentence(i) for i in range(len(opened(corpus)))]


def words(sentences):
    return [list(sentence.tokens) for sentence in sentences]


class NoParser(RandomParser):
    def parse(self, sentences):
        raise AssertionError("parsed")


def test_each_views_vectors_are_scaled(embedder, sentences):
    views = embedder.encode_views(sentences)
    weighted = embedder.with_representation(view_weights=WEIGHTS)
    expected = np.concatenate([weight * view for weight, view in zip(WEIGHTS, views, strict=True)], axis=1)
    np.testing.assert_array_equal(weighted.encode(sentences), expected)
    np.testing.assert_array_equal(weighted.joined(views), expected)
    for view, own in zip(VIEWS, views, strict=True):
        alone = weighted.with_view(view)
        np.testing.assert_array_equal(alone.encode(sentences), own)
        assert alone.description == "vector, l2"


def test_the_average_is_weighted(embedder, sentences):
    views = [normalised(view) for view in embedder.encode_views(sentences)]
    found = embedder.with_representation(view_weights=WEIGHTS, join="average").encode(sentences)
    expected = sum(weight * view for weight, view in zip(WEIGHTS, views, strict=True)) / sum(WEIGHTS)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found.dtype == np.float32


def test_a_view_of_weight_0_is_left_out(embedder, sentences):
    views = embedder.encode_views(sentences)
    two = embedder.with_representation(view_weights=(0, 1, 2))
    assert (two.dim, two.needs) == (views[1].shape[1] + views[2].shape[1], {"constituency", "tokens"})
    np.testing.assert_array_equal(two.encode(sentences), np.concatenate([views[1], 2 * views[2]], axis=1))
    for mine, every in zip(two.encode_views(sentences), views, strict=True):
        np.testing.assert_array_equal(mine, every)
    assert list(two.attention(sentences)) == list(embedder.attention(sentences)) == ["dep"]


def test_what_is_left_out_is_not_parsed_for(run, sentences):
    full, embedder = Embedder.load(run, RandomParser()), Embedder.load(run, NoParser())
    similarity = embedder.for_similarity()
    assert similarity.needs == {"tokens"}
    assert similarity.dim == 8
    expected = 3 * full.encode_views(words(sentences))[2]
    np.testing.assert_array_equal(similarity.encode(words(sentences)), expected)
    np.testing.assert_array_equal(3 * embedder.with_view("avg").encode(words(sentences)), expected)
    with pytest.raises(AssertionError, match="parsed"):
        embedder.encode(words(sentences))


@pytest.mark.parametrize(("join", "weights"), [("concatenation", WEIGHTS), ("average", (0, 1, 2))])
def test_as_a_module(embedder, sentences, join, weights):
    chosen = embedder.with_representation(join=join, view_weights=weights, remove_component=True)
    module = SentenceEncoder(chosen)
    np.testing.assert_allclose(module(sentences).detach().numpy(), chosen.encode(sentences), atol=1e-5)


def test_a_runs_settings_keep_them(run, embedder):
    config, _ = load_run(run)
    assert config.representation.similarity_view_weights == (0.0, 0.0, 3.0)
    assert str(embedder.representation) == "vector, l2; similarity: vector, l2, weights 0,0,3"
    assert embedder.for_similarity().representation == Representation(normalise=True, view_weights=(0, 0, 3))
    assert "similarity: vector, l2, weights 0,0,3" in json.dumps(embedder.description)
    one, other = (str(Representation(view_weights=weights)) for weights in ((1.5, 2), (1, 5.2)))
    assert results_name(one) == "results.vector-weights-1.5-2.json" != results_name(other)


def test_a_joined_runs_weights_are_its_members(run, corpus, sentences, tmp_path):
    other = make_baseline("random", corpus, tmp_path / "random", None, {"views": ["seq", "avg"], "hidden": 8})
    joined = Embedder.load(join_runs([run, other], tmp_path / "joined"), RandomParser())
    first, second = joined.encode_views(sentences)
    weighted = joined.with_representation(view_weights=(2, 1))
    np.testing.assert_array_equal(weighted.encode(sentences), np.concatenate([2 * first, second], axis=1))
    assert weighted.description.endswith("; members: concatenation 2,1")
    alone = joined.with_representation(view_weights=(0, 1))
    assert alone.needs == {"tokens"}
    np.testing.assert_array_equal(alone.encode(sentences), second)
    module = SentenceEncoder(alone)
    np.testing.assert_allclose(module(sentences).detach().numpy(), second, atol=1e-5)


WRONG = [
    ((1, 2), "view_weights = 1,2: 2 weights for 3 views: give one each for dep, const, avg"),
    ((0, 0, 0), "view_weights = 0,0,0: leaves out all views: give one of them more than 0"),
    ((1, float("nan"), 1), "view_weights = nan: give a number at least 0"),
    (("a", 1, 1), r"view_weights = \('a', 1.0, 1.0\) is not of type list of numbers"),
]


@pytest.mark.parametrize(("weights", "message"), WRONG)
def test_wrong_weights(embedder, corpus, tmp_path, weights, message):
    with pytest.raises(InputError, match=message):
        embedder.with_representation(view_weights=weights)
    with pytest.raises(InputError, match=f"similarity_{message}"):
        small_config(corpus, tmp_path / "run", VIEWS, similarity_view_weights=weights)
