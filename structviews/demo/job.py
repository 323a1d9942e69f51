"""``structviews demo``: from a bare Python installation to a table of view pairs."""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from structviews.batches.order import held_out
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.demo.measure import Yardstick, result_table
from structviews.demo.python_docs import write_corpus
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import open_source
from structviews.runs.config import TrainConfig
from structviews.runtime.terminal import Table, rate_bar
from structviews.training.loop import train

PAIRS = (("bow", "seq"), ("seq", "seq"), ("dep", "seq"), ("dep", "const"))
HIDDEN = 128
WORD_DIM = 100
EPOCHS = 5
# Higher than the default, as a small corpus gives few steps.
LEARNING_RATE = 2e-3
HELD_OUT = 0.15
SEED = 0
WORKERS = 2


def run_demo(folder: Path, console: Console) -> Table:
    """Build a corpus, parse it, train four pairs of views on it, and compare them on held-out documents.

    Completed steps of an earlier call are reused.

    Args:
        folder: output folder; created if it does not exist.
        console: for progress and the table.

    Returns:
        The table, which is also printed.

    Raises:
        InputError: if the folder is a file, or the standard library has no documentation to read.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file: give a folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    text, parsed = folder / "python-docs.txt", folder / "python-docs.parsed"
    runs = {",".join(views): folder / "runs" / "-".join(views) for views in PAIRS}

    say(console, 1, f"building a corpus from the documentation of Python's standard library: {text}")
    if not text.exists():
        write_corpus(text)
    say(console, 2, f"parsing every sentence into a dependency and a constituency tree: {parsed}")
    corpus = parse(text, parsed, console)
    say(console, 3, f"training {len(PAIRS)} pairs of views: one view of a sentence predicts the other view of the next")
    for views, run in zip(PAIRS, runs.values(), strict=True):
        train(train_config(parsed, views, run))
    say(console, 4, "evaluating the pairs on held-out documents")
    yardstick = held_out_yardstick(corpus)
    rows = [yardstick.measure_untrained(2 * HIDDEN)]
    for name, run in runs.items():
        with rate_bar(console, f"measuring {name}", "sentences") as bar:
            rows.append(yardstick.measure(name, Embedder.load(run).encode(yardstick.sentences, show_progress_bar=bar)))
    table = result_table(rows)
    console.print(table)
    console.print(next_steps(runs["dep,const"]), highlight=False, soft_wrap=True)
    return table


def say(console: Console, step: int, what: str) -> None:
    """Announce a step in one line."""
    console.print(Text(f"{step}/4", style="bold"), what, highlight=False, soft_wrap=True)


def parse(text: Path, parsed: Path, console: Console) -> ParsedCorpus:
    """Parse the corpus with the built-in parser, or open the result of an earlier call."""

    source = open_source([str(text)], parser="builtin", layout="lines", tokenised=False, max_tokens=120)
    corpus, _ = parse_corpus(source, parsed, workers=WORKERS, console=console)
    return corpus


def train_config(parsed: Path, views: tuple[str, ...], run: Path) -> TrainConfig:
    """Settings of a model small enough to train four of them in minutes."""
    return TrainConfig.of(
        corpus=str(parsed),
        views=views,
        out=str(run),
        hidden=HIDDEN,
        word_dim=WORD_DIM,
        epochs=EPOCHS,
        lr=LEARNING_RATE,
        seed=SEED,
        held_out=HELD_OUT,
    )


def held_out_yardstick(corpus: ParsedCorpus) -> Yardstick:
    """An evaluation set of the documents that training holds out for validation."""
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
    """Commands for the user's own text."""
    return f"""Encode your own sentences, one per line:
  structviews encode {run} < sentences.txt > vectors.npy
Train on your own text (UTF-8, one sentence per line or running prose):
  structviews parse my-text.txt
  structviews train --views dep,const --corpus my-text.parsed"""
