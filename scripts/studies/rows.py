"""Rows of a study's tables, and their runs."""

import re
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

BUILTIN = "builtin"
# Trees that are not syntax, and what the tables call them.
SHAPES = {
    "trivial:balanced": "balanced",
    "trivial:right-branching": "right-branching",
    "trivial:random-heads": "random",
}
NOISE = "noise:"
# A single view of a trained pair, and two such views joined: "dep of dep,dep + const of const,const".
OF, JOINED = " of ", " + "
MAIN, CONTROL = "dep,const", "seq,seq"
FIXED, PAIRWISE, INNER = "fixed", "pairwise", "inner"


@dataclass(frozen=True)
class Row:
    """A model of the tables, whatever its seed.

    Attributes:
        views: comma-separated; or single views of trained pairs, as ``OF`` and ``JOINED`` have it.
        sentences, batch: numbers that it is trained on, 0 if it is not trained, and in a batch.
        trees: ``builtin``, a shape of the parser ``trivial``, or ``noise:`` and the labelled attachment score.
        channels: word vectors.
        objective: of the training.
        critic: how the objective scores two vectors.
        without_component: whether the vectors of the same row are scored without their first principal component.
        baseline: kind of the baseline, ``random`` with ``views``; empty if it is trained.
    """

    views: str
    sentences: int
    batch: int
    trees: str = BUILTIN
    channels: str = FIXED
    objective: str = PAIRWISE
    without_component: bool = False
    baseline: str = ""
    critic: str = INNER

    @property
    def members(self) -> list[tuple[str, "Row"]]:
        """The single views of trained pairs that it joins; empty if it joins none."""
        if OF not in self.views:
            return []
        found = [member.split(OF) for member in self.views.split(JOINED)]
        return [(view, replace(self, views=pair)) for view, pair in found]

    @property
    def trained(self) -> bool:
        """Whether it is trained itself."""
        return not (self.baseline or self.members or self.without_component)

    @property
    def name(self) -> str:
        """Name of its files."""
        if self.baseline:
            return slug(" ".join((self.baseline, self.views, self.vectors)))
        settings = ((self.trees, BUILTIN), (self.channels, FIXED), (self.objective, PAIRWISE), (self.critic, INNER))
        settings += ((self.vectors, ""),)
        special = [value for value, usual in settings if value != usual]
        return slug(" ".join((self.views, *special, f"b{self.batch}", f"n{self.sentences}")))

    @property
    def vectors(self) -> str:
        """What is special about its vectors."""
        return "without component" if self.without_component else ""

    @property
    def title(self) -> str:
        """Name in the tables, where size and batch are clear."""
        if self.baseline:
            return f"{self.views}, untrained" if self.views else f"words: {self.baseline}"
        words = [self.views]
        if self.trees in SHAPES:
            words.append(f"{SHAPES[self.trees]} trees")
        elif self.trees != BUILTIN:
            words.append(f"noise, LAS {self.trees.removeprefix(NOISE)}")
        if self.channels != FIXED:
            words.append("both channels")
        if self.objective != PAIRWISE:
            words.append(self.objective)
        if self.critic != INNER:
            words.append(self.critic)
        return ", ".join([*words, *([self.vectors] if self.vectors else [])])


def slug(text: str) -> str:
    """A file name."""
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")


class Run(NamedTuple):
    """A row with a seed."""

    row: Row
    seed: int

    @property
    def name(self) -> str:
        """Name of its folder and its file of scores."""
        return f"{self.row.name}-seed{self.seed}" if self.row.sentences or self.row.views else self.row.name


class Plan(Protocol):
    """What a study trains."""

    table: list[Row]

    def runs(self) -> list[Run]:
        """In the order in which they are made."""
