"""docs/recipes.md has every place of the papers, and the recipes or the reason for each."""

import runpy
import tomllib

from code_blocks import ROOT

from structviews.evaluation.scores.published import published
from structviews.recipes.recipe import Recipe, names, published_rows

SCRIPT = runpy.run_path(str(ROOT / "scripts/recipes_page.py"))
STATED = tomllib.loads(SCRIPT["PLACES"].read_text("utf-8"))
RECIPES = [Recipe.load(name) for name in names()]


def test_the_page_is_as_the_recipes_have_it():
    assert (ROOT / "docs/recipes.md").read_text("utf-8") == SCRIPT["page"](), "run python scripts/recipes_page.py"


def test_every_place_has_recipes_or_a_reason_and_not_both():
    for place in STATED["places"]:
        covered = any(SCRIPT["covers"](recipe, place) for recipe in RECIPES)
        assert covered != ("reason" in place), place


def test_every_published_row_is_of_a_recipe_or_another_s_model():
    rows = {(each.paper, each.table, each.model, each.corpus) for each in published()}
    places = {(each["paper"], each["table"]) for each in STATED["places"] if "table" in each}
    assert {row[:2] for row in rows} == places
    source_rows = [row for recipe in RECIPES for row in recipe.source.published]
    figures = [figure for row in source_rows for figure in published_rows()[row]]
    covered = {(each.paper, each.table, each.model, each.corpus) for each in figures}
    of_others = {row for row in rows if row[2] in STATED["others"]}
    assert rows - covered == of_others
    assert {row[2] for row in of_others} == set(STATED["others"])


def test_recipes_name_places_and_corpora_that_there_are_and_none_is_left_over():
    for recipe in RECIPES:
        assert set(recipe.source.places) <= {f"{each['paper']} {each['place']}" for each in STATED["places"]}
        for row in recipe.source.published:
            corpus = row.partition("; ")[2].removesuffix(" 40M")
            assert not corpus or recipe.corpus.name.startswith(corpus), recipe.name
    of_papers = {recipe.name for recipe in RECIPES if recipe.source.published or recipe.source.places}
    members = {member.recipe for recipe in RECIPES for member in recipe.members}
    assert {recipe.name for recipe in RECIPES} == of_papers | members
