"""Runs with scores and logs."""

import pytest
from corpora import small_config, topic_corpus

from structviews.evaluation.scores.results import FORMAT, save_results
from structviews.report import projection
from structviews.report.page import write_report
from structviews.training.loop import train

TASKS = {
    "dep-const": {"MR": ("accuracy", 71.25, 70.05, 72.45), "STS14": ("pearson mean", 0.5151, 0.4949, 0.5353)},
    "seq-avg": {"MR": ("accuracy", 68.5, 67.3, 69.7), "STS14": ("pearson mean", 0.6262, 0.6061, 0.6464)},
}


@pytest.fixture(autouse=True, scope="session")
def _no_umap():
    """PCA, whether umap-learn is installed or not: it is slow, and its points are no oracle's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "find_spec", lambda name: None)
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A corpus, and two runs trained on it, with made-up scores."""
    folder = tmp_path_factory.mktemp("made")
    corpus = topic_corpus(folder / "x.parsed")
    runs = []
    for name, scores in TASKS.items():
        run = train(small_config(corpus, folder / name, tuple(name.split("-")), steps=4))
        tasks = {
            task: {"scores": {score: value}, "intervals": {score: [low, high]}, "partial": {}, "versions": {"x": "1.5"}}
            for task, (score, value, low, high) in scores.items()
        }
        results = {"format": FORMAT, "dim": 16, "protocol": {}, "representation": "vector", "flags": ""}
        save_results(run, results | {"tasks": tasks, "unavailable": {}})
        runs.append(run)
    return corpus, runs


@pytest.fixture(scope="session")
def labels(tmp_path_factory):
    """A label of three for each line of the corpus."""
    path = tmp_path_factory.mktemp("labels") / "labels"
    path.write_text("".join(f"kind {i % 3}\n" for i in range(96)))
    return path


@pytest.fixture(scope="session")
def page(trained, labels, tmp_path_factory):
    """The page about both runs."""
    out = tmp_path_factory.mktemp("page") / "report.html"
    write_report(trained[1], out, labels=labels)
    return out
