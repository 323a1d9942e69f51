"""The join of a recipe's members."""

from pathlib import Path

from structviews.encoding.kinds.joined import holds_joined, join_runs
from structviews.recipes.recipe import Recipe


def join_members(recipe: Recipe, out: Path) -> Path:
    """The joined run of a recipe, whose members lie beside it; created unless it exists."""
    runs = [out.parent / member.folder for member in recipe.members]
    return out if holds_joined(out, runs) else join_runs(runs, out, recipe.join, recipe.similarity_join)
