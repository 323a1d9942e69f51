"""``structviews inspect``."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from structviews.cli.console import console, inform, say
from structviews.cli.options import Language, Models, Seed, only_corpus
from structviews.errors import InputError

if TYPE_CHECKING:
    from structviews.parsing.drawing import Chosen

PANEL = "Corpora"
app = typer.Typer()

NO_CORPUS = "make one with `structviews parse`, or give a sentence with --text"


class TreeKind(StrEnum):
    """The kinds of trees."""

    constituency = "constituency"
    dependency = "dependency"


@app.command("inspect")
def inspect_corpus(
    corpus: Annotated[
        Path | None, typer.Argument(help="A parsed corpus.", show_default="the only *.parsed here")
    ] = None,
    sentence: Annotated[
        int | None, typer.Option(help="Draw the trees of this sentence (counted from 0).", show_default=False)
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Draw the first ten sentences that contain this text.", show_default=False),
    ] = None,
    random: Annotated[
        int | None,
        typer.Option(metavar="N", help="Draw N random sentences, with --grep from its matches.", show_default=False),
    ] = None,
    seed: Seed = 1,
    text: Annotated[
        str | None, typer.Option(metavar="SENTENCE", help="Parse this sentence and draw its trees.", show_default=False)
    ] = None,
    parser: Annotated[str, typer.Option(help="Parser for --text; see parse --parser.")] = "builtin",
    lang: Language = "en",
    models: Models = None,
    tokenised: Annotated[
        bool, typer.Option("--tokenised", help="--text is already tokenised (separated by white space).")
    ] = False,
    tree: Annotated[TreeKind | None, typer.Option(help="Draw only this kind.", show_default="both")] = None,
    svg: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Write an .svg file, or a folder with one file per sentence.", show_default=False
        ),
    ] = None,
) -> None:
    """Summarise a parsed corpus, or draw the trees of its sentences or of a given one.

    Constituency trees are drawn both as parsed and binarised.

    Example: structviews inspect corpus.parsed --sentence 7

    Example: structviews inspect corpus.parsed --grep "as well as" --random 3 --svg trees.svg

    Example: structviews inspect --text "A dog barks."
    """
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.parsing.drawing import choose, sentence_to_draw

    choosing = sentence, grep, random
    drawing = any(choice is not None for choice in choosing)
    if text is not None:
        if corpus or drawing:
            raise InputError("--text takes no corpus and no --sentence, --grep or --random: leave them out")
        from structviews.parsing.parser import Options
        from structviews.parsing.sources import parse_sentence

        parsed = parse_sentence(text, parser=parser, options=Options(lang, models), tokenised=tokenised)
        draw_trees([sentence_to_draw(text, parsed, tree)], svg)
        return
    opened = ParsedCorpus.open(corpus or only_corpus(none=NO_CORPUS))
    if drawing:
        found, note = choose(opened, *choosing, seed=seed, tree=tree)
        draw_trees(found, svg)
        if note:
            inform(note)
    elif tree or svg:
        raise InputError("no sentence to draw: choose with --sentence, --grep or --random")
    else:
        from structviews.corpus.corpus_statistics import overview

        console.print(overview(opened), highlight=False)


def draw_trees(sentences: "list[Chosen]", svg: Path | None) -> None:
    """Draw sentences on stdout, or as SVG."""
    from rich.text import Text

    from structviews.parsing.drawing import LINES, draw
    from structviews.parsing.svg import write_svg

    if svg:
        for path in write_svg(svg, sentences):
            say(str(path))
        return
    for number, sentence in enumerate(sentences):
        drawn = Text("\n" * (number > 0) + draw(sentence, console.width))
        drawn.highlight_regex(LINES, "cyan")
        console.print(drawn, highlight=False, soft_wrap=True)
