"""A gate against its formula in loops, as a module, in a run's folder and in what is made of that."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from corpora import RandomParser, opened, small_config, tiny_corpus
from rich.console import Console

from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import open_pool
from structviews.encoding.kinds.joined import join_runs
from structviews.encoding.representation import join_views, normalised
from structviews.encoding.sentence_encoder import SentenceEncoder
from structviews.encoding.view_gate import Gate, gated, load_gate, save_gate
from structviews.errors import InputError
from structviews.evaluation.scores.results import results_name
from structviews.hub.portable import stage
from structviews.runs.folder import GATE
from structviews.runs.which_vectors import Representation
from structviews.runtime.seals import write_arrays
from structviews.training.baselines import make_baseline
from structviews.training.checkpoint import extend, extended
from structviews.training.loop import train

VIEWS = ("dep", "const", "seq")
K, D = 3, 8
PURPOSE = {"views": list(VIEWS), "vectors": "vector"}


def random_gate(seed=0, views=VIEWS, vectors="vector", d=D):
    rng = np.random.default_rng(seed)
    k = len(views)
    matrix, bias = rng.standard_normal((k, k * d)).astype(np.float32), rng.standard_normal(k).astype(np.float32)
    return Gate(matrix, bias, {"views": list(views), "vectors": vectors})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return tiny_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed")


@pytest.fixture(scope="module")
def trained(corpus):
    return train(small_config(corpus, corpus.parent / "run", VIEWS, epochs=1))


@pytest.fixture
def run(trained, tmp_path):
    """A run with a gate."""
    folder = shutil.copytree(trained, tmp_path / "run")
    save_gate(folder, random_gate())
    return folder


@pytest.fixture(scope="module")
def sentences(corpus):
    return [opened(corpus).sentence(i) for i in range(len(opened(corpus)))]


def in_loops(gate, views):
    """Sentence by sentence, view by view, number by number."""
    joined = []
    for rows in zip(*views, strict=True):
        units = [[x / (math.sqrt(sum(y * y for y in row)) or 1) for x in row] for row in rows]
        whole = [x for unit in units for x in unit]
        scores = [sum(a * x for a, x in zip(row, whole, strict=True)) for row in gate.matrix.tolist()]
        exponentials = [math.exp(score + b) for score, b in zip(scores, gate.bias.tolist(), strict=True)]
        total = sum(exponentials)
        weights = [each / total for each in exponentials]
        joined.append([sum(w * unit[i] for w, unit in zip(weights, units, strict=True)) for i in range(len(units[0]))])
    return joined


def test_the_join_is_what_the_formula_says():
    rng = np.random.default_rng(1)
    views = [rng.standard_normal((9, D)) * 3 for _ in range(K)]
    views[1][4] = 0  # has no direction
    gate = random_gate()
    expected = in_loops(gate, [view.tolist() for view in views])
    np.testing.assert_allclose(gate.join(views), expected, rtol=0, atol=1e-12)
    units = np.stack([normalised(view) for view in views], axis=1)
    found = gated(torch.from_numpy(units), *(torch.from_numpy(each).double() for each in (gate.matrix, gate.bias)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert gate.join([view[:0] for view in views]).shape == (0, D)


def test_large_scores_do_not_overflow():
    gate = Gate(np.full((2, 4), 1e4, dtype=np.float32), np.array([3e4, 0], dtype=np.float32), PURPOSE)
    views = [np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)[::-1]]
    np.testing.assert_array_equal(gate.join(views), views[0])


@pytest.mark.parametrize("k", [2, 3])
def test_it_begins_as_the_average(k):
    views = [np.random.default_rng(i).standard_normal((20, D)) for i in range(k)]
    gate = Gate(np.zeros((k, k * D)), np.zeros(k), PURPOSE)
    np.testing.assert_allclose(gate.join(views), join_views(views, VIEWS[:k], "average"), rtol=0, atol=1e-15)


@pytest.mark.parametrize("changes", [{}, {"pooling": "mean", "remove_component": True, "normalise": True}], ids=str)
def test_a_run_encodes_with_its_gate(run, sentences, changes):
    embedder = Embedder.load(run).with_representation(**changes)
    gate = random_gate(2, vectors=embedder.view_vectors)
    save_gate(run, gate)
    chosen = Embedder.load(run).with_representation(join="gate", **changes)
    expected = in_loops(gate, [view.astype(float).tolist() for view in embedder.encode_views(sentences)])
    found = chosen.encode(sentences)
    assert (found.dtype, found.shape) == (np.float32, (len(sentences), chosen.dim))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(chosen.joined(chosen.encode_views(sentences)), found)
    np.testing.assert_allclose(SentenceEncoder(chosen)(sentences).detach(), found, atol=1e-6)
    for each in ("join", "similarity_join"):
        same = Embedder.load(run).with_representation(**{each: "gate"}, **changes).for_similarity()
        np.testing.assert_array_equal(same.encode(sentences), found)
    alone = chosen.with_view("const")
    np.testing.assert_array_equal(alone.encode(sentences), embedder.with_view("const").encode(sentences))


def test_the_module_learns_and_moves_with_it(run, sentences):
    module = SentenceEncoder(Embedder.load(run).with_representation(join="gate"))
    assert not any("join" in name for name in module.state_dict())
    module(sentences).square().sum().backward()
    assert all(each.grad is not None for each in module.parameters() if each.requires_grad)
    assert module.double()(sentences).dtype == torch.float64


def test_several_processes_have_it_too(run):
    embedder = Embedder.load(run, RandomParser()).with_representation(join="gate")
    texts = [["A", "bird", "sings", word] for word in "abcdefgh"]
    parsed = embedder.prepare(texts)
    with open_pool(embedder, 2) as pool:
        np.testing.assert_allclose(embedder.encode(parsed, pool=pool), embedder.encode(parsed), atol=1e-6)


def test_it_is_kept_as_it_is(tmp_path):
    assert load_gate(tmp_path) is None
    gate = random_gate()
    save_gate(tmp_path, gate)
    found = load_gate(tmp_path)
    np.testing.assert_array_equal(found.matrix, gate.matrix)
    np.testing.assert_array_equal(found.bias, gate.bias)
    assert (found.purpose, found.digest) == (gate.purpose, gate.digest)
    first = (tmp_path / GATE).read_bytes()
    save_gate(tmp_path, gate)
    assert (tmp_path / GATE).read_bytes() == first


def test_a_damaged_gate(run):
    content = (run / GATE).read_bytes()
    for damaged in (content[:-3], content[:-1] + bytes([content[-1] ^ 1]), b""):
        (run / GATE).write_bytes(damaged)
        with pytest.raises(InputError, match=r"gate\.safetensors: damaged: .*: delete it and fit it again with"):
            Embedder.load(run)
    gate = random_gate()
    for arrays in (
        {"matrix": gate.matrix},
        {"matrix": gate.matrix, "bias": gate.bias[:2]},
        {"matrix": gate.matrix[:2], "bias": gate.bias},
        {"matrix": gate.matrix * np.float32("nan"), "bias": gate.bias},
        {"matrix": gate.matrix, "bias": gate.bias * np.float32("inf")},
    ):
        write_arrays(run / GATE, arrays, gate.purpose)
        with pytest.raises(InputError, match=r"gate\.safetensors: damaged: it is not a gate"):
            load_gate(run)
    write_arrays(run / GATE, {"matrix": gate.matrix, "bias": gate.bias}, {"views": 3})
    with pytest.raises(InputError, match=r"gate\.safetensors: .*: delete it and fit it again"):
        load_gate(run)


def test_a_gate_is_for_the_vectors_that_it_was_fitted_for(run, sentences):
    embedder = Embedder.load(run).with_representation(join="gate")
    embedder.encode(sentences)
    for changes, vectors in (
        ({"pooling": "mean"}, "mean"),
        ({"remove_component": True}, "vector - pc"),
        ({"normalise": True}, "vector, l2"),
    ):
        other = embedder.with_representation(**changes)
        error = f"was fitted for the vectors vector, not {vectors}: fit one with `structviews gate {run}`, or join"
        for encode in (other.encode, SentenceEncoder):
            with pytest.raises(InputError, match=f"run/gate.safetensors: {error}"):
                encode(sentences if encode is not SentenceEncoder else other)
    save_gate(run, random_gate(views=("dep", "seq", "const")))
    with pytest.raises(InputError, match="fitted for the views dep, seq, const, not dep, const, seq: fit one"):
        Embedder.load(run).with_representation(join="gate").encode(sentences)
    save_gate(run, random_gate(d=7))
    with pytest.raises(InputError, match="fitted for the dimensions 21, not 24: fit one"):
        Embedder.load(run).with_representation(join="gate").encode(sentences)


def test_one_fitted_with_the_stored_component_joins_transductive_vectors(run, sentences):
    save_gate(run, random_gate(vectors="vector - pc"))
    chosen = Embedder.load(run).with_representation(join="gate", remove_component=True, transductive=True)
    assert chosen.encode(sentences).shape == (len(sentences), D)


def test_a_run_without_one(trained, sentences):
    embedder = Embedder.load(trained).with_representation(join="gate")
    with pytest.raises(InputError, match=f"join = gate, but there is no gate.safetensors: fit one with .* {trained}`"):
        embedder.encode(sentences)
    assert embedder.description == "vector, gate"
    assert "vector, average" in repr(embedder.with_representation(join="average"))


def test_views_of_different_lengths_have_none(corpus, tmp_path, sentences):
    run = train(small_config(corpus, tmp_path / "run", ("dep", "avg"), epochs=1, pooling="pooled", join="gate"))
    with pytest.raises(InputError, match="join = gate needs equal dimensions, but dep has 32, avg has 24"):
        Embedder.load(run).encode(sentences)


def test_a_gate_has_no_weights_beside_it():
    for name, joins in (
        ("view_weights", {"join": "gate"}),
        ("similarity_view_weights", {"join": "gate"}),
        ("similarity_view_weights", {"similarity_join": "gate"}),
    ):
        with pytest.raises(InputError, match=f"^{name} = 1,2, but a gate weighs the views: give 1,1, or another join"):
            Representation(**joins, **{name: (1, 2)})
        assert Representation(**joins, **{name: (2, 2)})
    assert Representation(join="gate", similarity_join="average", similarity_view_weights=(1, 2))


def test_vectors_of_one_gate_are_not_taken_for_those_of_another(run):
    descriptions = []
    for seed in (0, 1):
        gate = random_gate(seed)
        save_gate(run, gate)
        embedder = Embedder.load(run)
        assert embedder.description == "vector"
        chosen = embedder.with_representation(similarity_join="gate")
        assert chosen.description == f"vector; similarity: vector, gate {gate.digest}"
        descriptions.append(embedder.with_representation(join="gate").description)
    assert results_name(descriptions[0]) == f"results.vector-gate-{random_gate(0).digest}.json"
    assert descriptions[0] != descriptions[1]


def test_a_run_that_goes_on_has_none(run):
    extend(extended(run, 2, None))
    train(extended(run, None, None), Console(quiet=True))
    assert not (run / GATE).exists()


def test_it_goes_where_the_run_goes(run, sentences, tmp_path):
    chosen = Embedder.load(run).with_representation(join="gate")
    stage(run, tmp_path / "staged")
    found = Embedder.load(tmp_path / "staged").with_representation(join="gate")
    np.testing.assert_array_equal(found.encode(sentences), chosen.encode(sentences))
    Embedder.load(run).save(tmp_path / "saved")
    assert (tmp_path / "saved" / GATE).read_bytes() == (run / GATE).read_bytes()


def test_a_joined_run_has_a_gate_over_its_members(trained, corpus, sentences, tmp_path):
    other = make_baseline("random", corpus, tmp_path / "random", None, {"views": ["seq"] * K, "hidden": D})
    joined = join_runs([trained, other], tmp_path / "joined", similarity_join="gate")
    embedder = Embedder.load(joined)
    members = embedder.encode_views(sentences)
    gate = random_gate(views=embedder.view_names, vectors=embedder.view_vectors, d=K * D)
    save_gate(joined, gate)
    chosen = Embedder.load(joined).for_similarity()
    expected = in_loops(gate, [view.astype(float).tolist() for view in members])
    np.testing.assert_allclose(chosen.encode(sentences), expected, atol=1e-6)
    np.testing.assert_allclose(SentenceEncoder(chosen)(sentences).detach(), expected, atol=1e-6)
    assert chosen.description == f"vector; members: gate {gate.digest}"
    given = Embedder.load(joined).with_representation(join="gate")
    assert [member.representation.join for member in given.members] == ["concatenation"] * 2
    np.testing.assert_allclose(given.encode(sentences), expected, atol=1e-6)
    with pytest.raises(InputError, match="fitted for the vectors vector, not mean: fit one"):
        given.with_representation(pooling="mean").encode(sentences)
    stage(joined, tmp_path / "staged")
    assert (tmp_path / "staged" / GATE).read_bytes() == (joined / GATE).read_bytes()


def test_a_members_own_gate_joins_its_views(run, trained, sentences, tmp_path):
    settings = (run / "config.toml").read_text()
    assert settings.count('\njoin = "concatenation"') == 1
    (run / "config.toml").write_text(settings.replace('\njoin = "concatenation"', '\njoin = "gate"'))
    joined = Embedder.load(join_runs([run, trained], tmp_path / "joined"))
    found = joined.encode(sentences)
    np.testing.assert_array_equal(found[:, :D], Embedder.load(run).encode(sentences))
    assert joined.description == f"vector, gate {random_gate().digest} | vector"
    module = SentenceEncoder(joined)
    np.testing.assert_allclose(module(sentences).detach(), found, atol=1e-6)


def test_its_digest_is_of_both_parts():
    gate = random_gate()
    other = replace(gate, bias=gate.bias + 1), replace(gate, matrix=gate.matrix + 1)
    assert len({gate.digest, *(each.digest for each in other)}) == 3
