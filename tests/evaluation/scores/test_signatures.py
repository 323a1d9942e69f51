"""Signatures of scores: what they tell apart, and where they stand."""

import shutil

from structviews.evaluation.scores.results import load_results, save_results, signature
from structviews.evaluation.scores.tables import score_table
from structviews.evaluation.senteval.suite import evaluate


def entry(data="a", version="0.1", **scores):
    return {"scores": scores, "data": {"file": data}, "versions": {"structviews": version}, "partial": {}}


def test_scores_of_equal_signatures_can_be_compared():
    base = {"tasks": {"MR": entry(accuracy=70.0)}, "protocol": {"name": "senteval"}, "representation": "mean, l2"}
    line = signature(base, ["MR"])
    assert line.startswith("MR|data:")
    assert line.endswith("|protocol:senteval|scores:accuracy|precision:fp32|vectors:mean, l2|structviews:0.1")
    assert signature({**base, "tasks": {"MR": entry(accuracy=1.0)}}, ["MR"]) == line
    others = [
        {**base, "tasks": {"MR": entry(data="b", accuracy=70.0)}},
        {**base, "tasks": {"MR": entry(version="0.2", accuracy=70.0)}},
        {**base, "protocol": {"name": "kiros"}},
        {**base, "representation": "mean, l2, bf16"},
        {**base, "representation": "mean"},
    ]
    assert len({line, *(signature(other, ["MR"]) for other in others)}) == 6
    assert "|precision:bf16|vectors:mean, l2|" in signature(others[3], ["MR"])
    both = {**base, "tasks": {"MR": entry(accuracy=1.0), "SICK-R": entry(pearson=0.5, spearman=0.4)}}
    assert signature(both, ["MR", "SICK-R"]).startswith("2 tasks|data:")
    assert "|scores:accuracy, pearson|" in signature(both, ["MR", "SICK-R"])


def test_every_table_and_entry_has_one(run, folder, encode, tmp_path):
    runs = [shutil.copytree(run, tmp_path / name) for name in ("x", "y", "z")]
    for each, protocol in zip(runs, ("senteval", "senteval", "simcse"), strict=True):
        save_results(each, evaluate(encode, ["STS12", "STS-B"], folder, protocol=protocol, allow_partial=True))
    for task, found in load_results(runs[0])["tasks"].items():
        assert found["signature"] == signature(load_results(runs[0]), [task])
    lines = [line for line in score_table(runs).legend if line.startswith("signature of")]
    assert [line.partition(":")[0] for line in lines] == ["signature of x, y", "signature of z"]
    assert "|scores:pearson, pearson mean|" in lines[0]
    assert "protocol:simcse|scores:spearman all|" in lines[1]
