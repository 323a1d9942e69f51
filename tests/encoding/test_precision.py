"""Vectors of bf16 against those of fp32, and that a chosen precision goes wherever the run goes."""

import copy
import pickle

import numpy as np
import pytest
import torch
from corpora import small_config, tiny_corpus

from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import Task, open_pool
from structviews.encoding.kinds import trained
from structviews.encoding.kinds.joined import JoinedEmbedder, join_runs
from structviews.encoding.representation import normalised
from structviews.errors import InputError
from structviews.runtime import device
from structviews.training.loop import train

TOKENS = [["a", "bird", "sings", "."], ["the", "tree", "is", "dead", "."], ["it"], ["a", "bird", "is", "dead"]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    corpus = tiny_corpus(folder / "x.parsed")
    kinds = {"seq": ("seq", "seq-uni"), "words": ("bow", "avg")}
    made = {name: train(small_config(corpus, folder / name, views, epochs=1)) for name, views in kinds.items()}
    return made | {"joined": join_runs(list(made.values()), folder / "joined"), "default": "default"}


@pytest.fixture(params=["seq", "words", "joined", "default"])
def run(runs, request):
    return runs[request.param]


def distances(vectors, others):
    return 1 - (normalised(vectors.astype(np.float64)) * normalised(others.astype(np.float64))).sum(axis=1)


def test_vectors_are_close_to_those_of_fp32(run):
    single, short = (Embedder.load(run, precision=each) for each in ("fp32", "bf16"))
    for pooling in ("vector", "mean", "pooled"):
        vectors, others = (each.with_representation(pooling=pooling).encode(TOKENS) for each in (single, short))
        assert others.dtype == np.float32
        # A distance of zero would mean that all was done in fp32.
        assert 1e-9 < distances(vectors, others).max() < 1e-3


def test_copies_and_pickles_keep_it(runs):
    embedder = Embedder.load(runs["joined"], precision="bf16")
    vectors = embedder.encode(TOKENS)
    others = [embedder.with_limit(max_tokens=9), embedder.with_representation(), embedder.with_view(embedder.views[0])]
    assert {each.precision for each in (*others, *embedder.members)} == {"bf16"}
    for each in (copy.deepcopy(embedder), pickle.loads(pickle.dumps(embedder)), embedder.for_similarity()):
        np.testing.assert_array_equal(each.encode(TOKENS), vectors)


def test_another_process_encodes_in_it(runs, monkeypatch):
    """Whatever the CPU multiplies, one of the two is not what a process would choose by itself."""
    monkeypatch.setattr(Task, "take", lambda task: False)
    short, single = (Embedder.load(runs["joined"], precision=each) for each in ("bf16", "fp32"))
    with open_pool(short, 2) as pool:
        for embedder, other in ((short, single), (single, short)):
            vectors = embedder.encode(TOKENS, pool=pool)
            np.testing.assert_array_equal(vectors, embedder.encode(TOKENS))
            assert not np.array_equal(vectors, other.encode(TOKENS))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_joined_run_has_the_precision_of_the_members_that_have_one(runs, runs_of_all_kinds, precision):
    members = [Embedder.load(runs_of_all_kinds["sif"]), Embedder.load(runs["seq"])]
    joined = JoinedEmbedder(members, ["sif", "seq"]).with_precision(precision)
    assert joined.members[0].description == "vector - pc"  # words without encoders have none
    assert joined.encodes_in == precision


@pytest.mark.parametrize("multiplies", [False, True])
def test_auto_is_what_the_cpu_multiplies(runs, monkeypatch, multiplies):
    monkeypatch.setattr(device, "multiplies_half", lambda _: multiplies)
    monkeypatch.setattr(trained, "encodes_in", device.encodes_in)
    embedder = Embedder.load(runs["words"])
    assert embedder.encodes_in == ("bf16" if multiplies else "fp32")
    assert ("bf16" in embedder.description) == multiplies
    explicit = Embedder.load(runs["words"], precision=embedder.encodes_in)
    np.testing.assert_array_equal(embedder.encode(TOKENS), explicit.encode(TOKENS))
    assert device.encodes_in("auto", torch.device("cuda")) == "fp32"


def test_an_unknown_precision_is_refused(runs, command):
    message = "unknown precision 'fp16': choose one of auto, fp32, bf16"
    with pytest.raises(InputError, match=message):
        Embedder.load(runs["words"], precision="fp16")
    code, _, errors = command("encode", runs["words"], __file__, "-o", "v.npy", "--skip-blank", "--precision", "fp16")
    assert code == 2
    assert message in errors
