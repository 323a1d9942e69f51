"""``structviews analogy``."""

from pathlib import Path
from typing import Annotated

import typer

from structviews.cli.console import console, errors
from structviews.cli.options import ForSimilarity, Precision, Tokenised
from structviews.cli.which_runs import OwnRun

PANEL = "Evaluation"
GROUP = "analogy"
app = typer.Typer(help="Score sentence analogies: A is to B as C is to D.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Score sentence analogies: A is to B as C is to D."""


@app.command("score")
def score_analogies(
    run: OwnRun,
    tuples: Annotated[Path, typer.Option(help="Analogies, one per line: four tab-separated sentences.")],
    pool: Annotated[Path, typer.Option(help="Other candidates: one sentence per line, or a parsed corpus.")],
    tokenised: Tokenised = False,
    similarity: ForSimilarity = False,
    precision: Precision = "auto",
) -> None:
    """Find the sentence nearest to v(C) + v(B) - v(A), with each of a tuple's four sentences as the target in turn.

    Writes scores to RUN/retrieval.json. A parsed corpus as the pool goes with --tokenised.

    Example: structviews analogy score runs/dep-const --tuples analogies.tsv --pool corpus.parsed --tokenised
    """
    from structviews.encoding.embedder import Embedder
    from structviews.evaluation.retrieval import analogy
    from structviews.evaluation.retrieval.candidates import open_pool
    from structviews.evaluation.scores.results import save_entry
    from structviews.runtime.terminal import rate_bar

    opened = open_pool(pool, tokenised)
    read = analogy.read_tuples(tuples, opened)
    with rate_bar(errors, f"encoding {pool}", "sentences") as progress:
        progress.stage("loading the run")
        embedder = Embedder.load(run, precision=precision)
        embedder = embedder.for_similarity() if similarity else embedder
        scores = analogy.answer(read, opened, run, embedder, progress)
    save_entry(run, analogy.entry(embedder.description, tuples, read, opened, scores))
    console.print(analogy.analogy_table(scores))
