"""``structviews probe``."""

from typing import Annotated

import typer

from structviews.cli.console import console, explain, stages, suggest, typeable
from structviews.cli.options import Corpus, NewFolder, Seed

PANEL = "Evaluation"
GROUP = "probe"
app = typer.Typer(help="Make probing tasks, which test what vectors encode about syntax.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Make probing tasks, which test what vectors encode about syntax."""


@app.command("make")
def make_probing_tasks(
    corpus: Corpus,
    out: NewFolder,
    size: Annotated[
        int, typer.Option(help="At most this many training examples per task; a tenth as many for dev and test.")
    ] = 100_000,
    sentences: Annotated[int, typer.Option(help="Read at most this many sentences, from random shards.")] = 1_000_000,
    seed: Seed = 1,
) -> None:
    """Make SentEval's ten probing tasks, and four about trees, from a corpus's own sentences and trees.

    Training, dev and test parts share no document. Tasks with too few examples are left out and reported.

    Example: structviews probe make corpus.parsed -o probing
    """
    from rich.table import Column

    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.evaluation.probing.making import make_tasks
    from structviews.runtime.terminal import Table

    with stages() as tell:
        made = make_tasks(ParsedCorpus.open(corpus), out, size=size, sentences=sentences, seed=seed, progress=tell)
    table = Table("task", *(Column(name, justify="right") for name in ("train", "dev", "test", "classes")))
    for each in made:
        if not each.reason:
            table.add_row(each.task.name, *(f"{n:,}" for n in (*each.counts, len(each.labels))))
    console.print(table, f"in {out}", sep="\n")
    for each in made:
        if each.reason:
            explain(f"{each.task.name} is left out: {each.reason}")
    suggest("Next, score runs on them:", f"structviews eval RUN --probing {typeable(out)}")
