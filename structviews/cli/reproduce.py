"""``structviews recipes`` and ``reproduce``."""

from pathlib import Path
from typing import Annotated

import typer

from structviews.cli.console import console, errors, explain, inform, resuming, say, suggest, typeable, write
from structviews.cli.options import Device, names_in
from structviews.cli.parse import Parser
from structviews.settings import MOST_DIMENSIONS, MOST_EPOCHS

SCALE = "Scale, for smaller machines"
RECIPES = "the recipe's"
app = typer.Typer()


# What is made, of what, and where.
RecipeName = Annotated[str, typer.Argument(help="Recipe of the row (see structviews recipes).")]
Corpora = Annotated[
    list[str],
    typer.Option(
        "--corpus",
        metavar="FILE",
        help="Text, or a parsed corpus; again as NAME=FILE for the runs of an ensemble that the recipes train on NAME.",
    ),
]
SentEval = Annotated[Path, typer.Option(help="Folder with SentEval's MR/, SICK/, STS/ and so on.")]
Vectors = Annotated[
    Path | None,
    typer.Option(
        help="Word vectors: GloVe, word2vec or fastText.", show_default="learn them from the corpus if needed"
    ),
]
Out = Annotated[
    Path, typer.Option("-o", "--out", help="Folder for all that is made; recipes with the same folder share it.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what is left to do.")]


# Its scale.
Hidden = Annotated[
    int | None,
    typer.Option(
        min=1, max=MOST_DIMENSIONS, help="Dimension of each view's vector.", show_default=RECIPES, rich_help_panel=SCALE
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
    corpus: Corpora,
    senteval: SentEval,
    vectors: Vectors = None,
    parser: Parser = "builtin",
    out: Out = Path("reproduced"),
    device: Device = "",
    dry_run: DryRun = False,
    hidden: Hidden = None,
    sentences: Sentences = None,
    epochs: Epochs = None,
    tasks: Tasks = "",
) -> None:
    """Make a row of a paper's table from a text.

    Parses, trains, expands, joins and scores as the recipe says. It ends with our row beside the published one and a
    list of all that differs from the paper; both also go to RECIPE.md and RECIPE.json in the folder. If it is stopped,
    run the same command again to resume.

    Example: structviews reproduce mc-qt --corpus books.txt --senteval senteval --vectors glove.840B.300d.txt

    Example: structviews reproduce uni-qt --corpus books.txt --senteval senteval --hidden 300 --sentences 100000
    """
    from structviews.recipes.outcome import LEGEND
    from structviews.recipes.recipe import Recipe
    from structviews.recipes.reproduction import Reproduction
    from structviews.recipes.stages import plan, reproduce
    from structviews.runtime.device import using

    row = Recipe.load(recipe)
    named = (each.rpartition("=") if not Path(each).exists() else ("", "", each) for each in corpus)
    corpora = {name: Path(file) for name, _, file in named}
    job = Reproduction(row, corpora, senteval, out, vectors, hidden, epochs, sentences, names_in(tasks), parser)
    with resuming(), using(device):
        if dry_run:
            inform("\n".join(plan(job, errors)))
            return
        outcome = reproduce(job, errors)
    explain(f"{outcome.recipe}: {outcome.row}")
    console.print(outcome.table())
    explain(LEGEND)
    say("What differs from the paper:")
    for line in outcome.differences:
        explain(f"- {line}")
    suggest("Next, compare it with other runs:", f"structviews table {typeable(out / 'runs')} --published")


@app.command("recipes")
def list_recipes(name: Annotated[str | None, typer.Argument(help="Recipe to show.")] = None) -> None:
    """List the recipes of the papers' models, or show one.

    They are for reproduce, train --recipe and eval --recipe.

    Example: structviews recipes mc-qt
    """
    from structviews.recipes.recipe import Recipe, names
    from structviews.runtime.terminal import Table

    if name:
        shown = Recipe.load(name)
        write(f"# {shown.credit}\n# Its facts are from: {shown.version}.\n\n{shown.text}")
        return
    by_paper: dict[str, list[Recipe]] = {}
    for each in map(Recipe.load, names()):
        by_paper.setdefault(each.credit, []).append(each)
    for paper, recipes in by_paper.items():
        table = Table("recipe", "model", "place", box=None, title=paper, title_justify="left", title_style="bold")
        table.columns[0].no_wrap = True
        for each in recipes:
            table.add_row(each.name, each.summary, each.source.place)
        console.print(table)
        console.print()
