"""``structviews reproduce``."""

from pathlib import Path
from typing import Annotated

import typer

from structviews.cli.console import GO_ON, console, errors, explain, inform, say, suggest, typeable
from structviews.cli.options import Device
from structviews.cli.setting_flags import names_in
from structviews.settings import MOST_DIMENSIONS, MOST_EPOCHS

PANEL = "Training"
SCALE = "Scale, for smaller machines"
RECIPES = "the recipe's"
app = typer.Typer()


# What is made, of what, and where.
RecipeName = Annotated[str, typer.Argument(help="Recipe of the row (see structviews recipes).", show_default=False)]
Corpus = Annotated[Path, typer.Option(help="Text, or a parsed corpus.", show_default=False)]
SentEval = Annotated[Path, typer.Option(help="Folder with SentEval's MR/, SICK/, STS/ and so on.", show_default=False)]
Vectors = Annotated[
    Path | None,
    typer.Option(
        help="Word vectors: GloVe, word2vec or fastText.", show_default="learn them from the corpus if needed"
    ),
]
Out = Annotated[
    Path, typer.Option("-o", "--out", help="Folder for all that is made; recipes with the same folder share it.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what it will take.")]


# Its scale.
Hidden = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_DIMENSIONS,
        help="Dimension of each view's vector.",
        show_default=RECIPES,
        rich_help_panel=SCALE,
    ),
]
Sentences = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Use at most this many sentences: whole documents from the beginning; of a first document that is "
        "longer, its first sentences.",
        show_default="all",
        rich_help_panel=SCALE,
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_EPOCHS, help="Passes over the corpus.", show_default=RECIPES, rich_help_panel=SCALE),
]
Tasks = Annotated[
    str,
    typer.Option(
        help="Comma-separated tasks, such as MR,SUBJ, in any case.", show_default=RECIPES, rich_help_panel=SCALE
    ),
]


@app.command("reproduce")
def reproduce_a_row(
    recipe: RecipeName,
    corpus: Corpus,
    senteval: SentEval,
    vectors: Vectors = None,
    out: Out = Path("reproduced"),
    device: Device = "",
    dry_run: DryRun = False,
    hidden: Hidden = None,
    sentences: Sentences = None,
    epochs: Epochs = None,
    tasks: Tasks = "",
) -> None:
    """Make a row of a paper's table: parse, train, expand, join and score as its recipe says.

    It first says what it will take, and ends with our row beside the published one and a list of all that differs from
    the paper; both also go to RECIPE.md and RECIPE.json in the folder. If it is stopped, run the same command again to
    resume.

    Example: structviews reproduce mc-qt --corpus books.txt --senteval senteval --vectors glove.840B.300d.txt

    Example: structviews reproduce uni-qt --corpus books.txt --senteval senteval --hidden 300 --sentences 100000
    """
    from structviews.recipes.outcome import LEGEND
    from structviews.recipes.recipe import Recipe
    from structviews.recipes.reproducing import plan, reproduce
    from structviews.recipes.reproduction import Reproduction
    from structviews.runtime.device import using
    from structviews.runtime.processes import Interrupted

    row = Recipe.load(recipe)
    job = Reproduction(row, corpus, senteval, out, vectors, hidden, epochs, sentences, names_in(tasks))
    try:
        with using(device):
            for line in plan(job, errors, keep=not dry_run):
                inform(line)
            if dry_run:
                return
            outcome = reproduce(job, errors)
    except (KeyboardInterrupt, Interrupted) as stop:
        inform(f"stopped; {GO_ON}")
        raise typer.Exit(128 + stop.signal if isinstance(stop, Interrupted) else 130) from None
    explain(f"{outcome.recipe}: {outcome.row}")
    console.print(outcome.table())
    explain(LEGEND)
    say("What differs from the paper:")
    for line in outcome.differences:
        explain(f"- {line}")
    suggest("Next, compare it with other runs:", f"structviews table {typeable(out / 'runs')} --published")
