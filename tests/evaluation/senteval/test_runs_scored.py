"""Runs of every kind through the eval command."""

import shutil
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from corpora import load_random, small_config, topic_corpus
from shell import fails

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding import encoding_pool
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import join_runs
from structviews.encoding.preparation import Preparer
from structviews.encoding.sentence_vectors import read_sentences
from structviews.evaluation.scores.results import load_results, results_name
from structviews.evaluation.senteval import suite
from structviews.evaluation.senteval.suite import TaskEncoder, evaluate, read_tasks, task_vectors
from structviews.evaluation.senteval.task_scores import score_task
from structviews.parsing import pipeline
from structviews.parsing.backends import PARSERS
from structviews.training.baselines import make_baseline
from structviews.training.loop import train


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    corpus = topic_corpus(folder / "x.parsed")
    trained = train(small_config(corpus, folder / "seq-avg", ("seq", "avg"), steps=2))
    encoders = {"views": ["seq", "avg"], "hidden": 8, "word_dim": 6}
    untrained = make_baseline("random", corpus, folder / "random", encoders=encoders)
    return [trained, untrained, join_runs([trained, untrained], folder / "joined", similarity_join="average")]


@pytest.fixture
def refusal(command, tmp_path):
    return partial(fails, command, tmp_path)


def scores(run, name="results.json"):
    return {task: entry["scores"] for task, entry in load_results(run, name)["tasks"].items()}


def test_supervised_and_similarity_tasks_get_their_own_vectors(runs, folder, does):
    command = ["eval", *runs, "--senteval", folder, "--partial", "--tasks", "MR,STS12"]
    does(*command)
    flags = "--transductive task --pooling pooled --remove-component --normalise"
    flags += " --similarity-pooling mean --similarity-join average"
    does(*command, *flags.split())
    text = "pooled - pc (transductive), l2; similarity: mean - pc (transductive), l2, average"
    assert results_name(text) == ("results.pooled-pc-transductive-l2-similarity-mean-pc-transductive-l2-average.json")
    members = "; members: concatenation, similarity average"
    for run, more, width in zip(runs, ("", "", members), (1, 1, 2), strict=True):
        for name, dims, given in (("vector", [16 * width, 16], ""), (text, [56 * width, 8], f" {flags}")):
            found = load_results(run, "results.json" if name == "vector" else results_name(name + more))
            assert (found["representation"], found["flags"]) == (name + more, given)
            assert [found["tasks"][task]["dim"] for task in ("MR", "STS12")] == dims


def test_kiros_protocol_scales_each_encoder_and_covers_few_tasks(runs, folder, tmp_path, monkeypatch, does, refusal):
    run = runs[2]
    command = ["eval", run, "--senteval", folder, "--partial", "--protocol", "kiros", "--tasks"]
    does(*command, "MR,STS12", "--save-vectors", tmp_path)
    vectors = np.load(tmp_path / "joined.kiros.npy")
    own = Embedder.load(run).encode(list(read_sentences(tmp_path / "joined.kiros.txt"))).reshape(-1, 4, 8)
    directions = own / np.linalg.norm(own, axis=2, keepdims=True)
    np.testing.assert_allclose(vectors, directions.reshape(vectors.shape), atol=1e-5)
    found = load_results(run, "results.kiros.json")
    assert found["representation"] == Embedder.load(run).description
    assert found["protocol"]["vectors"] == "each encoder's scaled to length 1"
    assert (list(found["tasks"]), found["unavailable"]) == (["MR"], {"STS12": "the protocol kiros does not cover it"})
    monkeypatch.setattr(Embedder, "load", None)  # before anything is encoded
    assert refusal(*command, "STS12") == "error: STS12: the protocol kiros does not cover it: give other --tasks"


def test_sentences_are_cut_if_it_is_said(runs, folder, command):
    """Scores of cut sentences are no run's own."""
    flags = ["eval", runs[0], "--senteval", folder, "--partial", "--tasks", "MR,STS12", "--max-tokens", "2"]
    assert "words, but the limit is 2: split it, raise max_tokens (--max-tokens)" in command(*flags)[2]
    code, _, errors = command(*flags, "--overlong", "cut")
    assert (code, errors.count("sentences were cut to the first 2 words")) == (0, 1)
    found = load_results(runs[0], results_name("vector, cut to 2 words"))
    assert (found["representation"], found["flags"]) == ("vector, cut to 2 words", " --max-tokens 2 --overlong cut")


