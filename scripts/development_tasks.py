"""Development parts of SentEval's tasks, to choose settings without looking at the test parts.

    python scripts/development_tasks.py senteval -o senteval-development
    structviews eval runs/dep-const --senteval senteval-development --partial

Writes a folder in SentEval's own format whose test parts come from the training and development parts: of MR and SUBJ,
which have no parts, every second sentence; of TREC and SICK every fifth or so of the training part; of STS Benchmark
its development part, without the pairs that STS 2014 has too. MR and SUBJ may be missing. No test part is
read; a few sentences of the other parts are test sentences, too, since the data sets repeat some.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

HALVES = ("MR/rt-polarity.pos", "MR/rt-polarity.neg", "SUBJ/subj.objective", "SUBJ/subj.subjective")
# Every how many lines of a training part one is held out.
SHARE = 5
Lines = Sequence[bytes]


def main() -> None:
    """Write the folder and say what it has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("senteval", type=Path, help="folder with SentEval's tasks")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder to write")
    options = parser.parse_args()
    for path, lines in write(options.senteval, options.out).items():
        print(f"{path}: {len(lines):,} lines")


def write(senteval: Path, out: Path) -> dict[Path, Lines]:
    """Write the development parts; the lines of each file."""
    written = {}
    for name, lines in development(senteval).items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))
        written[path] = lines
    return written


def development(senteval: Path) -> dict[str, Lines]:
    """The lines of each file by its name in the folder."""
    files: dict[str, Lines] = {name: lines_of(senteval / name)[::2] for name in HALVES if (senteval / name).exists()}
    kept, held_out = parted(lines_of(senteval / "TREC/train_5500.label"))
    files |= {"TREC/train_5500.label": kept, "TREC/TREC_10.label": held_out}
    header, *pairs = lines_of(senteval / "SICK/SICK_train.txt")
    kept, held_out = parted(pairs)
    files |= {
        "SICK/SICK_train.txt": [header, *kept],
        "SICK/SICK_trial.txt": lines_of(senteval / "SICK/SICK_trial.txt"),
        "SICK/SICK_test_annotated.txt": [header, *held_out],
    }
    benchmark = Path("STS/STSBenchmark")
    seen = sts14_pairs(senteval / "STS/STS14-en-test")
    kept, held_out = parted(lines_of(senteval / benchmark / "sts-train.csv"))
    test = [
        line for line in lines_of(senteval / benchmark / "sts-dev.csv") if pair_of(line.split(b"\t")[5:7]) not in seen
    ]
    return files | {
        f"{benchmark}/sts-{part}.csv": lines
        for part, lines in zip(("train", "dev", "test"), (kept, held_out, test), strict=True)
    }


def lines_of(path: Path) -> Lines:
    """The lines of a file with their ends."""
    return path.read_bytes().splitlines(keepends=True)


def parted(lines: Lines) -> tuple[Lines, Lines]:
    """The lines of a training part that stay in it, and those held out."""
    return [line for i, line in enumerate(lines) if i % SHARE], lines[::SHARE]


def sts14_pairs(folder: Path) -> set[frozenset[bytes]]:
    """All pairs of STS 2014."""
    return {pair_of(line.split(b"\t")) for path in folder.glob("STS.input.*.txt") for line in lines_of(path)}


def pair_of(sentences: Iterable[bytes]) -> frozenset[bytes]:
    """A pair of sentences whatever their order, case, spaces and punctuation."""
    return frozenset(bytes(byte for byte in sentence.lower() if chr(byte).isalnum()) for sentence in sentences)


if __name__ == "__main__":
    main()
