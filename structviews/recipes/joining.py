"""The join of a recipe's members."""

from pathlib import Path

from structviews.encoding.kinds.joined import Member, holds_joined, join_runs
from structviews.errors import InputError
from structviews.recipes.recipe import Recipe
from structviews.runs.folder import weight_files


def join_members(recipe: Recipe, out: Path) -> Path:
    """The joined run of a recipe, whose members lie beside it; created unless it exists.

    Raises:
        InputError: if it cannot be created, or its members have changed since.
    """
    if not is_joined(recipe, out):
        if weight_files(out):
            raise no_longer_joined(out)
        join_runs(_members(recipe, out), out, recipe.join, recipe.similarity_join)
    return out


def no_longer_joined(out: Path) -> InputError:
    """The error that a folder holds an older join, or another one."""
    return InputError(
        f"{out}: not a join of its members as they would be now: delete it, or give another folder with --out"
    )


def is_joined(recipe: Recipe, out: Path) -> bool:
    """Whether a folder holds the joined run of a recipe."""
    return holds_joined(out, _members(recipe, out))


def _members(recipe: Recipe, out: Path) -> list[Member]:
    return [Member(out.parent / each.folder, each.view) for each in recipe.members]
