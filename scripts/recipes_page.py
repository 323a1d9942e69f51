"""Write the lists of docs/recipes.md: every results table, figure and ablation of the papers, with its recipes."""

import tomllib
from pathlib import Path

from structviews.evaluation.scores.published import papers
from structviews.recipes.recipe import Recipe, names

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "recipes.md"
PLACES = ROOT / "structviews" / "recipes" / "places.toml"
START, END = "<!-- places: written by scripts/recipes_page.py -->\n", "<!-- end of places -->\n"


def page() -> str:
    """The page's text, with the lists as the recipes and ``places.toml`` have them."""
    before, _, rest = PAGE.read_text("utf-8").partition(START)
    return before + START + lists() + END + rest.partition(END)[2]


def lists() -> str:
    """For each paper, a heading and a list in Markdown with a line for each place."""
    recipes = [Recipe.load(name) for name in names()]
    stated = tomllib.loads(PLACES.read_text("utf-8"))
    parts = []
    for key in papers():
        places = [each for each in stated["places"] if each["paper"] == key]
        rows = [f"- **{each['place']}**: {each['what']}. {answer(each, recipes)}\n" for each in places]
        parts.append(f"### {stated['names'][key]}\n\n{''.join(rows)}")
    return "\n" + "\n".join(parts) + "\n"


def answer(place: dict[str, str], recipes: list[Recipe]) -> str:
    """A place's recipes in Markdown, or the reason that it has none."""
    found = sorted(each.name for each in recipes if covers(each, place))
    return ", ".join(braced(found)) or f"None: {place['reason']}"


def braced(found: list[str]) -> list[str]:
    """Sorted names, those that add one part to another as one with it, such as ``name{,-f,-g}``."""
    shown: dict[str, list[str]] = {}
    for name in found:
        stem, _, end = name.rpartition("-")
        if stem in shown:
            shown[stem].append(f"-{end}")
        else:
            shown[name] = [""]
    return [f"`{name}{{{','.join(ends)}}}`" if ends[1:] else f"`{name}`" for name, ends in shown.items()]


def covers(recipe: Recipe, place: dict[str, str]) -> bool:
    """Whether a recipe says that it covers a place: by a row of its table, or by its name."""
    paper, source = place["paper"], recipe.source
    table = f"{paper} {place['table']}: " if "table" in place else None
    rows = any(table and row.startswith(table) for row in source.published)
    return rows or f"{paper} {place['place']}" in source.places


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
