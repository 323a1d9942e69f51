"""Train every recipe at a small size, evaluate each run, and print one table as Markdown.

    python scripts/smoke.py corpus.parsed --senteval senteval -o smoke

Each run trains epoch by epoch until its held-out context accuracy is `--times-chance` times chance in every
channel or, with the generative and the skip-thought objective, until held-out words are likelier than under the
unigram model. If it is stopped, run the same command again to resume. Finished runs and scores are kept, so some
recipes can be run first with other settings, by `--only`.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from structviews.evaluation.scores.results import load_results
from structviews.recipes.recipe import Recipe, names
from structviews.recipes.stages import join_members
from structviews.runs.folder import RESULTS, model_checksum

# Tasks, with the score of each and its unit in papers.
TASKS = {"SICK-R": ("pearson", 100), "SUBJ": ("accuracy", 1)}


def main() -> None:
    """Train, evaluate, print."""
    parser = study_parser(__doc__)
    parser.add_argument("--vectors", type=Path, help="word vectors; by default learnt on the corpus")
    parser.add_argument("--hidden", type=int, default=200, help="dimension of each view's vector")
    parser.add_argument("--word-dim", type=int, default=300, help="dimension of word vectors")
    parser.add_argument("--word-init", type=float, default=0.5, help="larger than the papers': the corpus is small")
    parser.add_argument("--batch-size", type=int, default=400)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--times-chance", type=float, default=3.0)
    parser.add_argument("--most-epochs", type=int, default=20)
    parser.add_argument("--only", default="", help="comma-separated recipes")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    vectors = options.vectors or options.out / "words.vec"
    if not vectors.exists():
        command("vectors", options.corpus, "-o", vectors, "--dim", options.word_dim, "--min-count", 2)
    lines = []
    for name in options.only.split(",") if options.only else names():
        run = options.out / name
        outcomes = trained(Recipe.load(name), run, 1, vectors, options)
        if not TASKS.keys() <= scores_of(run).keys():
            command("eval", run, "--senteval", options.senteval, "--tasks", ",".join(TASKS))
        scores = scores_of(run)
        figures = (f"{unit * scores[task]['scores'][score]:.1f}" for task, (score, unit) in TASKS.items())
        lines.append([name, Recipe.load(name).summary, outcomes, *figures])
    print(f"| recipe | model | epochs; held-out, and chance | {' | '.join(TASKS)} |")
    print("|---" * (3 + len(TASKS)) + "|")
    for line in lines:
        print(f"| {' | '.join(line)} |")


def trained(recipe: Recipe, run: Path, seed: int, vectors: Path, options: argparse.Namespace) -> str:
    """Train a run of the recipe until it is good enough; what it reached."""
    if recipe.members:
        members = recipe.runs.items()
        outcomes = [trained(each, run.parent / name, number, vectors, options) for name, (each, number) in members]
        join_members(recipe, run)
        return " + ".join(outcomes)
    if not (run / "config.toml").exists():
        small = ("hidden", "word-dim", "word-init", "batch-size", "lr")
        flags = (text for name in small for text in (f"--{name}", getattr(options, name.replace("-", "_"))))
        fixed = ("--vectors", vectors) if "fixed" in recipe.channels else ()
        where = ("--corpus", options.corpus, "--out", run, "--held-out", 0.2, "--epochs", 1, "--seed", seed)
        command("train", "--recipe", recipe.name, *where, *fixed, *flags)
    validations = list(log(run, "validation"))
    while not all(good_enough(m, options.times_chance) for m in channels(validations[-1]).values()):
        epochs = validations[-1]["epoch"] + 1
        if epochs > options.most_epochs:
            sys.exit(f"{run}: not good enough after {options.most_epochs} epochs: {validations[-1]}")
        command("train", "--resume", run, "--epochs", epochs)
        validations = list(log(run, "validation"))
    reached = [f"{name}{shown(metrics)}" for name, metrics in channels(validations[-1]).items()]
    return f"{validations[-1]['epoch']}; {', '.join(reached)}"


def study_parser(description: str) -> argparse.ArgumentParser:
    """A parser of the arguments that every script has that trains and scores runs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="a parsed corpus")
    parser.add_argument("--senteval", required=True, type=Path, help="folder with SentEval's tasks")
    parser.add_argument("-o", "--out", required=True, type=Path, help="folder for all that is made")
    return parser


def command(*arguments: object) -> None:
    """A command of structviews, as a user gives it."""
    text = [str(argument) for argument in arguments]
    print("structviews", *text, file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "structviews", *text], check=True, stdout=sys.stderr)


def scores_of(run: Path, file: str = RESULTS) -> dict:
    """A run's results by task, of these very weights."""
    results = load_results(run, file)
    return results["tasks"] if results and results["model"] == model_checksum(run) else {}


def log(run: Path, kind: str) -> Iterator[dict]:
    """A run's lines of a kind."""
    lines = map(json.loads, (run / "log.jsonl").read_text("utf-8").splitlines())
    return (line for line in lines if line["kind"] == kind)


def channels(line: dict) -> dict[str, dict[str, float]]:
    """Metrics of each channel; one that is alone has no name."""
    found: dict[str, dict[str, float]] = {}
    for name, value in line.items():
        channel, _, metric = name.rpartition(".")
        found.setdefault(channel and f"{channel} ", {})[metric] = value
    return {name: m for name, m in found.items() if "loss" in m}


def word_nll(metrics: dict[str, float]) -> float:
    """Negative log-likelihood per word; skip-thought's loss is just that."""
    return metrics.get("nll", metrics["loss"])


def good_enough(metrics: dict[str, float], times: float) -> bool:
    """Whether a channel has learnt something that also holds for documents it has not seen."""
    if "unigram_nll" in metrics:
        return word_nll(metrics) < metrics["unigram_nll"]
    return metrics["accuracy"] >= times * metrics["chance_accuracy"]


def shown(metrics: dict[str, float]) -> str:
    """What a channel reached, beside chance."""
    if "unigram_nll" in metrics:
        return f"{word_nll(metrics):.3f} nats a word (unigrams {metrics['unigram_nll']:.3f})"
    return f"{metrics['accuracy']:.4f} ({metrics['chance_accuracy']:.4f})"


if __name__ == "__main__":
    main()
