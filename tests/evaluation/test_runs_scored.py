"""Runs of every kind through the eval command."""

import pytest
from corpora import small_config, topic_corpus
from typer.testing import CliRunner

from structviews.baselines import make_baseline
from structviews.cli import app
from structviews.evaluation.results import load_results, results_name
from structviews.joined import join_runs
from structviews.training import train


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    corpus = topic_corpus(folder / "x.parsed")
    trained = train(small_config(corpus, folder / "seq-avg", ("seq", "avg"), steps=2))
    encoders = {"views": ["seq", "avg"], "hidden": 8, "words_dim": 6}
    untrained = make_baseline("random", corpus, folder / "random", encoders=encoders)
    return [trained, untrained, join_runs([trained, untrained], folder / "joined", similarity_join="average")]


def test_supervised_and_similarity_tasks_get_their_own_vectors(runs, folder):
    command = ["eval", *map(str, runs), "--senteval", str(folder), "--partial", "--tasks", "MR,STS12"]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 0, ended.output
    flags = ["--pooling", "pooled", "--remove-component", "--normalise"]
    flags += ["--similarity-pooling", "mean", "--similarity-join", "average", "--transductive"]
    ended = CliRunner().invoke(app, [*command, *flags])
    assert ended.exit_code == 0, ended.output
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
