"""A text of your own, by the commands alone: parse it, train two pairs of views, score, compare and use them.

Each step is the command that you would type in a folder of yours; later commands find what earlier ones made there. Put
your own text in place of CORPUS: whole documents in reading order, with a blank line between them.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

DATA = Path(__file__).parents[1] / "data"
CORPUS = DATA / "corpus.txt"
DOCUMENTS = 4  # of 37, so that all steps together take half a minute


def step(why: str, command: str, folder: Path) -> None:
    """Say why, and run a command in the folder, without the lines that tell of its progress."""
    print(f"\n# {why}\n$ structviews {command}", flush=True)
    words = [sys.executable, "-m", "structviews", *(word.replace("DATA", str(DATA)) for word in command.split())]
    ended = subprocess.run(words, cwd=folder, stderr=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        sys.exit(ended.stderr)


def main() -> None:
    """Take all steps in the folder ``--out``; those that are done are not done again."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, help="folder to work in; by default a temporary one")
    out = arguments.parse_args().out or Path(mkdtemp(prefix="structviews-"))
    out.mkdir(parents=True, exist_ok=True)
    documents = CORPUS.read_text("utf-8").split("\n\n")[:DOCUMENTS]
    (out / "mine.txt").write_text("\n\n".join(documents) + "\n", "utf-8")

    step("Trees for every sentence, in mine.parsed. The commands that follow find it.", "parse mine.txt", out)
    step(
        "Word vectors of the text itself; for a large text, take GloVe.",
        "vectors -o mine.vec --dim 50",
        out,
    )
    small = "--hidden 32 --word-dim 32 --batch-size 64 --epochs 2 --channels fixed,trained --vectors mine.vec"
    step("Two kinds of trees learn to agree: runs/dep-const.", f"train --views dep,const {small}", out)
    step("The control, two readers of the same words: runs/seq-seq.", f"train --views seq,seq {small}", out)
    tasks = "--senteval DATA/senteval --tasks mr,trec --partial"
    step("Scores on samples of two tasks, far too small to mean anything.", f"eval runs {tasks}", out)
    step("All runs so far, as a table for a paper.", "table runs --format latex", out)
    step("One page with scores, curves, projections, neighbours and trees.", "report runs -o report.html", out)
    step("Vectors, a row for each sentence.", "encode dep-const mine.txt --skip-blank -o vectors.npy", out)
    print(f"\nIn {out}: " + ", ".join(sorted(path.name for path in out.iterdir() if path.suffix in (".html", ".npy"))))


if __name__ == "__main__":
    main()
