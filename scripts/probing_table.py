"""Markdown tables of what each view encodes about syntax, untrained and trained.

    python scripts/probing_table.py corpus.parsed --vectors corpus.vec --senteval senteval -o probing-table

Makes the probing tasks from part of the corpus, parses their sentences once, trains pairs of views briefly on fixed
word vectors, and scores each view alone, with its weights before and after training. The baseline is the mean of the
word vectors, which is also scored on SentEval's own tasks. If it is stopped, run the same command again to resume;
with --table it only prints the existing results.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from smoke import command, study_parser

from structviews.evaluation.scores.results import all_results
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.probing import probing_files

PAIRS = ("dep,const", "seq,avg")
VIEWS = ("avg", "seq", "dep", "const")
BAG = "average"


class Folders(NamedTuple):
    """The folders of the study."""

    probing: Path
    parsed: Path
    runs: Path


def main() -> None:
    """Make, train, score, print."""
    parser = study_parser(__doc__)
    parser.add_argument("--vectors", type=Path, required=True, help="word vectors")
    parser.add_argument("--sentences", type=int, default=20_000, help="number of sentences to make the tasks from")
    parser.add_argument("--hidden", type=int, default=300, help="dimension of each view's vector")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="only print the existing results")
    options = parser.parse_args()
    folders = Folders(options.out / "probing", options.out / "probing.parsed", options.out / "runs")
    if not options.table:
        folders.runs.mkdir(parents=True, exist_ok=True)
        make(folders, options)
        score(folders, options)
    print("\n".join([*senteval_table(folders), "", *probing_table(folders)]))


def make(folders: Folders, options: argparse.Namespace) -> None:
    """The tasks, the trees of their sentences, and the runs."""
    if not folders.probing.exists():
        size = ("--sentences", options.sentences, "--seed", options.seed)
        command("probe", "make", options.corpus, "-o", folders.probing, *size)
    command("parse", "--probing", folders.probing, "-o", folders.parsed)
    words = ("--corpus", options.corpus, "--vectors", options.vectors)
    if not (folders.runs / BAG).exists():
        command("baseline", BAG, *words, "-o", folders.runs / BAG)
    for pair in PAIRS:
        sizes = ("--views", pair, "--hidden", options.hidden, "--seed", options.seed)
        if not untrained(folders, pair).exists():
            command("baseline", "random", *words, *sizes, "-o", untrained(folders, pair))
        short = ("--epochs", options.epochs, "--channels", "fixed")
        command("train", *words, *sizes, *short, "--out", trained(folders, pair))


def untrained(folders: Folders, pair: str) -> Path:
    """The untrained run of a pair of views."""
    return folders.runs / f"untrained-{pair.replace(',', '-')}"


def trained(folders: Folders, pair: str) -> Path:
    """The trained run of a pair of views."""
    return folders.runs / pair.replace(",", "-")


def score(folders: Folders, options: argparse.Namespace) -> None:
    """Score what has no scores yet."""
    probing = ("--probing", folders.probing, "--parsed", folders.parsed)
    bag = scores(folders.runs / BAG)
    if not bag.keys() & set(TASKS):
        command("eval", folders.runs / BAG, "--senteval", options.senteval)
    tasks = probing_files(folders.probing)
    if not bag.keys() >= tasks.keys():
        command("eval", folders.runs / BAG, *probing)
    for pair in PAIRS:
        for run in (untrained(folders, pair), trained(folders, pair)):
            for view in pair.split(","):
                if not scores(run, view).keys() >= tasks.keys():
                    command("eval", run, "--view", view, *probing)


def scores(run: Path, view: str = "") -> dict[str, Any]:
    """The scores by task of a run, or of one of its views."""
    for results in all_results(run) if run.exists() else []:
        if results["flags"].split() == (["--view", view] if view else []):
            return results["tasks"]
    return {}


def senteval_table(folders: Folders) -> list[str]:
    """Scores of the mean of the word vectors on SentEval's tasks."""
    found = {task: entry["scores"] for task, entry in scores(folders.runs / BAG).items() if task in TASKS}
    names = [task for task in TASKS if task in found]
    return [row("", names), rule(names), row("mean of word vectors", [shown(found[task]) for task in names])]


def probing_table(folders: Folders) -> list[str]:
    """One line per task, with each view's score before and after training."""
    entries = json.loads((folders.probing / "probing.json").read_text("utf-8"))["tasks"]
    heads = ["classes", "test", "most frequent class", "mean of word vectors", *VIEWS]
    lines = [row("task", heads), rule(heads)]
    for task, file in probing_files(folders.probing).items():
        entry = next(entry for entry in entries.values() if entry["file"] == file)
        cells = [str(len(entry["labels"])), f"{entry['examples']['te']:,}"]
        cells.append(f"{most_frequent(folders.probing / file):.1f}")
        cells.append(accuracy(scores(folders.runs / BAG), task))
        for view in VIEWS:
            pair = next(pair for pair in PAIRS if view in pair.split(","))
            runs = (untrained(folders, pair), trained(folders, pair))
            cells.append(" → ".join(accuracy(scores(run, view), task) for run in runs))
        lines.append(row(task, cells))
    return lines


def most_frequent(task: Path) -> float:
    """The percentage of a task's test examples in the most frequent class."""
    examples = (line.split("\t", 2) for line in task.read_text("utf-8").splitlines())
    counts = Counter(label for part, label, _ in examples if part == "te")
    return 100 * max(counts.values()) / counts.total()


def accuracy(found: dict[str, Any], task: str) -> str:
    """A task's accuracy in percent, if there is one."""
    return f"{found[task]['scores']['accuracy']:.1f}" if task in found else "-"


def shown(found: dict[str, float]) -> str:
    """A score on one of SentEval's tasks, in the papers' unit."""
    if "accuracy" in found:
        return "/".join(f"{found[name]:.1f}" for name in ("accuracy", "f1") if name in found)
    return f"{100 * found.get('pearson mean', found.get('pearson', 0)):.1f}"


def row(name: str, cells: list[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join([name, *cells])} |"


def rule(cells: list[str]) -> str:
    """The line below a table's head."""
    return "|---" + "|--:" * len(cells) + "|"


if __name__ == "__main__":
    main()
