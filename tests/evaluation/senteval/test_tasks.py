"""Readers: exact counts on the real files, and one line with file and line for every bad one."""

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from shell import refused

from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.downstream import STS_SETS
from structviews.evaluation.senteval.tasks.finding import STRUCTURE, known_tasks, probing_files, read_task, tasks_in
from structviews.evaluation.senteval.tasks.reading import PUBLISHED


def test_real_contents(shared_senteval):
    def read(name):
        return read_task(name, shared_senteval)

    assert read("MR").splits["all"].first[0][:4] == ("the", "rock", "is", "destined")
    data = (shared_senteval / "MR/rt-polarity.pos").read_bytes()
    assert read("MR").checksums["MR/rt-polarity.pos"] == hashlib.sha256(data).hexdigest()
    trec = read("TREC").splits["train"]
    assert " ".join(trec.first[0]) == "How did serfdom develop in and then leave Russia ?"
    assert trec.targets[:3].tolist() == [1, 2, 1]
    entailment = read("SICK-E").splits["test"]
    assert entailment.second[0][-1] == "background"
    assert Counter(entailment.targets.tolist()) == {0: 720, 1: 2793, 2: 1414}
    relatedness, similarity = read("SICK-R").splits["test"], read("SICK14").splits["test"]
    assert relatedness.targets[:2].tolist() == [3.3, 3.7]
    assert similarity.first == relatedness.first
    benchmark = read("STS-B").splits["dev"]
    assert " ".join(benchmark.first[0]) == "a man with a hard hat is dancing ."
    assert (benchmark.targets.min(), benchmark.targets.max()) == (0, 5)
    for name, counts in {
        "MR": {"all": 10662},
        "TREC": {"train": 5452, "test": 500},
        "SICK-R": {"train": 4500, "dev": 500, "test": 4927},
        "STS-B": {"train": 5749, "dev": 1500, "test": 1379},
        "STS-B-cos": {"test": 1379},
        "STS14": STS_SETS["STS14"],
    }.items():
        task = read(name)
        assert {split: len(examples) for split, examples in task.splits.items()} == counts
        assert not task.partial
    assert sum(STS_SETS["STS12"].values()) == 3108


def edit(line: int, new: str):
    """Replace a line (1-based)."""

    def change(data: bytes) -> bytes:
        lines = data.split(b"\n")
        lines[line - 1] = new.encode("latin-1")
        return b"\n".join(lines)

    return change


@pytest.mark.parametrize("name", [*TASKS])
def test_every_reader_on_a_small_folder(name, folder):
    task = read_task(name, folder, allow_partial=True)
    assert task.name == name
    for examples in task.splits.values():
        assert task.choices * len(examples.targets) == len(examples.first)
        assert len(examples.second) in (0, len(examples.first))
        whole = task.kind in ("classification", "structure")
        assert examples.targets.dtype == (np.int64 if whole else np.float64)
        for sentence in (*examples.first, *examples.second):
            assert sentence
            assert not any(c.isspace() for token in sentence for c in token)
    assert set(task.checksums) >= set(task.partial)
    assert all(name in PUBLISHED for name in task.partial)


def test_contents_of_a_small_folder(folder):
    def read(name):
        return read_task(name, folder, True)

    assert ("Where", "is", "München", "?") in read("TREC").splits["train"].first
    assert set(read("SICK-E").splits["test"].targets.tolist()) == {0, 1, 2}  # CRLF line ends
    fine = read("SST5").splits["train"]
    assert fine.first[1:3] == (("very", "fine", "n1"), ("very", "very", "fine", "n2"))
    assert fine.targets[:6].tolist() == [0, 1, 2, 3, 4, 0]
    inference = read("SNLI")
    assert (inference.inference, inference.partial["SNLI/s1.train"]) == (True, "40 of 549,367 examples")
    assert inference.splits["dev"].first[1] == ("the", "café", "n1", "runs")
    assert inference.splits["dev"].second[:3] == (("the", "n0", "runs"), ("some", "n1", "runs"), ("no", "n2", "runs"))
    assert inference.splits["dev"].targets[:4].tolist() == [0, 1, 2, 0]
    supervised, cosine = read("STS-B"), read("STS-B-cos")
    assert (supervised.kind, cosine.kind, list(cosine.splits)) == ("relatedness", "similarity", ["test"])
    assert cosine.splits["test"].targets.tolist() == supervised.splits["test"].targets.tolist()


