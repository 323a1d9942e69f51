"""Encoders through tasks, the tasks' trees from a parsed corpus, and what ``results.json`` keeps."""

import json
import warnings
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import test_tables
from corpora import RandomParser, random_trees, topic_rows, write_corpus
from shell import refused

from structviews.corpus.layout import Row
from structviews.evaluation.scores.results import load_predictions, load_results, save_results
from structviews.evaluation.senteval import suite
from structviews.evaluation.senteval.suite import TaskEncoder, evaluate, read_tasks, results_of, task_vectors
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks import TASKS
from structviews.runs.folder import model_checksum
from structviews.runtime.documents import write_json
from structviews.runtime.seals import write_arrays


@pytest.fixture
def run(tmp_path):
    return test_tables.make_run(tmp_path, "dep-const", ["dep", "const"])


def test_every_task_is_scored(folder, encode):
    results = evaluate(encode, list(TASKS), folder, allow_partial=True)
    predictions = results.pop("predictions")
    json.dumps(results, allow_nan=False)
    assert (results["dim"], results["unavailable"]) == (20, {})
    assert list(results["tasks"]) == list(predictions) == list(TASKS)
    scores = {name: entry["scores"] for name, entry in results["tasks"].items()}
    assert min(scores[name]["accuracy"] for name in ("MR", "CR", "SUBJ", "MPQA", "SST2")) > 95
    assert scores["TREC"]["accuracy"] > 90
    assert set(scores["MRPC"]) == {"accuracy", "f1"}
    assert scores["SICK-R"]["pearson"] > 0.9
    assert set(scores["STS-B"]) == {"pearson", "spearman", "mse"}
    assert len(results["tasks"]["STS16"]["sets"]) == 5
    for name, entry in results["tasks"].items():
        assert entry["partial"], name
        assert all(len(checksum) == 64 for checksum in entry["data"].values())
        assert set(entry["seconds"]) == {"encoding", "scoring"}
        assert entry["intervals"].keys() == entry["scores"].keys()
        for score, (low, high) in entry["intervals"].items():
            assert low <= entry["scores"][score] + 1e-9 <= high + 2e-9, (name, score)
        for part, (predicted, gold) in predictions[name].items():
            assert len(predicted) == len(gold) == entry["examples"][part]


def test_each_distinct_sentence_is_encoded_once_and_goes_to_its_place(folder, probing, encode, monkeypatch):
    monkeypatch.setattr(suite, "SENTENCES_AT_ONCE", 7)
    tasks, _ = read_tasks(["SICK-R", "MRPC", "Tense", "SICK-E", "STS12", "MR"], folder, probing, allow_partial=True)
    calls = []
    encoder = TaskEncoder(lambda blocks: (calls.append(block) or encode(block) for block in blocks))
    for task, vectors in zip(tasks, task_vectors(encoder, tasks), strict=True):
        for split, each in task.splits.items():
            for sentences, found in zip((each.first, each.second), vectors[split], strict=True):
                np.testing.assert_array_equal(found, encode(sentences).reshape(-1, 20))
    seen = [sentence for call in calls for sentence in call]
    assert len(seen) == len(set(seen)) < sum(len(task.sentences()) for task in tasks)
    assert max(map(len, calls)) == 7


def test_transductive_vectors_see_the_whole_task_and_nothing_else(folder, encode):
    tasks = ["SICK-R", "MR", "SICK14"]
    found, _ = read_tasks(tasks, folder, allow_partial=True)
    splits = [examples for task in found for examples in task.splits.values()]
    sides = [list(side) for each in splits for side in (each.first, each.second) if side]
    scores = []
    for transductive, expected in (("task", [task.sentences() for task in found]), ("part", sides)):
        recording = Mock(side_effect=encode)
        made = evaluate(recording, tasks, folder, transductive=transductive, allow_partial=True)
        assert [sentences for (sentences,), _ in recording.call_args_list] == expected
        scores.append({name: each["scores"] for name, each in made["tasks"].items()})
    assert scores[0] == scores[1]  # of an encoder that heeds no other sentence


@pytest.mark.parametrize(("protocol", "scales"), [("kiros", True), ("senteval", False)])
def test_kiros_protocol_scales_the_vectors_of_any_encoder(protocol, scales, folder, encode):
    def longer(sentences):
        return encode(sentences) * np.arange(1, len(sentences) + 1)[:, None]

    made = [evaluate(each, ["MRPC"], folder, protocol=protocol, allow_partial=True) for each in (encode, longer)]
    assert (made[0]["tasks"]["MRPC"]["dev"] == made[1]["tasks"]["MRPC"]["dev"]) == scales


def test_a_task_without_a_score_is_unavailable_and_the_others_run(folder):
    def constant(sentences):
        return np.ones((len(sentences), 4), dtype=np.float32)

    (folder / "TREC/TREC_10.label").unlink()
    results = evaluate(constant, ["STS12", "TREC", "SICK-R", "MR"], folder, allow_partial=True)
    assert list(results["tasks"]) == ["MR"]
    assert results["unavailable"]["STS12"].startswith("STS12: the correlation of 9 scores is undefined")
    assert "undefined" in results["unavailable"]["SICK-R"]
    assert "TREC_10.label: no such file or directory" in results["unavailable"]["TREC"]
    assert "nowhere: no such folder" in refused(evaluate, constant, ["MR"], folder / "nowhere")


