"""Settings of the papers' models: one TOML file for each row of their tables.

A recipe has a table ``[source]`` (paper, place in it, and what the paper leaves open) and a table ``[settings]``,
with the settings of ``TrainConfig`` except the corpus. A recipe that joins several runs has instead ``members``, the
recipes of these runs, and ``similarity_join``, their join for similarity tasks.
"""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Self

from structviews.errors import unknown


@dataclass(frozen=True)
class Recipe:
    """A model of a paper.

    Attributes:
        name: of its file.
        paper: authors, year and title.
        place: table and row.
        open: what the paper leaves open, and our choices.
        settings: settings of ``TrainConfig`` by name; empty for a joined model.
        members: recipes of the joined runs; empty for a single run.
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
            InputError: if no recipe has this name.
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
        """Its objective and views, or its members, in short."""
        if self.members:
            return " + ".join(self.members)
        return f"{self.settings['objective']}: {', '.join(self.settings['views'])}"


def names() -> list[str]:
    """The names of the recipes, sorted."""
    return sorted(file.name.removesuffix(".toml") for file in files(__name__).iterdir() if file.name.endswith(".toml"))


def text(name: str) -> str:
    """The text of a recipe's file.

    Raises:
        InputError: if no recipe has this name.
    """
    if name not in names():
        raise unknown("recipe", name, names())
    return files(__name__).joinpath(f"{name}.toml").read_text("utf-8")