def test_small_differences(folder):
    year = read_task("STS12", folder, True)
    assert len(year.splits["MSRpar"]) == 9  # one of ten pairs has no score
    distinct = [s for each in year.splits.values() for s in (*each.first, *each.second)]
    assert year.sentences() == list(dict.fromkeys(distinct))
    scores, texts = (folder / f"STS/STS12-en-test/STS.{part}.MSRpar.txt" for part in ("gs", "input"))
    scores.write_bytes(scores.read_bytes().replace(b"\n", b"\r\n"))
    texts.write_text(texts.read_text().replace("the n0 runs", "the\u2028n0\x85runs"))  # only a newline ends a line
    changed = read_task("STS12", folder, True).splits["MSRpar"]
    assert (len(changed), changed.first[0]) == (9, ("the", "n0", "runs"))
    for part in ("input", "gs"):  # a set that SentEval lacks
        there = folder / f"STS/STS13-en-test/STS.{part}.OnWN.txt"
        there.with_name(f"STS.{part}.SMT.txt").write_bytes(there.read_bytes())
    assert [*read_task("STS13", folder, True).splits] == ["FNWN", "headlines", "OnWN", "SMT"]
    path = folder / "MR/rt-polarity.pos"
    path.write_text("\n" + path.read_text())
    assert read_task("MR", folder, True).splits["all"].first[0] == (".",)


def test_probing_tasks(probing):
    assert probing_files(probing) == {"Tense": "past_present.txt", "HeadDistance": "head_distance.txt"}
    tense = read_task("Tense", None, probing=probing)
    assert {split: len(examples) for split, examples in tense.splits.items()} == {"train": 30, "dev": 10, "test": 12}
    assert tense.splits["test"].first[1] == ("she", "runs", "to", "n1", ".")
    assert tense.splits["test"].targets[:3].tolist() == [0, 1, 0]
    assert list(tense.checksums) == ["past_present.txt"]
    # The sentence is in the last column, whatever stands between.
    own = read_task("HeadDistance", None, probing=probing).splits["dev"]
    assert own.first[:2] == (("away", "n0"), ("far", "away", "n1"))
    # Labels are numbered as sorted strings.
    path = probing / "head_distance.txt"
    path.write_text(path.read_text().replace("\t0\t", "\t10\t").replace("\t1\t", "\t2\t"))
    assert read_task("HeadDistance", None, probing=probing).splits["train"].targets[:3].tolist() == [0, 1, 1]
    # Of pairs, both sentences are.
    rows = [f"{part}\t{('FAR', 'NEAR')[i % 2]}\tone {i}\ttwo {i}" for part in ("tr", "va", "te") for i in range(3)]
    (probing / "tree_edit.txt").write_text("\n".join(rows))
    dev = read_task("TreeEdit", None, probing=probing).splits["dev"]
    assert dev.first == (("one", "0"), ("one", "1"), ("one", "2"))
    assert dev.second == (("two", "0"), ("two", "1"), ("two", "2"))
    assert dev.targets.tolist() == [0, 1, 0]


def test_folders_that_have_no_such_task(folder, probing, tmp_path, one_line):
    for name, senteval, other, message in (
        ("Tense", folder, None, r"Tense is a probing task; give .* --probing"),
        ("MR", None, probing, r"MR is one of SentEval's tasks; give .* --senteval"),
        ("Depth", folder, probing, r"unknown task 'Depth': choose one of .* SICK14, .* Tense, HeadDistance"),
        ("Tense", None, tmp_path / "nowhere", "nowhere: no such file or directory; give a folder of probing tasks"),
        ("Tense", None, folder, r"senteval: no .txt files; give a folder of probing tasks"),
    ):
        with one_line(message):
            read_task(name, senteval, probing=other)
    (probing / "MR.txt").touch()
    assert "MR.txt: MR is the name of another task; rename the file" in refused(probing_files, probing)


TENSE = "past_present.txt"


