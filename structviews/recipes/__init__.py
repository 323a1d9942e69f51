"""Settings of the papers' models: a TOML file for each row of their tables.

A recipe has the tables ``[source]`` (paper, place in it, and what the paper leaves open) and
``[settings]``, which are those of ``TrainConfig`` but for the corpus; or, for a model whose vectors
are those of several runs side by side, ``members``, the recipes of these runs, and with
``similarity_join`` how similarity tasks join them.
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Self

from structviews.errors import InputError


@dataclass(frozen=True)
class Recipe:
    """A model of a paper.

    Attributes:
        name: of its file.
        paper: who, when, what.
        place: table and row.
        open: what the paper does not say and we chose.
        settings: names and values of ``TrainConfig``; empty for a joined model.
        members: recipes of the runs that are joined; empty for a model of one run.
        similarity_join: see ``join_runs``.
    """

    name: str
    paper: str
    place: str
    open: str
    settings: dict[str, Any]
    members: tuple[str, ...]
    similarity_join: str

    @classmethod
    def load(cls, name: str) -> Self:
        """Read a recipe.

        Raises:
            InputError: if there is none of this name.
        """
        content = tomllib.loads(text(name))
        source = content["source"]
        return cls(
            name,
            source["paper"],
            source["place"],
            source.get("open", ""),
            content.get("settings", {}),
            tuple(content.get("members", ())),
            content.get("similarity_join", ""),
        )

    @property
    def summary(self) -> str:
        """Its objective and views in a few words, or its members."""
        if self.members:
            return " + ".join(self.members)
        return f"{self.settings['objective']}: {', '.join(self.settings['views'])}"


def names() -> list[str]:
    """The recipes."""
    return sorted(file.name.removesuffix(".toml") for file in files(__name__).iterdir() if file.name.endswith(".toml"))


def text(name: str) -> str:
    """The file of a recipe.

    Raises:
        InputError: if there is none of this name.
    """
    if name not in names():
        raise InputError(f"unknown recipe {name!r}: the recipes are {', '.join(names())}")
    return files(__name__).joinpath(f"{name}.toml").read_text("utf-8")
