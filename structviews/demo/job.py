"""``structviews demo``: from a bare Python installation to a table of view pairs."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from structviews.demo.measure import Yardstick, random_bag, result_table
from structviews.demo.python_docs import write_corpus
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.retrieval.next_sentence import read_passages
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import open_source
from structviews.report.page import write_report
from structviews.runs.config import TrainConfig
from structviews.runtime.machine import require
from structviews.runtime.terminal import Bar, Table
from structviews.training.baselines import RANDOM, make_baseline
from structviews.training.loop import train

PAIRS = (("bow", "seq"), ("seq", "seq"), ("dep", "seq"), ("dep", "const"))
# Of models small enough to train four of them in minutes. The learning rate is higher than the default, as a small
# corpus gives few steps.
ENCODERS: dict[str, Any] = {"hidden": 128, "word_dim": 100, "seed": 0}
TRAINING: dict[str, Any] = {"epochs": 3, "lr": 2e-3, "held_out": 0.15}
NEXT = """Encode your own sentences, one per line:
  structviews encode {run} < sentences.txt > vectors.npy
Train on your own text (UTF-8, one sentence per line or running prose):
  structviews parse my-text.txt
  structviews train --views dep,const --corpus my-text.parsed
Open the report in a browser:
  {report}"""


def run_demo(folder: Path, console: Console) -> Table:
    """Build a corpus, parse it, train four pairs of views on it, compare them on held-out documents, write a report.

    Completed steps of an earlier call with the same folder are reused. Raises InputError if the folder is a file, the
    standard library has no documentation to read, or a package is missing.
    """
    require("matplotlib", "the report", "report")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file: give a folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    text, parsed = folder / "python-docs.txt", folder / "python-docs.parsed"
    runs = {",".join(views): folder / "runs" / "-".join(views) for views in PAIRS}

    def announce(step: int, title: str) -> None:
        console.print(Text(f"{step}/5", style="bold"), title, highlight=False, soft_wrap=True)

    announce(1, f"building a corpus from the documentation of Python's standard library: {text}")
    if not text.exists():
        write_corpus(text)
    announce(2, f"parsing every sentence into a dependency and a constituency tree: {parsed}")
    source = open_source([str(text)], parser="builtin", layout="lines", tokenised=False, max_tokens=120)
    corpus, _ = parse_corpus(source, parsed, workers=2, console=console)
    announce(3, f"training {len(PAIRS)} pairs of views: one view of a sentence predicts the other view of the next")
    for views, run in zip(PAIRS, runs.values(), strict=True):
        train(TrainConfig.of(corpus=str(parsed), views=views, out=str(run), **ENCODERS, **TRAINING))
    announce(4, "evaluating the pairs, untrained and trained, on held-out documents")
    passages = read_passages(list(runs.values()), corpus, len(corpus))
    yardstick = Yardstick(passages)
    bag = random_bag([sentence.tokens for sentence in passages.sentences], 2 * ENCODERS["hidden"])
    rows = [yardstick.measure("bag of random vectors", bag)]
    for name, run in runs.items():
        untrained = folder / "untrained" / run.name
        if not untrained.exists():
            make_baseline(RANDOM, parsed, untrained, None, {"views": name.split(","), **ENCODERS}, console)
        for label, each in ((f"{name} untrained", untrained), (f"{name} trained", run)):
            with Bar(console, f"measuring {label}", "sentences") as bar:
                vectors = Embedder.load(each).encode(passages.sentences, show_progress_bar=bar)
            rows.append(yardstick.measure(label, *np.split(vectors, 2, axis=1)))
    table = result_table(rows)
    console.print(table)
    announce(5, "writing a report on the trained pairs")
    write_report(list(runs.values()), folder / "report.html")
    console.print(NEXT.format(run=runs["dep,const"], report=folder / "report.html"), highlight=False, soft_wrap=True)
    return table
