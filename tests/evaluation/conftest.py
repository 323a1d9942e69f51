"""A run, small folders in SentEval's layout, and encoders that need no model."""

import hashlib
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from corpora import small_config, topic_corpus

from structviews.evaluation.senteval.tasks.downstream import STS_SETS
from structviews.training.loop import train

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "structure"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "senteval"


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    """A run of two views of words, hardly trained."""
    folder = tmp_path_factory.mktemp("run")
    return train(small_config(topic_corpus(folder / "x.parsed"), folder / "run", ("seq", "avg"), steps=2))


@pytest.fixture
def shared_senteval() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"needs SentEval's data in {SHARED}")
    return SHARED


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def encode():
    """Means of a random vector for each word, the same in every process."""

    @cache
    def vector(word: str) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
        return np.random.default_rng(seed).standard_normal(20)

    return lambda sentences: np.array([np.mean([*map(vector, s)], axis=0) for s in sentences], dtype=np.float32)


def write(path: Path, lines: list[str], encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Every task with a few dozen examples that a bag of words can tell apart."""
    root = tmp_path / "senteval"
    names = [f"n{i}" for i in range(40)]
    good, bad = "a fine and moving film", "a dull and tired film"
    for positive, negative in (
        ("MR/rt-polarity.pos", "MR/rt-polarity.neg"),
        ("CR/custrev.pos", "CR/custrev.neg"),
        ("SUBJ/subj.objective", "SUBJ/subj.subjective"),
        ("MPQA/mpqa.pos", "MPQA/mpqa.neg"),
    ):
        write(root / positive, [f"{good} , {name}" for name in names])
        write(root / negative, [f"{bad} , {name} {name}" for name in names[:30]])
    relations = (("entailment", "the"), ("neutral", "some"), ("contradiction", "no"))
    for split in ("train", "dev", "test"):
        rows = [f"{text} {name} \t{label}" for name in names for text, label in ((good, 1), (bad, 0))]
        write(root / f"SST/binary/sentiment-{split}", rows)
        rows = [f"{i % 5} {'very ' * (i % 5)}fine {n}" for i, n in enumerate(names)]
        write(root / f"SST/fine/sentiment-{split}", rows)
        write(root / f"SNLI/s1.{split}", [f"the café {n} runs" for n in names])
        write(root / f"SNLI/s2.{split}", [f"{relations[i % 3][1]} {n} runs" for i, n in enumerate(names)])
        write(root / f"SNLI/labels.{split}", [relations[i % 3][0] for i in range(len(names))])
        rows = [f"g\tf\ty\t{i}\t{i % 6}\tthe {n} runs\t{'the ' * (i % 6)}x {n}" for i, n in enumerate(names)]
        write(root / f"STS/STSBenchmark/sts-{split}.csv", rows)
    kinds = ("ABBR:exp", "DESC:manner", "ENTY:animal", "HUM:ind", "LOC:city", "NUM:date")
    trec = [f"{kind} What {kind.lower()} is {name} ?" for name in names[:12] for kind in kinds]
    write(root / "TREC/train_5500.label", [*trec, "LOC:city Where is M\xfcnchen ?"], "latin-1")
    write(root / "TREC/TREC_10.label", trec[::2])
    for split in ("train", "test"):
        rows = [f"{i % 2}\t{i}\t{i}\tthe {n} ran\tthe {n if i % 2 else 'x'} ran" for i, n in enumerate(names)]
        rows.insert(0, "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String")
        write(root / f"MRPC/msr_paraphrase_{split}.txt", rows, "utf-8-sig")
    grades = [("no", "1.0\tCONTRADICTION"), ("some", "2.6\tNEUTRAL"), ("the", "4.5\tENTAILMENT")]
    graded = [(name, *grades[i % 3]) for i, name in enumerate(names)]
    for split in ("train", "trial", "test_annotated"):
        rows = [f"{i}\tthe {n} runs\t{word} {n} runs\t{grade}" for i, (n, word, grade) in enumerate(graded)]
        end = "\r" if split == "test_annotated" else ""
        rows = [row + end for row in ("pair_ID\tA\tB\trelatedness_score\tjudgment", *rows)]
        write(root / f"SICK/SICK_{split}.txt", rows)
    for year, data_sets in STS_SETS.items():
        for k, data_set in enumerate(data_sets):
            pairs = [f"the {n} runs\t{'the ' * (i % 5)}{n} sat {data_set}" for i, n in enumerate(names[: 10 + k])]
            write(root / f"STS/{year}-en-test/STS.input.{data_set}.txt", pairs)
            grades = ["" if i == 3 else f"{i % 5}" for i in range(10 + k)]
            write(root / f"STS/{year}-en-test/STS.gs.{data_set}.txt", grades)
    for file in SAMPLES.iterdir():
        shutil.copy(file, root)
    return root


@pytest.fixture
def probing(tmp_path: Path) -> Path:
    """One of SentEval's probing tasks, and one of our own with a column more."""
    root = tmp_path / "probing"
    parts = [("tr", i) for i in range(30)] + [("va", i) for i in range(10)] + [("te", i) for i in range(12)]
    rows = [f"{part}\t{('PAST', 'PRES')[i % 2]}\tshe {('ran', 'runs')[i % 2]} to n{i} ." for part, i in parts]
    write(root / "past_present.txt", rows)
    rows = [f"{part}\t{i % 3}\tnote\t{'far ' * (i % 3)}away n{i}" for part, i in parts]
    write(root / "head_distance.txt", rows)
    return root
