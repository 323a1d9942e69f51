"""Context retrieval: who may be asked what, and the scores, against plain loops."""

import json
import shutil

import numpy as np
import pytest
from corpora import opened, small_config, topic_corpus, topic_rows, write_corpus
from shell import fails, refused

from structviews.batches.reader import held_out
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import join_runs
from structviews.evaluation.retrieval import next_sentence
from structviews.evaluation.scores.results import load_entries, save_entry
from structviews.runs.folder import model_checksum
from structviews.training.baselines import make_baseline
from structviews.training.loop import train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs with other held-out documents, an untrained one, and the join of the first two."""
    folder = tmp_path_factory.mktemp("context")
    corpus = topic_corpus(folder / "x.parsed", documents=40)
    for seed in (1, 2):
        train(small_config(corpus, folder / f"run-{seed}", ("seq", "avg"), steps=2, held_out=0.5, seed=seed))
    make_baseline("random", corpus, folder / "random", encoders={"views": ["seq", "avg"], "hidden": 8, "word_dim": 6})
    join_runs([folder / "run-1", folder / "run-2"], folder / "joined")
    return folder


def documents_of(corpus):
    return np.array([row.document for row in corpus])


def test_only_documents_that_no_run_was_trained_on_are_asked_about(folder):
    corpus = opened(folder / "x.parsed")
    documents = documents_of(corpus)
    first, second = (held_out(documents, seed, 0.5) for seed in (1, 2))
    assert (first & second).any()
    assert (first != second).any()
    for runs, free in (
        (["run-1"], first),
        (["run-2", "random"], second),
        (["run-1", "run-2"], first & second),
        (["joined"], first & second),
        (["random"], np.ones(len(documents), dtype=bool)),
    ):
        passages = next_sentence.read_passages([folder / run for run in runs], corpus, 10**6)
        assert passages.documents.tolist() == documents[free].tolist()
        assert passages.sentences == [corpus.sentence(i) for i in np.flatnonzero(free)]
        assert passages.positions.tolist() == [corpus.row(i).position for i in np.flatnonzero(free)]
        assert passages.chosen == ("all" if free.all() else "held out")


def test_what_a_run_began_with_was_trained_on_too_but_no_other_corpus(folder, tmp_path):
    corpus, documents = opened(folder / "x.parsed"), documents_of(opened(folder / "x.parsed"))
    settings = {"steps": 2, "held_out": 0.5, "seed": 2, "init_from": str(folder / "run-1")}
    later = train(small_config(folder / "x.parsed", tmp_path / "later", ("seq", "avg"), **settings))
    free = held_out(documents, 1, 0.5) & held_out(documents, 2, 0.5)
    assert next_sentence.unseen([later], corpus, documents).tolist() == free.tolist()
    other = opened(topic_corpus(tmp_path / "other.parsed", seed=5))
    assert next_sentence.unseen([later], other, documents_of(other)).all()


def test_the_corpus_is_that_of_the_runs(folder, tmp_path):
    runs = [folder / "run-1", folder / "random", folder / "joined"]
    assert next_sentence.corpus_of(runs) == folder / "x.parsed"
    other = train(small_config(topic_corpus(tmp_path / "y.parsed"), tmp_path / "run", ("seq", "avg"), steps=1))
    named = f"{folder / 'x.parsed'}, {tmp_path / 'y.parsed'}"
    assert f"several corpora ({named}): give one with --corpus" in refused(next_sentence.corpus_of, [*runs, other])


@pytest.mark.parametrize("most", [1, 9, 100, 1000])
def test_whole_documents_are_drawn(folder, most):
    corpus = opened(folder / "x.parsed")
    documents, chosen = documents_of(corpus), next_sentence.read_passages([folder / "random"], corpus, most).documents
    assert all((documents == each).sum() == (chosen == each).sum() for each in set(chosen))
    assert 0 < len(chosen) <= most or len(set(chosen)) == 1
    assert (len(chosen) == len(corpus)) == (most == 1000)


def test_scores_are_those_of_plain_loops(folder):
    passages = next_sentence.read_passages([folder / "run-1"], opened(folder / "x.parsed"), 10**6)
    trials = passages.trials(20)
    embedder = Embedder.load(folder / "run-1")
    scores = next_sentence.measure(embedder, passages, trials, lambda done, total: None)
    vectors = embedder.encode(passages.sentences).astype(np.float64)
    lengths, ranks = np.linalg.norm(vectors, axis=1), []
    for anchor, candidates in zip(trials.anchors, trials.candidates, strict=True):
        cosines = [vectors[anchor] @ vectors[c] / lengths[anchor] / lengths[c] for c in candidates]
        ranks.append(1 + sum(cosine > cosines[0] for cosine in cosines))
    assert scores.dim == 16
    expected = {f"recall@{k}": np.mean([rank <= k for rank in ranks]) for k in (1, 5, 10)}
    expected["mean reciprocal rank"] = np.mean([1 / rank for rank in ranks])
    assert {name: share.value for name, share in scores.shares.items()} == pytest.approx(expected, abs=1e-3)
    assert all(share.low < share.value < share.high for share in scores.shares.values())
    assert scores.median_rank == pytest.approx(np.median(ranks), abs=1)


def test_the_command_asks_all_runs_the_same_and_keeps_the_scores(folder, does):
    runs = [folder / name for name in ("run-1", "joined", "random")]
    for flags in ([], ["--similarity"], []):
        printed = does("tasks", "retrieval", *runs, "--candidates", 20, *flags)
    assert "Next sentence among 20" in printed
    entries = [load_entries(run, model_checksum(run)) for run in runs]
    assert [len(each) for each in entries] == [1, 1, 1]  # the same vectors, so the same entry
    assert len({json.dumps(each[0]["settings"]) for each in entries}) == 1
    assert entries[0][0]["settings"]["documents"] == "held out"
    shares = {"recall@1", "recall@5", "recall@10", "mean reciprocal rank"}
    assert entries[0][0]["scores"].keys() == {*shares, "median rank"}


def test_entries_of_other_weights_are_dropped(folder, tmp_path):
    run = shutil.copytree(folder / "run-1", tmp_path / "run")
    (run / "retrieval.json").unlink(missing_ok=True)
    entry = {"task": "context", "data": "a", "representation": "vector", "settings": {"n": 1}, "scores": {"x": 1}}
    others = [entry | {"data": "b"}, entry | {"scores": {"x": 2}}]
    for each in (entry, *others):
        save_entry(run, each)
    assert load_entries(run, model_checksum(run)) == others
    shutil.copy(folder / "run-2" / "model.safetensors", run)
    save_entry(run, entry)
    assert load_entries(run, model_checksum(run)) == [entry]


def test_bad_input_is_one_line_before_anything_is_encoded(folder, tmp_path, monkeypatch, command):
    monkeypatch.delattr(next_sentence, "measure")
    few = write_corpus(tmp_path / "few.parsed", topic_rows(documents=2, sentences=3))
    one = write_corpus(tmp_path / "one.parsed", topic_rows(documents=1, sentences=40))
    for flags, message in (
        (("--candidates", 1), "Invalid value for '--candidates'"),
        (("--corpus", few), "6 held-out sentences are too few to draw 19 candidates"),
        (("--corpus", one), "all 39 sentences to ask about (all) are in one document, and intervals need two"),
        (("--corpus", tmp_path), "is not a parsed corpus"),
    ):
        assert message in fails(command, tmp_path, "tasks", "retrieval", folder / "run-1", *flags)
    monkeypatch.setattr(next_sentence, "held_out", lambda documents, *_: np.zeros(len(documents), dtype=bool))
    said = refused(next_sentence.read_passages, [folder / "run-1"], opened(folder / "x.parsed"), 10)
    assert "x.parsed: the runs were trained on all its documents: give another" in said


def test_small_corpora_get_fewer_candidates(folder, tmp_path, command):
    corpus = write_corpus(tmp_path / "small.parsed", topic_rows(documents=10, sentences=7))
    for flags, candidates in (((), 50), (("--candidates", 60), 60)):
        _, printed, errors = command("tasks", "retrieval", folder / "run-1", "--corpus", corpus, *flags)
        assert ("only 70 sentences (all): 50 candidates each" in " ".join((printed + errors).split())) == (not flags)
        assert f"Next sentence among {candidates}" in printed