@pytest.mark.parametrize(
    ("name", "file", "change", "message"),
    [
        ("MR", "MR/rt-polarity.pos", None, r"rt-polarity.pos: no such file or directory; add the file"),
        ("MR", "MR/rt-polarity.neg", lambda data: b"", r"rt-polarity.neg:1: no examples"),
        ("MR", "MR/rt-polarity.pos", lambda data: data.decode().encode("utf-16"), r"rt-polarity.pos:1: a zero byte"),
        ("SST2", "SST/binary/sentiment-dev", edit(3, "d\xe9j\xe0 vu\t1"), r"sentiment-dev:3: byte \d+ is not UTF-8"),
        ("SST5", "SST/fine/sentiment-dev", edit(2, "5 a film"), r"sentiment-dev:2: label '5' is not one of 0, 1, 2, 3"),
        ("SNLI", "SNLI/s2.dev", lambda data: data[:-14], r"SNLI/s2.dev:39: 39 lines, but 40 in s1.dev; "),
        ("TREC", "TREC/train_5500.label", edit(5, "How far ?"), r"train_5500.label:5: not of the form"),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", edit(7, "1\t2\t3\tone"), r"test.txt:7: 4 tab-separated col"),
        ("SICK-R", "SICK/SICK_trial.txt", edit(2, "1\ta\tb\t5.1\tNEUTRAL"), r"trial.txt:2: score '5.1' .* from 1 to 5"),
        ("STS14", "STS/STS14-en-test/STS.gs.OnWN.txt", edit(3, "6.0"), r"gs.OnWN.txt:3: score '6.0' .* from 0 to 5"),
        ("Tense", TENSE, edit(1, "tr\tPAST"), r"past_present.txt:1: 2 tab-separated columns, not 3; fix"),
        ("Tense", TENSE, edit(2, "dev\tPAST\tx"), r"present.txt:2: part 'dev' is not one of tr, va, te; correct it"),
        ("Tense", TENSE, edit(50, "te\tFUTURE\tx"), r"past_present.txt:50: label 'FUTURE' .* part 'tr'; correct it"),
        ("Tense", TENSE, lambda data: data[: data.index(b"te\t")], r"present.txt:40: no lines of part 'te'; download"),
        ("Tense", TENSE, lambda data: data.replace(b"PRES", b"PAST"), r"only one class, 'PAST'; a task needs"),
    ],
)
def test_bad_files_are_named_with_their_line(name, file, change, message, folder, probing, one_line):
    path = (probing if file == TENSE else folder) / file
    if change:
        path.write_bytes(change(path.read_bytes()))
    else:
        path.unlink()
    with one_line(message) as caught:
        read_task(name, folder, allow_partial=True, probing=probing)
    assert str(path.parent) in str(caught.value)


def test_tasks_of_structure_are_a_folder_of_their_own(folder):
    """Pairs of a caption, its paraphrase and a third; of a sentence and three others; running text is tokenised."""
    alone = Path(__file__).resolve().parents[3] / "data" / "structure"
    names = list(STRUCTURE)
    assert tasks_in(alone) == names == known_tasks(["Structure"], alone)
    assert {*names, "MR"} <= {*tasks_in(folder)}
    (folder / "semantoneg.tsv").unlink()
    assert "SemAntoNeg" not in tasks_in(folder)
    first = read_task("swap_obj", alone, True).splits["test"]
    caption, paraphrase, negative = first.first[0], first.second[0], first.second[1]
    assert caption[:6] == ("A", "vase", "with", "purple", "iris", "'s")
    assert (first.first[1], first.first[2], first.second[2]) == (caption, paraphrase, negative)
    row = (alone / "semantoneg.tsv").read_text("utf-8").split("\n")[1].split("\t")
    other = read_task("SemAntoNeg", alone, True).splits["test"]
    assert (len(other), len(other.first), other.targets[0]) == (20, 60, int(row[-1]))
    assert ["".join(each) for each in other.second[:3]] == [text.replace(" ", "") for text in row[1:4]]
    for name, (file, published) in STRUCTURE.items():
        task = read_task(name, alone, True)
        assert task.partial == {file: f"{len(task.splits['test'])} of {published:,} examples"}


def test_a_file_cut_short_is_refused_unless_asked_for(folder):
    assert "rt-polarity.pos:40: the file ends after 40 of 5,331 examples" in refused(read_task, "MR", folder)
    found = {f"MR/rt-polarity.{name}": f"{n} of 5,331 examples" for name, n in (("pos", 40), ("neg", 30))}
    assert read_task("MR", folder, allow_partial=True).partial == found
