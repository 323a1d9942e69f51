"""Write the tables of docs/recipes.md: every results table, figure and ablation of the papers, with its recipes."""

import tomllib
from pathlib import Path

from structviews.evaluation.scores.published import papers
from structviews.recipes.recipe import Recipe, names

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "recipes.md"
PLACES = ROOT / "structviews" / "recipes" / "places.toml"
START, END = "<!-- places: written by scripts/recipes_page.py -->\n", "<!-- end of places -->\n"
HEAD = "| place | what it is | recipes, or why there is none |\n|---|---|---|\n"


def page() -> str:
    """The page's text, with the tables as the recipes and ``places.toml`` have them."""
    before, _, rest = PAGE.read_text("utf-8").partition(START)
    return before + START + tables() + END + rest.partition(END)[2]


def tables() -> str:
    """For each paper, a heading and a table in Markdown with a line for each place."""
    recipes = [Recipe.load(name) for name in names()]
    places = tomllib.loads(PLACES.read_text("utf-8"))["places"]
    parts = []
    for key, paper in papers().items():
        stated = [each for each in places if each["paper"] == key]
        rows = [f"| {each['place']} | {each['what']} | {answer(each, recipes)} |\n" for each in stated]
        parts.append(f"## {paper['authors']} ({paper['year']}): {paper['title']}\n\n{HEAD}{''.join(rows)}")
    return "\n" + "\n".join(parts) + "\n"


def answer(place: dict[str, str], recipes: list[Recipe]) -> str:
    """A place's recipes in Markdown, or the reason that it has none."""
    return ", ".join(f"`{each.name}`" for each in recipes if covers(each, place)) or f"none: {place['reason']}"


def covers(recipe: Recipe, place: dict[str, str]) -> bool:
    """Whether a recipe says that it covers a place: by a row of its table, or by its name."""
    paper, source = place["paper"], recipe.source
    table = f"{paper} {place['table']}: " if "table" in place else None
    rows = any(table and row.startswith(table) for row in source.published)
    return rows or f"{paper} {place['place']}" in source.places


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
