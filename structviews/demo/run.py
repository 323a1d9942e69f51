"""``structviews demo``: from nothing but Python to a table of view pairs."""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from structviews.batching import held_out
from structviews.cache import ParsedCorpus
from structviews.config import TrainConfig
from structviews.demo.corpus import write_corpus
from structviews.demo.measure import Yardstick, result_table
from structviews.embedder import Embedder
from structviews.errors import InputError
from structviews.training import train

PAIRS = (("bow", "seq"), ("seq", "seq"), ("dep", "seq"), ("dep", "const"))
HIDDEN = 128
WORDS_DIM = 100
EPOCHS = 5
# A small corpus gives few steps.
LEARNING_RATE = 2e-3
HELD_OUT = 0.15
SEED = 0
WORKERS = 2


def run_demo(folder: Path, console: Console) -> Table:
    """Make a corpus, parse it, train four pairs of views on it, and compare them on held-out documents.

    Steps that an earlier call finished are kept.

    Args:
        folder: where everything goes; made if it is not there.
        console: where each step says what it does.

    Returns:
        The table, printed as well.

    Raises:
        InputError: if the folder is a file, or the standard library has no documentation to read.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    text, parsed = folder / "python-docs.txt", folder / "python-docs.parsed"
    runs = {",".join(views): folder / "runs" / "-".join(views) for views in PAIRS}

    say(console, 1, f"the documentation of Python's standard library becomes a corpus, {text}")
    if not text.exists():
        write_corpus(text)
    say(console, 2, f"every sentence gets a dependency tree and a constituency tree, in {parsed}")
    corpus = parse(text, parsed, console)
    say(console, 3, f"{len(PAIRS)} pairs of views are trained: one view of a sentence finds the next in the other's")
    for views, run in zip(PAIRS, runs.values(), strict=True):
        train(train_config(parsed, views, run))
    say(console, 4, "the pairs are measured on documents that they were not trained on")
    yardstick = held_out_yardstick(corpus)
    rows = [yardstick.measure_untrained(2 * HIDDEN)]
    for name, run in track(runs.items(), "measuring", console=console):
        rows.append(yardstick.measure(name, Embedder.load(run).encode(yardstick.sentences)))
    table = result_table(rows)
    console.print(table)
    console.print(next_steps(runs["dep,const"]), highlight=False, soft_wrap=True)
    return table


def say(console: Console, step: int, what: str) -> None:
    """Announce a step in one line."""
    console.print(f"[bold]{step}/4[/bold] {what}", highlight=False, soft_wrap=True)


def parse(text: Path, parsed: Path, console: Console) -> ParsedCorpus:
    """Parse the corpus with the embedded parser, or open what an earlier call parsed."""
    from structviews.parsing.pipeline import parse_corpus  # noqa: PLC0415  the offline stage loads when it is used
    from structviews.parsing.sources import open_source  # noqa: PLC0415

    source = open_source([str(text)], parser="builtin", layout="lines", tokenised=False, max_tokens=120)
    corpus, _ = parse_corpus(source, parsed, workers=WORKERS, console=console)
    return corpus


def train_config(parsed: Path, views: tuple[str, ...], run: Path) -> TrainConfig:
    """A model small enough that four are trained in minutes."""
    return TrainConfig(
        corpus=str(parsed),
        views=views,
        out=str(run),
        hidden=HIDDEN,
        words_dim=WORDS_DIM,
        epochs=EPOCHS,
        lr=LEARNING_RATE,
        seed=SEED,
        held_out=HELD_OUT,
    )


def held_out_yardstick(corpus: ParsedCorpus) -> Yardstick:
    """The documents that training leaves out for validation, to measure on."""
    rows = list(corpus)
    documents = np.array([row.document for row in rows])
    chosen = np.flatnonzero(held_out(documents, SEED, HELD_OUT))
    return Yardstick(
        [rows[i].sentence for i in chosen],
        documents[chosen],
        np.array([rows[i].position for i in chosen]),
        seed=SEED,
    )


def next_steps(run: Path) -> str:
    """What to type for one's own text."""
    return f"""Vectors of your own sentences, one a line:
  structviews encode {run} < sentences.txt > vectors.npy
A model of your own text (UTF-8, one sentence a line or running prose):
  structviews parse my-text.txt
  structviews train --views dep,const --corpus my-text.parsed"""