def test_vectors_that_are_none_stop_the_evaluation(folder, one_line):
    for vectors, message in (
        (np.zeros((69, 4)), r"MR: vectors of shape \(69, 4\) for 70 sentences"),
        (np.zeros(70), r"MR: vectors of shape \(70,\) for 70"),
        (np.full((70, 4), np.nan), "MR: 70 of 70 vectors .*infinite.* 'a fine"),
    ):
        with one_line(message):
            evaluate(lambda sentences, found=vectors: found, ["MR"], folder, allow_partial=True)


def test_results_are_merged_with_those_of_the_same_model_and_protocol(run, folder, encode):
    assert load_results(run) is None
    made = evaluate(encode, ["MR", "CR"], folder, allow_partial=True)
    first = save_results(run, made)
    assert first["model"] == model_checksum(run)
    for file in ("CR/custrev.pos", "MPQA/mpqa.pos"):
        (folder / file).unlink()
    more = evaluate(encode, ["SUBJ", "CR", "MPQA"], folder, allow_partial=True)
    save_results(run, more)
    stored = load_results(run)
    assert set(stored["tasks"]) == {"MR", "CR", "SUBJ"}
    assert set(stored["unavailable"]) == {"MPQA"}
    assert stored["tasks"]["MR"] == first["tasks"]["MR"]
    files = ["config.toml", "model.safetensors", "predictions.safetensors", "results.json"]
    assert sorted(path.name for path in run.iterdir()) == files
    predictions, expected = load_predictions(run, stored), made["predictions"] | more["predictions"]
    assert set(predictions) == set(expected)
    for name, parts in expected.items():
        np.testing.assert_array_equal(predictions[name]["all"], parts["all"])
    # Others are dropped.
    save_results(run, more | {"protocol": {**more["protocol"], "seed": 1}})
    assert set(load_results(run)["tasks"]) == {"SUBJ"}
    save_results(run, made | {"representation": "mean"})
    assert set(load_results(run)["tasks"]) == {"MR", "CR"}
    write_arrays(run / "model.safetensors", {}, {"name": "other weights"})
    save_results(run, more | {"representation": "mean"})
    assert set(load_results(run)["tasks"]) == {"SUBJ"}


def test_predictions_that_are_not_of_these_results_are_not_given(run, folder, encode):
    results = evaluate(encode, ["MR"], folder, allow_partial=True)
    results["predictions"]["OURS"] = {"en/es": (np.ones(2), np.ones(2))}
    save_results(run, results)
    save_results(run, results | {"representation": "mean"}, "results.mean.json")
    own, other = run / "predictions.safetensors", run / "predictions.mean.safetensors"
    assert other.read_bytes() == own.read_bytes()
    write_arrays(own, {"MR/test/predicted": np.zeros(3), "MR/test/gold": np.zeros(3)})
    assert load_predictions(run, load_results(run)) == {}
    own.write_bytes(other.read_bytes()[:-1] + b"x")
    assert "predictions.safetensors: damaged" in refused(load_predictions, run, load_results(run))
    found = load_predictions(run, load_results(run, "results.mean.json"), "results.mean.json")
    assert {task: list(parts) for task, parts in found.items()} == {"MR": ["all"], "OURS": ["en/es"]}


def test_bad_run_folders(run):
    write_json(run / "results.json", {"format": 7})
    assert "Invalid enum value 7 - at" in refused(save_results, run, results_of())
    assert "not a run: it has no model.safetensors" in refused(save_results, run.parent, results_of())


# Each sentence stands twice.
ROWS = topic_rows(5, 5) * 2


def reads(*needs, version="1"):
    """What of an embedder the trees must suit."""
    return Mock(needs={"tokens", *needs}, parsers=[RandomParser(version=version).describe()])


@pytest.fixture
def trees(tmp_path):
    return TaskTrees(write_corpus(tmp_path / "x.parsed", ROWS, shard_size=6))


def test_sentences_are_found_in_the_order_asked_for_and_what_is_missing_is_one_line(trees):
    sentences = [row.sentence for row in ROWS[:25]]
    # In any order, more than once, none, and each alone, also the first and the last of a shard.
    for wanted in (sentences[::-3], sentences[:1] * 2, [], *([each] for each in sentences)):
        assert trees.find([sentence.tokens for sentence in wanted]) == wanted
    said = refused(trees.check, [sentences[0].tokens, ("no", "one"), ("none",)], "MR")
    assert "x.parsed: 2 of 3 sentences of MR are missing, such as 'no one': parse" in said


def test_trees_of_another_parser_or_kind(trees, tmp_path):
    with pytest.warns(UserWarning, match="parsed with random 1, but the run was trained on trees of random 2"):
        trees.suit(reads("dependency", version="2"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trees.suit(reads("dependency", "constituency"))
    bare = replace(random_trees(["a", "b"]), left=(), right=(), labels=())
    trees = TaskTrees(write_corpus(tmp_path / "bare.parsed", [Row(0, 0, 1, bare)]))
    trees.suit(reads("dependency"))
    said = refused(trees.suit, reads("dependency", "constituency"))
    assert "bare.parsed has no constituency trees (parser random)" in said
