"""Runs of every kind through the eval command."""

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from corpora import load_random, small_config, topic_corpus
from typer.testing import CliRunner

from structviews.cli.app import app
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding import encoding_pool
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import join_runs
from structviews.encoding.preparation import Preparer
from structviews.encoding.sentence_vectors import read_sentences
from structviews.errors import InputError
from structviews.evaluation.scores.results import load_results, results_name
from structviews.evaluation.senteval import scoring, suite
from structviews.evaluation.senteval.suite import TaskEncoder, evaluate, read_tasks, task_vectors
from structviews.evaluation.senteval.task_scores import score_task
from structviews.parsing import pipeline
from structviews.parsing.backends import PARSERS
from structviews.training.baselines import make_baseline
from structviews.training.loop import train


def structviews(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeeds(*arguments):
    ended = structviews(*arguments)
    assert ended.exit_code == 0, ended.output
    return ended.output


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    corpus = topic_corpus(folder / "x.parsed")
    trained = train(small_config(corpus, folder / "seq-avg", ("seq", "avg"), steps=2))
    encoders = {"views": ["seq", "avg"], "hidden": 8, "word_dim": 6}
    untrained = make_baseline("random", corpus, folder / "random", encoders=encoders)
    return [trained, untrained, join_runs([trained, untrained], folder / "joined", similarity_join="average")]


def test_supervised_and_similarity_tasks_get_their_own_vectors(runs, folder):
    command = ["eval", *map(str, runs), "--senteval", str(folder), "--partial", "--tasks", "MR,STS12"]
    succeeds(*command)
    flags = ["--pooling", "pooled", "--remove-component", "--normalise"]
    flags += ["--similarity-pooling", "mean", "--similarity-join", "average", "--transductive"]
    succeeds(*command, *flags)
    text = "pooled - pc (transductive), l2; similarity: mean - pc (transductive), l2, average"
    assert results_name(text) == ("results.pooled-pc-transductive-l2-similarity-mean-pc-transductive-l2-average.json")
    members = "; members: concatenation, similarity average"
    for run, more, width in zip(runs, ("", "", members), (1, 1, 2), strict=True):
        own = load_results(run)
        assert (own["representation"], own["flags"]) == (f"vector{more}", "")
        assert [own["tasks"][task]["dim"] for task in ("MR", "STS12")] == [16 * width, 16]
        other = load_results(run, results_name(text + more))
        assert (other["representation"], other["flags"]) == (text + more, " " + " ".join(flags))
        assert [other["tasks"][task]["dim"] for task in ("MR", "STS12")] == [56 * width, 8]


def test_kiros_protocol_scales_the_vectors_of_each_encoder(runs, folder, tmp_path):
    command = ["eval", str(runs[2]), "--senteval", str(folder), "--partial", "--tasks", "MR", "--protocol", "kiros"]
    succeeds(*command, "--save-vectors", str(tmp_path))
    vectors = np.load(tmp_path / "joined.kiros.npy")
    np.testing.assert_allclose(np.linalg.norm(vectors.reshape(len(vectors), 4, 8), axis=2), 1, rtol=1e-5)
    own = Embedder.load(runs[2]).encode(list(read_sentences(tmp_path / "joined.kiros.txt")))
    directions = own.reshape(-1, 4, 8) / np.linalg.norm(own.reshape(-1, 4, 8), axis=2, keepdims=True)
    np.testing.assert_allclose(vectors, directions.reshape(own.shape), atol=1e-5)
    found = load_results(runs[2], "results.kiros.json")
    assert found["representation"] == Embedder.load(runs[2]).description
    assert found["protocol"]["vectors"] == "each encoder's scaled to length 1"


def test_tasks_that_a_protocol_does_not_cover_are_told_before_anything_is_encoded(runs, folder, monkeypatch):
    command = ["eval", str(runs[0]), "--senteval", str(folder), "--partial", "--protocol", "kiros", "--tasks"]
    succeeds(*command, "MR,STS12")
    found = load_results(runs[0], "results.kiros.json")
    assert (list(found["tasks"]), found["unavailable"]) == (["MR"], {"STS12": "the protocol kiros does not cover it"})
    monkeypatch.setattr(Embedder, "load", None)
    ended = structviews(*command, "STS12")
    assert isinstance(ended.exception, InputError)
    assert str(ended.exception) == "STS12: the protocol kiros does not cover it: give other --tasks"


def test_sentences_are_cut_if_it_is_said(runs, folder):
    """Scores of cut sentences are no run's own."""
    run = str(runs[0])
    command = ["eval", run, "--senteval", str(folder), "--partial", "--tasks", "MR,STS12", "--max-tokens", "2"]
    ended = structviews(*command)
    assert isinstance(ended.exception, InputError)
    assert "words, but the limit is 2: split it, raise max_tokens (--max-tokens)" in str(ended.exception)
    with pytest.warns(UserWarning, match="sentences were cut to the first 2 words") as told:
        ended = structviews(*command, "--overlong", "cut")
    assert (ended.exit_code, len(told)) == (0, 1)
    found = load_results(runs[0], results_name("vector, cut to 2 words"))
    assert (found["representation"], found["flags"]) == ("vector, cut to 2 words", " --max-tokens 2 --overlong cut")


@pytest.mark.usefixtures("one_thread")  # several share a product, whose rounding then differs
def test_other_processes_change_nothing(runs, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "SENTENCES_AT_ONCE", 20)
    found = []
    for processes in (1, 2):
        monkeypatch.setattr(scoring, "processes_that_pay", lambda *given, n=processes: n)
        if processes == 2:  # all is left to the other one
            monkeypatch.setattr(encoding_pool.Task, "take", lambda self: False)
        vectors, none = tmp_path / str(processes), shutil.ignore_patterns("results*", "predictions*")
        run = shutil.copytree(runs[2], vectors / "run", ignore=none)
        command = ["eval", str(run), "--senteval", str(folder), "--partial", "--tasks", "SICK-R,STS12,MR,STS-B-cos"]
        ended = structviews(*command, "--save-vectors", str(vectors))
        assert ended.exit_code == 0, ended.output
        saved = sorted(vectors.glob("*.npy"))
        scores = {name: entry["scores"] for name, entry in load_results(run)["tasks"].items()}
        found.append((scores, [file.with_suffix(".txt").read_text() for file in saved], list(map(np.load, saved))))
    (*one, vectors), (*other, others) = found
    assert one == other
    assert len(vectors) == 2  # those of similarity tasks are others
    for these, those in zip(vectors, others, strict=True):
        np.testing.assert_array_equal(these, those)


def vectors_of(task, embedder):
    return next(task_vectors(TaskEncoder(partial(map, embedder.encode)), [task]))


def test_an_ensemble_averages_the_predictions_of_the_runs_that_are_joined(runs, folder):
    *members, joined = runs
    command = ["eval", str(joined), "--senteval", str(folder), "--partial", "--tasks", "TREC,STS12", "--ensemble"]
    succeeds(*command)
    text = "vector; members: concatenation, similarity average, ensemble"
    found = load_results(joined, results_name(text))
    assert (found["representation"], found["flags"]) == (text, " --ensemble")
    tasks, _ = read_tasks(["TREC", "STS12"], folder, allow_partial=True)
    for task in tasks:
        vectors = [vectors_of(task, Embedder.load(run)) for run in members]
        assert found["tasks"][task.name]["scores"] == pytest.approx(score_task(task, vectors)["scores"], abs=1e-4)
    for flag in ("--view-weights", "--similarity-view-weights"):
        ended = structviews(*command, flag, "0,1")
        assert str(ended.exception).startswith("--ensemble: gives members weights of its own: drop --view-weights")
    ended = structviews("eval", members[0], *command[2:])
    assert "not a joined run" in str(ended.exception)


@pytest.fixture(scope="module")
def with_trees(tmp_path_factory):
    folder = tmp_path_factory.mktemp("with-trees")
    return train(small_config(topic_corpus(folder / "x.parsed"), folder / "dep-avg", ("dep", "avg"), steps=2))


@pytest.fixture
def random_parser(monkeypatch):
    """Random trees as a backend: that of the runs here."""
    monkeypatch.setitem(PARSERS._known, "random", load_random)


def scores(run, name="results.json"):
    return {task: entry["scores"] for task, entry in load_results(run, name)["tasks"].items()}


@pytest.fixture
def copied(with_trees, tmp_path):
    return Path(shutil.copytree(with_trees, tmp_path / "dep-avg"))


def test_tasks_are_parsed_once_for_machines_without_a_parser(copied, folder, probing, random_parser, monkeypatch):
    which = ["--senteval", folder, "--probing", probing, "--tasks", "SICK-E,STS12,STS-B-cos,Tense"]
    succeeds("eval", copied, *which, "--partial")
    expected = scores(copied)
    assert set(expected) == {"SICK-E", "STS12", "STS-B-cos", "Tense"}
    parsed = copied.parent / "tasks.parsed"
    parse = ["parse", *which, "--parser", "random", "-o", parsed]
    with monkeypatch.context() as interrupted:
        interrupted.setattr(pipeline, "write_manifest", interrupt)
        assert structviews(*parse).exit_code == 130
    shard = (parsed / "shard-00000.arrow").stat().st_mtime_ns
    succeeds(*parse)
    assert (parsed / "shard-00000.arrow").stat().st_mtime_ns == shard
    tokens = [row.sentence.tokens for row in ParsedCorpus.open(parsed)]
    found, _ = read_tasks(["SICK-E", "STS12", "STS-B-cos", "Tense"], folder, probing, allow_partial=True)
    assert tokens == list(dict.fromkeys(sentence for task in found for sentence in task.sentences()))
    monkeypatch.setattr(Preparer, "_resolve_parser", None)
    (copied / "results.json").unlink()
    succeeds("eval", copied, *which, "--partial", "--parsed", parsed)
    assert scores(copied) == expected
    ended = structviews("eval", copied, "--senteval", folder, "--tasks", "MR", "--partial", "--parsed", parsed)
    assert "70 of 70 sentences of MR are missing, such as 'a fine and moving film , n0'" in str(ended.exception)


def interrupt(*_):
    raise KeyboardInterrupt


def test_one_view_alone(copied, folder, random_parser):
    command = ["eval", copied, "--senteval", folder, "--tasks", "MR,STS12", "--partial"]
    succeeds(*command)
    succeeds(*command, "--view", "dep", "--similarity-pooling", "mean")
    text = "dep alone: vector; similarity: mean"
    alone = load_results(copied, results_name(text))
    assert (alone["representation"], alone["flags"]) == (text, " --view dep --similarity-pooling mean")
    assert [entry["dim"] for entry in alone["tasks"].values()] == [8, 8]
    assert [entry["dim"] for entry in load_results(copied)["tasks"].values()] == [16, 16]
    embedder = Embedder.load(copied)

    def first_view(sentences):
        return embedder.encode_views(sentences)[0]

    expected = evaluate(first_view, ["MR"], folder, allow_partial=True)["tasks"]["MR"]["scores"]
    assert alone["tasks"]["MR"]["scores"] == expected
    assert f"dep-avg ({text})" in " ".join(structviews("table", copied, "--format", "md").output.split())
    ended = structviews(*command, "--view", "const")
    assert str(ended.exception) == f"{copied}: no view 'const': the run has dep, avg"


def test_kept_vectors_score_as_the_run_does(runs, folder, tmp_path):
    run = Path(shutil.copytree(runs[0], tmp_path / "seq-avg"))
    command = ["--senteval", folder, "--tasks", "SICK-E,MR,STS12,SICK14", "--partial"]
    succeeds("eval", run, *command, "--save-vectors", tmp_path / "vec", "--similarity-pooling", "mean")
    stem = "seq-avg.vector-similarity-mean"
    expected = scores(run, "results.vector-similarity-mean.json")
    names = [f"{stem}{which}.{end}" for which in ("", ".similarity") for end in ("npy", "txt")]
    assert sorted(path.name for path in (tmp_path / "vec").iterdir()) == sorted(names)
    found, _ = read_tasks(["SICK-E", "MR"], folder, allow_partial=True)
    sentences = read_sentences(tmp_path / "vec" / f"{stem}.txt")
    assert list(sentences) == list(dict.fromkeys(sentence for task in found for sentence in task.sentences()))
    for which, tasks in (("", "SICK-E,MR"), (".similarity", "STS12,SICK14")):
        out = tmp_path / f"given{which}"
        vectors = tmp_path / "vec" / f"{stem}{which}.npy"
        succeeds("eval", "--vectors", vectors, *command, "--tasks", tasks, "-o", out)
        assert scores(out) == {task: expected[task] for task in tasks.split(",")}
    ended = structviews("eval", "--vectors", vectors, *command, "--tasks", "MR", "-o", out)
    assert "similarity.txt: 70 of 70 sentences of MR are missing" in str(ended.exception)


def test_sentences_to_encode_elsewhere(folder, probing, encode, tmp_path):
    (folder / "MR/rt-polarity.pos").unlink()
    text = tmp_path / "x.txt"
    which = ["--senteval", folder, "--probing", probing, "--tasks", "HeadDistance,SST5,MR"]
    assert "skipping MR: " in succeeds("tasks", "sentences", *which, "-o", text)
    np.save(tmp_path / "x.npy", encode([tuple(line.split()) for line in text.read_text().splitlines()]))
    given = ["eval", "--vectors", tmp_path / "x.npy", *which, "--partial", "-o", tmp_path / "run"]
    assert "unknown task" in str(structviews(*given, "--tasks", "none").exception)
    assert not (tmp_path / "run").exists()
    assert "MR unavailable" in succeeds(*given)
    expected = evaluate(encode, ["HeadDistance", "SST5"], folder, probing=probing, allow_partial=True)["tasks"]
    assert scores(tmp_path / "run") == {name: expected[name]["scores"] for name in ("HeadDistance", "SST5")}
    header = structviews("table", tmp_path / "run", "--format", "md").output.split("\n", 1)[0]
    assert header == r"| run | views | dim | MR | SST5 | HeadDistance |"


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("eval RUN", "no tasks: give --senteval"),
        ("eval --senteval S", "nothing to score: name runs, or give --vectors"),
        ("eval --senteval S -o x", "--out: only goes with --vectors"),
        ("eval RUN --senteval S --tasks Tense", "Tense is a probing task; give the folder"),
        ("eval RUN --senteval S --parsed nowhere", "nowhere does not exist: make a parsed corpus"),
        (
            "eval RUN --senteval S --partial --save-vectors x --remove-component --transductive",
            "drop --transductive",
        ),
        ("parse", "nothing to parse: name a text, or give --senteval or --probing"),
        ("parse --senteval S --parser treebank", "parse the tasks' own tokens: give no text"),
        (
            "tasks sentences --senteval RUN -o x.txt",
            "none of SentEval's tasks is in this folder: give the folder with MR/",
        ),
        ("tasks sentences --senteval S -o no/x.txt", "no/x.txt: cannot be written: give --out"),
    ],
)
def test_commands_that_cannot_be(typed, message, runs, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named = {"RUN": runs[0], "S": folder}
    ended = structviews(*(named.get(argument, argument) for argument in typed.split()))
    assert isinstance(ended.exception, InputError)
    assert message in str(ended.exception)
    assert "\n" not in str(ended.exception)
