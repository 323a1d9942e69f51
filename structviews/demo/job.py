"""``structviews demo``: from a bare Python installation to a table of view pairs."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from structviews.demo.measure import Yardstick, random_bag, result_table
from structviews.demo.python_docs import write_corpus
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.retrieval.next_sentence import read_passages
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import open_source
from structviews.runs.config import TrainConfig
from structviews.runtime.terminal import Table, rate_bar
from structviews.training.loop import train

PAIRS = (("bow", "seq"), ("seq", "seq"), ("dep", "seq"), ("dep", "const"))
# Of models small enough to train four of them in minutes. The learning rate is higher than the default, as a small
# corpus gives few steps.
SETTINGS: dict[str, Any] = {"hidden": 128, "word_dim": 100, "epochs": 5, "lr": 2e-3, "held_out": 0.15, "seed": 0}
NEXT = """Encode your own sentences, one per line:
  structviews encode {run} < sentences.txt > vectors.npy
Train on your own text (UTF-8, one sentence per line or running prose):
  structviews parse my-text.txt
  structviews train --views dep,const --corpus my-text.parsed"""


def run_demo(folder: Path, console: Console) -> Table:
    """Build a corpus, parse it, train four pairs of views on it, and print a table of them on held-out documents.

    Completed steps of an earlier call with the same folder are reused. Raises InputError if the folder is a file, or
    the standard library has no documentation to read.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file: give a folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    text, parsed = folder / "python-docs.txt", folder / "python-docs.parsed"
    runs = {",".join(views): folder / "runs" / "-".join(views) for views in PAIRS}

    def announce(step: int, title: str) -> None:
        console.print(Text(f"{step}/4", style="bold"), title, highlight=False, soft_wrap=True)

    announce(1, f"building a corpus from the documentation of Python's standard library: {text}")
    if not text.exists():
        write_corpus(text)
    announce(2, f"parsing every sentence into a dependency and a constituency tree: {parsed}")
    source = open_source([str(text)], parser="builtin", layout="lines", tokenised=False, max_tokens=120)
    corpus, _ = parse_corpus(source, parsed, workers=2, console=console)
    announce(3, f"training {len(PAIRS)} pairs of views: one view of a sentence predicts the other view of the next")
    for views, run in zip(PAIRS, runs.values(), strict=True):
        train(TrainConfig.of(corpus=str(parsed), views=views, out=str(run), **SETTINGS))
    announce(4, "evaluating the pairs on held-out documents")
    passages = read_passages(list(runs.values()), corpus, len(corpus))
    yardstick = Yardstick(passages)
    untrained = random_bag([sentence.tokens for sentence in passages.sentences], 2 * SETTINGS["hidden"])
    rows = [yardstick.measure("untrained bag of words", untrained)]
    for name, run in runs.items():
        with rate_bar(console, f"measuring {name}", "sentences") as bar:
            rows.append(yardstick.measure(name, Embedder.load(run).encode(passages.sentences, show_progress_bar=bar)))
    table = result_table(rows)
    console.print(table)
    console.print(NEXT.format(run=runs["dep,const"]), highlight=False, soft_wrap=True)
    return table
