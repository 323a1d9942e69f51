"""Pooling, post-processing and joining against the papers' formulas in loops; what a run stores."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from corpora import RandomParser, small_config, topic_rows

from structviews.batches.batch import collate
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import join_runs
from structviews.encoding.representation import (
    Components,
    load_components,
    normalised,
    reduce_segments,
    save_components,
)
from structviews.encoding.sentence_encoder import SentenceEncoder
from structviews.errors import InputError
from structviews.evaluation.scores.results import results_name
from structviews.runs.folder import COMPONENTS
from structviews.runs.which_vectors import POOLINGS, Representation
from structviews.training.baselines import make_baseline
from structviews.training.checkpoint import extend, extended
from structviews.training.loop import train
from structviews.training.trainer import Training

SENTENCES = [row.sentence for row in topic_rows(3, 5, seed=3)]
VIEWS = ("dep", "const", "seq", "avg", "bow")
LINEAR = {"avg", "bow"}


@pytest.fixture(scope="module")
def run(topics, tmp_path_factory):
    return train(small_config(topics, tmp_path_factory.mktemp("run") / "run", VIEWS, epochs=1))


@pytest.fixture(scope="module")
def embedder(run):
    return Embedder.load(run, RandomParser())


def states_one_by_one(embedder):
    """Vector and states ``(m, d)`` of each view for each sentence, encoded alone."""
    embedder.model.double()
    found = []
    for sentence in SENTENCES:
        with torch.inference_mode():
            encoded = embedder.model.encode(collate([sentence], embedder.vocabularies, embedder.needs), states=True)
        found.append([(view[0].vector[0].numpy(), view[0].states.numpy()) for view in encoded])
    embedder.model.float()
    return found


@pytest.mark.parametrize("how", ["amax", "amin", "mean"])
def test_segments_are_reduced_as_by_a_loop(how):
    lengths = torch.tensor([3, 1, 7, 1, 2])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    states = torch.randn(14, 5, dtype=torch.float64, requires_grad=True)
    expected = torch.stack([getattr(part, how)(dim=0) for part in states.split(lengths.tolist())])
    found = reduce_segments(states, offsets, how)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    weights = torch.randn_like(found)
    gradients = (torch.autograd.grad((vectors * weights).sum(), states)[0] for vectors in (found, expected))
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


def test_each_view_is_pooled_as_the_papers_table_says(embedder):
    expected = {pooling: [[] for _ in VIEWS] for pooling in POOLINGS}
    for sentence, views in zip(SENTENCES, states_one_by_one(embedder), strict=True):
        # A dependency tree has a state a word, a constituency tree one for each of its 2n - 1 nodes.
        n = len(sentence.tokens)
        assert [len(states) for _, states in views] == [n, 2 * n - 1, n, n, n]
        for i, (name, (vector, states)) in enumerate(zip(VIEWS, views, strict=True)):
            columns = [list(column) for column in states.T]
            largest, smallest = list(map(max, columns)), list(map(min, columns))
            mean = [sum(column) / len(column) for column in columns]
            expected["vector"][i].append(vector)
            expected["mean"][i].append(mean)
            expected["pooled"][i].append([*largest, *mean, *smallest, *([] if name in LINEAR else vector)])
    for pooling, views in expected.items():
        chosen = embedder.with_representation(pooling=pooling)
        assert chosen.widths == [len(view[0]) for view in views]
        for found, view in zip(chosen.encode_views(SENTENCES), views, strict=True):
            np.testing.assert_allclose(found, np.array(view), atol=1e-5, rtol=0)
        assert chosen.encode(SENTENCES).shape == (len(SENTENCES), chosen.dim)


@pytest.mark.parametrize(("n", "w", "count"), [(40, 6, 1), (40, 6, 5), (5, 30, 5), (1, 4, 1), (3, 1, 5)])
def test_components_are_the_first_of_an_uncentred_decomposition(n, w, count):
    rng = np.random.default_rng(n + count)
    vectors = rng.standard_normal((n, w)) * np.linspace(1, 3, w) + 2
    _, scales, directions = np.linalg.svd(vectors, full_matrices=False)
    expected = []
    for vector in vectors:
        left = vector.copy()
        for scale, direction in list(zip(scales, directions, strict=True))[:count]:
            left -= scale**2 / sum(scales[:count] ** 2) * (vector @ direction) * direction
        expected.append(left)
    before = torch.get_rng_state()
    given = torch.from_numpy(vectors)
    components = Components.fit(given, count)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_allclose(components.remove_from(given), expected, atol=1e-7)
    if count == 1:
        np.testing.assert_allclose(components.remove_from(given).numpy() @ directions[0], 0, atol=1e-7)
    zeros = torch.zeros(4, 3)
    assert not Components.fit(zeros).remove_from(zeros).any()


def test_each_view_is_post_processed_by_itself_before_they_are_joined(embedder):
    chosen = embedder.with_representation(pooling="mean", remove_component=True, normalise=True)
    plain = embedder.with_representation(pooling="mean").encode_views(SENTENCES)
    expected = []
    for i, view in enumerate(plain):
        direction = embedder.components[f"trained.{i}.mean"].directions[0].double().numpy()
        rows = []
        for vector in view.astype(np.float64):
            left = vector - (vector @ direction) * direction
            rows.append(left / np.sqrt(sum(left**2)))
        expected.append(np.array(rows))
    np.testing.assert_allclose(chosen.encode(SENTENCES), np.concatenate(expected, axis=1), atol=1e-5)
    averaged = chosen.with_representation(join="average")
    assert averaged.dim == 8
    np.testing.assert_allclose(averaged.encode(SENTENCES), sum(expected) / len(expected), atol=1e-5)
    with pytest.raises(InputError, match="equal dimensions, but dep has 32, const has 32, seq has 32, avg has 24"):
        averaged.with_representation(pooling="pooled").encode(SENTENCES)


def test_vectors_do_not_depend_on_what_is_encoded_with_them_unless_they_are_transductive(embedder):
    stored = embedder.with_representation(pooling="pooled", remove_component=True)
    together, alone = stored.encode(SENTENCES), stored.encode(SENTENCES[:4])
    np.testing.assert_allclose(alone, together[:4], atol=1e-5)
    fitted = stored.with_representation(transductive=True)
    together, alone = fitted.encode(SENTENCES), fitted.encode(SENTENCES[:4])
    assert not np.allclose(alone, together[:4], atol=1e-2)
    start = 0
    for view in stored.with_representation(remove_component=False).encode_views(SENTENCES):
        own = torch.from_numpy(view)
        expected = Components.fit(own).remove_from(own)
        np.testing.assert_allclose(together[:, start : start + view.shape[1]], expected, atol=1e-5)
        start += view.shape[1]
    assert fitted.encode([]).shape == (0, fitted.dim)


def test_a_run_stores_components_of_its_training_sentences(run, embedder):
    stored = Embedder.load(run).components
    assert stored.keys() == {f"trained.{i}.{pooling}" for i in range(5) for pooling in POOLINGS}
    training = Training(embedder.config)
    sentences = [training.inputs.corpus.sentence(row) for row in training.data.train_rows]
    assert len(sentences) < len(training.inputs.corpus)  # what is held out has no part in it
    for i, view in enumerate(embedder.with_representation(pooling="pooled").encode_views(sentences)):
        direction = np.linalg.svd(view.astype(np.float64), full_matrices=False)[2][0]
        assert abs(stored[f"trained.{i}.pooled"].directions[0].numpy() @ direction) == pytest.approx(1, abs=1e-4)


def test_a_run_that_goes_on_has_no_components_until_it_has_finished(topics, tmp_path, monkeypatch):
    run = train(small_config(topics, tmp_path / "run", ("seq", "avg"), steps=2))
    first = Embedder.load(run).components
    extend(extended(run, None, 3))

    monkeypatch.setattr("structviews.training.trainer.Training.save_components", lambda training: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(extended(run, None, None))
    assert not (run / COMPONENTS).exists()
    embedder = Embedder.load(run, representation=Representation(remove_component=True))
    with pytest.raises(InputError, match=r"has stored no components.*finish it, or give --transductive"):
        embedder.encode(SENTENCES)
    embedder.with_representation(transductive=True).encode(SENTENCES)
    monkeypatch.undo()
    train(extended(run, None, None))
    again = Embedder.load(run).components
    assert not torch.equal(again["trained.0.vector"].directions, first["trained.0.vector"].directions)


def test_components_are_stored_as_they_are(tmp_path):
    stored = Components(torch.eye(2, 5), torch.tensor([0.7, 0.3]))
    save_components(tmp_path, {"a.vector": stored})
    (found,) = load_components(tmp_path, {"a.vector": 5}).values()
    assert torch.equal(found.directions, stored.directions)
    assert torch.equal(found.shares, stored.shares)
    with pytest.raises(InputError, match=r"components\.safetensors: damaged: a\.vector does not fit"):
        load_components(tmp_path, {"a.vector": 4})


def test_a_runs_settings_are_what_it_gives_unless_others_are_asked_for(run, chosen_run):
    stored = Embedder.load(chosen_run)
    assert stored.representation == Representation(normalise=True, similarity_view_weights=(0, 0, 3))
    assert stored.description == "vector, l2; similarity: vector, l2, weights 0,0,3"
    assert stored.for_similarity().representation == Representation(normalise=True, view_weights=(0, 0, 3))
    one, other = (str(Representation(view_weights=weights)) for weights in ((1.5, 2), (1, 5.2)))
    assert results_name(one) == "results.vector-weights-1.5-2.json" != results_name(other)
    asked = Representation("pooled", similarity_pooling="mean")
    embedder = Embedder.load(run, representation=asked)
    assert embedder.representation == asked
    assert embedder.for_similarity().representation == Representation("mean")
    assert embedder.with_representation(pooling="vector").representation == replace(asked, pooling="vector")
    assert embedder.representation == asked


def test_wrong_representations():
    with pytest.raises(InputError, match="unknown pooling 'max': choose one of vector, pooled, mean"):
        Representation("max")
    with pytest.raises(InputError, match="no component is removed: give --remove-component too"):
        Representation(transductive=True)


THREE = ("dep", "const", "avg")
WEIGHTS = (1.0, 0.5, 2.0)


@pytest.fixture(scope="module")
def chosen_run(topics, tmp_path_factory):
    chosen = {"normalise": True, "similarity_view_weights": (0, 0, 3)}
    return train(small_config(topics, tmp_path_factory.mktemp("chosen") / "run", THREE, epochs=1, **chosen))


@pytest.fixture
def three(chosen_run):
    return Embedder.load(chosen_run, RandomParser())


def test_each_views_vectors_are_scaled(three):
    views = three.encode_views(SENTENCES)
    weighted = three.with_representation(view_weights=WEIGHTS)
    expected = np.concatenate([weight * view for weight, view in zip(WEIGHTS, views, strict=True)], axis=1)
    np.testing.assert_array_equal(weighted.encode(SENTENCES), expected)
    for view, own in zip(THREE, views, strict=True):
        np.testing.assert_array_equal(weighted.with_view(view).encode(SENTENCES), own)
    averaged = weighted.with_representation(join="average")
    units = sum(weight * normalised(view) for weight, view in zip(WEIGHTS, views, strict=True)) / sum(WEIGHTS)
    np.testing.assert_allclose(averaged.encode(SENTENCES), units, atol=1e-6)
    for chosen in (weighted, averaged):
        module = SentenceEncoder(chosen.with_representation(remove_component=True))
        np.testing.assert_allclose(module(SENTENCES).detach(), module.embedder.encode(SENTENCES), atol=1e-5)


def test_a_view_of_weight_0_is_left_out(three):
    views = three.encode_views(SENTENCES)
    two = three.with_representation(view_weights=(0, 1, 2))
    assert (two.dim, two.needs) == (views[1].shape[1] + views[2].shape[1], {"constituency", "tokens"})
    np.testing.assert_array_equal(two.encode(SENTENCES), np.concatenate([views[1], 2 * views[2]], axis=1))
    for mine, every in zip(two.encode_views(SENTENCES), views, strict=True):
        np.testing.assert_array_equal(mine, every)
    assert list(two.attention(SENTENCES)) == list(three.attention(SENTENCES)) == ["dep"]


def test_what_is_left_out_is_not_parsed_for(chosen_run):
    parser = RandomParser()
    three, words = Embedder.load(chosen_run, parser), [sentence.tokens for sentence in SENTENCES]
    similarity = three.for_similarity()
    assert (similarity.needs, similarity.dim) == ({"tokens"}, 8)
    expected = 3 * three.encode_views(SENTENCES)[2]
    np.testing.assert_array_equal(similarity.encode(words), expected)
    np.testing.assert_array_equal(3 * three.with_view("avg").encode(words), expected)
    assert parser.n_parsed == 0


def test_a_joined_runs_weights_are_its_members(chosen_run, topics, tmp_path):
    other = make_baseline("random", topics, tmp_path / "random", None, {"views": ["seq", "avg"], "hidden": 8})
    joined = Embedder.load(join_runs([chosen_run, other], tmp_path / "joined"), RandomParser())
    first, second = joined.encode_views(SENTENCES)
    weighted = joined.with_representation(view_weights=(2, 1))
    np.testing.assert_array_equal(weighted.encode(SENTENCES), np.concatenate([2 * first, second], axis=1))
    assert weighted.description.endswith("; members: concatenation 2,1")
    alone = joined.with_representation(view_weights=(0, 1))
    assert alone.needs == {"tokens"}
    np.testing.assert_array_equal(alone.encode(SENTENCES), second)
    module = SentenceEncoder(alone)
    np.testing.assert_allclose(module(SENTENCES).detach().numpy(), second, atol=1e-5)


WRONG = [
    ((1, 2), "view_weights = 1,2: 2 weights for 3 views: give one each for dep, const, avg"),
    ((0, 0, 0), "view_weights = 0,0,0: leaves out all views: give one of them more than 0"),
    ((1, float("nan"), 1), "view_weights = nan: give a number at least 0"),
    (("a", 1, 1), r"view_weights = \('a', 1.0, 1.0\) is not of type list of numbers"),
]


@pytest.mark.parametrize(("weights", "message"), WRONG)
def test_wrong_weights(three, topics, tmp_path, weights, message):
    with pytest.raises(InputError, match=message):
        three.with_representation(view_weights=weights)
    with pytest.raises(InputError, match=f"similarity_{message}"):
        small_config(topics, tmp_path / "run", THREE, similarity_view_weights=weights)
