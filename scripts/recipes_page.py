"""Write the tables of docs/recipes.md: every results table, figure and ablation of the papers, with its recipes."""

import tomllib
from pathlib import Path

from structviews.evaluation.scores.published import papers
from structviews.recipes.recipe import Recipe, names

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "recipes.md"
PLACES = ROOT / "structviews" / "recipes" / "places.toml"
START, END = "<!-- places: written by scripts/recipes_page.py -->\n", "<!-- end of places -->\n"
HEAD = "| place | | recipes |\n|---|---|---|\n"
# What the names of a recipe for several corpora, and of its single views, end with.
ENDINGS = ("-amazon", "-f", "-g", "-umbc")


def page() -> str:
    """The page's text, with the tables as the recipes and ``places.toml`` have them."""
    before, _, rest = PAGE.read_text("utf-8").partition(START)
    return before + START + tables() + END + rest.partition(END)[2]


def tables() -> str:
    """For each paper, a heading and a table in Markdown with a line for each place."""
    recipes = [Recipe.load(name) for name in names()]
    stated = tomllib.loads(PLACES.read_text("utf-8"))
    parts = []
    for key in papers():
        places = [each for each in stated["places"] if each["paper"] == key]
        rows = [f"| {each['place']} | {each['what']} | {answer(each, recipes)} |\n" for each in places]
        parts.append(f"### {stated['names'][key]}\n\n{HEAD}{''.join(rows)}")
    return "\n" + "\n".join(parts) + "\n"


def answer(place: dict[str, str], recipes: list[Recipe]) -> str:
    """A place's recipes in Markdown, or the reason that it has none."""
    found = sorted(each.name for each in recipes if covers(each, place))
    return ", ".join(braced(found)) or f"none: {place['reason']}"


def braced(found: list[str]) -> list[str]:
    """Sorted names, those that differ in their endings alone as one, such as ``name{,-f,-g}``."""
    left, shown = list(found), []
    while left:
        name = left.pop(0)
        ends = [end for end in ENDINGS if name + end in left]
        left = [each for each in left if each not in {name + end for end in ends}]
        shown.append(f"`{name}{{{','.join(['', *ends])}}}`" if ends else f"`{name}`")
    return shown


def covers(recipe: Recipe, place: dict[str, str]) -> bool:
    """Whether a recipe says that it covers a place: by a row of its table, or by its name."""
    paper, source = place["paper"], recipe.source
    table = f"{paper} {place['table']}: " if "table" in place else None
    rows = any(table and row.startswith(table) for row in source.published)
    return rows or f"{paper} {place['place']}" in source.places


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