@pytest.mark.usefixtures("one_thread")  # several share a product, whose rounding then differs
def test_other_processes_and_blocks_change_nothing(runs, folder, tmp_path, monkeypatch, does):
    found = []
    for at_once, processes in ((4096, 1), (20, 1), (20, 2)):
        monkeypatch.setattr(suite, "SENTENCES_AT_ONCE", at_once)
        monkeypatch.setattr(suite, "processes_that_pay", lambda *given, n=processes: n)
        if processes == 2:  # all is left to the other one
            monkeypatch.setattr(encoding_pool.Task, "take", lambda self: False)
        out, none = tmp_path / str(len(found)), shutil.ignore_patterns("results*", "predictions*")
        run = shutil.copytree(runs[2], out / "run", ignore=none)
        command = ["eval", run, "--senteval", folder, "--partial", "--tasks", "MRPC,STS12,MR,STS-B-cos"]
        does(*command, "--save-vectors", out)
        saved = sorted(out.glob("*.npy"))
        assert len(saved) == 2  # those of similarity tasks are others
        texts = [file.with_suffix(".txt").read_text() for file in saved]
        found.append((scores(run), texts, [np.load(file) for file in saved]))
    (_, whole_texts, whole), (*one, vectors), (*other, others) = found
    assert one == other
    assert one[1] == whole_texts
    for unblocked, these, those in zip(whole, vectors, others, strict=True):
        np.testing.assert_array_equal(these, those)
        np.testing.assert_allclose(unblocked, these, atol=1e-6)


def test_an_ensemble_averages_the_predictions_of_the_runs_that_are_joined(runs, folder, does, refusal):
    *members, joined = runs
    command = ["--senteval", folder, "--partial", "--tasks", "TREC,STS12", "--ensemble"]
    does("eval", joined, *command)
    text = "vector; members: concatenation, similarity average, ensemble"
    found = load_results(joined, results_name(text))
    assert (found["representation"], found["flags"]) == (text, " --ensemble")
    tasks, _ = read_tasks(["TREC", "STS12"], folder, allow_partial=True)
    encoders = [TaskEncoder(partial(map, Embedder.load(run).encode)) for run in members]
    for task in tasks:
        vectors = [next(task_vectors(encoder, [task])) for encoder in encoders]
        assert found["tasks"][task.name]["scores"] == pytest.approx(score_task(task, vectors)["scores"], abs=1e-4)
    line = "error: --ensemble: gives members weights of its own: drop --view-weights"
    assert refusal("eval", joined, *command, "--view-weights", "0,1").startswith(line)
    assert "not a joined run" in refusal("eval", members[0], *command)


@pytest.fixture
def of_trees(tmp_path, monkeypatch):
    """A run of trees, whose parser is one that gives random ones."""
    monkeypatch.setitem(PARSERS._known, "random", load_random)
    return train(small_config(topic_corpus(tmp_path / "x.parsed"), tmp_path / "dep-avg", ("dep", "avg"), steps=2))


def test_tasks_are_parsed_once_for_machines_without_a_parser(of_trees, folder, probing, monkeypatch, does, command):
    tasks = ["SICK-E", "STS12", "STS-B-cos", "Tense"]
    which = ["--senteval", folder, "--probing", probing, "--tasks", ",".join(tasks)]
    does("eval", of_trees, *which, "--partial")
    expected = scores(of_trees)
    assert set(expected) == set(tasks)
    parsed = of_trees.parent / "tasks.parsed"
    parse = ["parse", *which, "--parser", "random", "-o", parsed]
    with monkeypatch.context() as interrupted:
        interrupted.setattr(pipeline, "write_manifest", Mock(side_effect=KeyboardInterrupt))
        assert command(*parse)[0] == 130
    shard = (parsed / "shard-00000.arrow").stat().st_mtime_ns
    does(*parse)
    assert (parsed / "shard-00000.arrow").stat().st_mtime_ns == shard
    tokens = [row.sentence.tokens for row in ParsedCorpus.open(parsed)]
    found, _ = read_tasks(tasks, folder, probing, allow_partial=True)
    assert tokens == list(dict.fromkeys(sentence for task in found for sentence in task.sentences()))
    monkeypatch.setattr(Preparer, "_resolve_parser", None)
    (of_trees / "results.json").unlink()
    does("eval", of_trees, *which, "--partial", "--parsed", parsed)
    assert scores(of_trees) == expected


