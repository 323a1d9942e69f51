"""The development folder: in SentEval's format, and without test sentences."""

import sys

import pytest
from scripts_for_tests import load

from structviews.evaluation.senteval.suite import read_tasks

HALVES = ("MR/rt-polarity.pos", "MR/rt-polarity.neg", "SUBJ/subj.objective", "SUBJ/subj.subjective")
BENCHMARK, STS14 = "STS/STSBenchmark/sts-{}.csv", "STS/STS14-en-test/STS.input.images.txt"


@pytest.fixture
def senteval(tmp_path):
    """A folder in SentEval's format, with sentences that say where they come from."""
    files = {name: [f"{name} {i} ." for i in range(10)] for name in HALVES}
    files["TREC/train_5500.label"] = [f"NUM:x train {i} ?" for i in range(12)]
    files["TREC/TREC_10.label"] = ["NUM:x test ?"]
    for part, n in (("train", 12), ("trial", 3), ("test_annotated", 2)):
        rows = [f"{i}\t{part} {i}\tb {i}\t3.0\tNEUTRAL" for i in range(n)]
        files[f"SICK/SICK_{part}.txt"] = [
            "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment",
            *rows,
        ]
    for part, n in (("train", 12), ("dev", 4), ("test", 2)):
        files[BENCHMARK.format(part)] = [f"g\tf\ty\t{i}\t2.5\t{part} {i}\tb {i}" for i in range(n)]
    files[STS14] = ["B 2 !\tDev 2."]
    for name, lines in files.items():
        path = tmp_path / "senteval" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "senteval"


@pytest.fixture
def written(senteval, tmp_path, monkeypatch, capsys):
    out = tmp_path / "development"
    monkeypatch.setattr(sys, "argv", ["development_tasks.py", str(senteval), "-o", str(out)])
    load("development_tasks", monkeypatch).main()
    assert "sts-test.csv: 3 lines" in capsys.readouterr().out
    return out


def test_eval_reads_it_and_no_test_sentence_is_in_it(written):
    names = ["MR", "SUBJ", "TREC", "SICK-R", "SICK-E", "SICK14", "STS-B", "STS-B-cos"]
    tasks, missing = read_tasks(names, written, None, allow_partial=True)
    assert not missing
    found = {task.name: task for task in tasks}
    assert list(found) == names
    text = "\n".join(path.read_text() for path in written.rglob("*") if path.is_file())
    assert "test" not in text
    assert "trial 0" in text


def test_parts_share_no_sentence(written):
    for name, (kept, held_out) in {
        "trec": ("TREC/train_5500.label", "TREC/TREC_10.label"),
        "sts": (BENCHMARK.format("train"), BENCHMARK.format("dev")),
        "sick": ("SICK/SICK_train.txt", "SICK/SICK_test_annotated.txt"),
    }.items():
        one, other = ({*(written / file).read_text().splitlines()} for file in (kept, held_out))
        assert len(one ^ other) == 12, name
        assert len(one & other) == (name == "sick"), name  # its header


def test_pairs_of_sts_2014_are_left_out_whatever_their_order_and_punctuation(written):
    assert "dev 2" not in (written / BENCHMARK.format("test")).read_text()
    assert "dev 3" in (written / BENCHMARK.format("test")).read_text()