def test_one_view_alone(of_trees, folder, does, refusal):
    command = ["eval", of_trees, "--senteval", folder, "--tasks", "MR,STS12", "--partial"]
    does(*command, "--view", "dep", "--similarity-pooling", "mean")
    text = "dep alone: vector; similarity: mean"
    alone = load_results(of_trees, results_name(text))
    assert (alone["representation"], alone["flags"]) == (text, " --view dep --similarity-pooling mean")
    assert [entry["dim"] for entry in alone["tasks"].values()] == [8, 8]
    embedder = Embedder.load(of_trees)
    expected = evaluate(lambda given: embedder.encode_views(given)[0], ["MR"], folder, allow_partial=True)
    assert alone["tasks"]["MR"]["scores"] == expected["tasks"]["MR"]["scores"]
    assert f"dep-avg ({text})" in " ".join(does("table", of_trees, "--format", "md").split())
    assert refusal(*command, "--view", "const") == f"error: {of_trees}: no view 'const': the run has dep, avg"


def test_kept_vectors_score_as_the_run_does(runs, folder, tmp_path, does, refusal):
    run, kept = Path(shutil.copytree(runs[0], tmp_path / "seq-avg")), tmp_path / "vec"
    command = ["--senteval", folder, "--tasks", "SICK-E,MR,STS12,SICK14", "--partial"]
    does("eval", run, *command, "--save-vectors", kept, "--similarity-pooling", "mean")
    stem = "seq-avg.vector-similarity-mean"
    expected = scores(run, "results.vector-similarity-mean.json")
    names = [f"{stem}{which}.{end}" for which in ("", ".similarity") for end in ("npy", "txt")]
    assert sorted(path.name for path in kept.iterdir()) == sorted(names)
    found, _ = read_tasks(["SICK-E", "MR"], folder, allow_partial=True)
    sentences = dict.fromkeys(sentence for task in found for sentence in task.sentences())
    assert list(read_sentences(kept / f"{stem}.txt")) == list(sentences)
    for which, tasks in (("", "SICK-E,MR"), (".similarity", "STS12,SICK14")):
        vectors, out = kept / f"{stem}{which}.npy", tmp_path / f"given{which}"
        does("eval", "--vectors", vectors, *command, "--tasks", tasks, "-o", out)
        assert scores(out) == {task: expected[task] for task in tasks.split(",")}
    line = refusal("eval", "--vectors", vectors, *command, "--tasks", "MR", "-o", out)
    assert "similarity.txt: 70 of 70 sentences of MR are missing" in line


def test_sentences_to_encode_elsewhere(folder, probing, encode, tmp_path, command, does, refusal):
    (folder / "MR/rt-polarity.pos").unlink()
    text, vectors, run = (tmp_path / name for name in ("x.txt", "x.npy", "run"))
    which = ["--senteval", folder, "--probing", probing, "--tasks", "HeadDistance,SST5,MR"]
    assert "skipping MR: " in command("tasks", "sentences", *which, "-o", text)[2]
    np.save(vectors, encode([tuple(line.split()) for line in text.read_text().splitlines()]))
    scoring = ["eval", "--vectors", vectors, *which, "--partial", "-o", run]
    assert "unknown task" in refusal(*scoring, "--tasks", "none")
    assert not run.exists()
    assert "MR unavailable" in does(*scoring)
    expected = evaluate(encode, ["HeadDistance", "SST5"], folder, probing=probing, allow_partial=True)["tasks"]
    assert scores(run) == {name: entry["scores"] for name, entry in expected.items()}
    header = does("table", run, "--format", "md").split("\n", 1)[0]
    assert header == r"| run | views | dim | MR | SST5 | HeadDistance |"


def test_commands_that_cannot_be(runs, folder, refusal):
    for typed, message in (
        ("eval RUN", "no tasks: give --senteval"),
        ("eval --senteval S", "nothing to score: name runs, or give --vectors"),
        ("eval --senteval S -o x", "--out: only goes with --vectors"),
        ("eval RUN --senteval S --partial --save-vectors x --remove-component --transductive task", "drop --trans"),
        ("parse", "nothing to parse: name a text, or give --senteval or --probing"),
        ("parse --senteval S --parser treebank", "parse the tasks' own tokens: give no text"),
        ("tasks sentences --senteval S -o no/x.txt", "no/x.txt: cannot be written: give --out"),
    ):
        named = {"RUN": runs[0], "S": folder}
        assert message in refusal(*(named.get(argument, argument) for argument in typed.split()))
