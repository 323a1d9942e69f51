"""How a sentence's vector is computed at test time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from structviews.errors import InputError
from structviews.runtime.wording import counted
from structviews.settings import Settings, setting

POOLINGS = ("vector", "pooled", "mean")
JOINS = ("concatenation", "average")
# Settings with a weight for each view.
WEIGHTS = ("view_weights", "similarity_view_weights")
weights_setting = partial(setting, (), least=0, most=1e6, metavar="X,X")
# The sentences of an evaluation task that a transductive representation is fitted on: all, or each part of them alone.
FITTED_ON = ("task", "part")


@dataclass(frozen=True)
class Representation(Settings):
    """How a sentence's vector is computed at test time.

    ``transductive`` fits the removed component on the encoded sentences instead of using the stored one; it is not a
    setting of training.

    Raises:
        InputError: for an unknown value, ``transductive`` without ``remove_component``, or weights of 0 alone.
    """

    pooling: str = setting(
        "vector",
        "vector, as scored in training; pooled: max, mean, min and last of the states; or mean of the states.",
        choices=POOLINGS,
    )
    remove_component: bool = setting(False, "Remove the first principal component of each view's vectors.")
    normalise: bool = setting(False, "Scale each view's vector to length 1.")
    join: str = setting(
        "concatenation", "concatenation of the views' vectors, or average of the normalised vectors.", choices=JOINS
    )
    view_weights: tuple[float, ...] = weights_setting(
        "Weight of each view where views are joined, such as 1,1,2; 0 leaves a view out.", show_default="1 each"
    )
    similarity_pooling: str = setting(
        "", "Pooling for similarity tasks.", choices=("", *POOLINGS), show_default="as --pooling", rare=True
    )
    similarity_join: str = setting(
        "", "Join for similarity tasks.", choices=("", *JOINS), show_default="as --join", rare=True
    )
    similarity_view_weights: tuple[float, ...] = weights_setting(
        "Weight of each view for similarity tasks.", show_default="as --view-weights", rare=True
    )
    transductive: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in WEIGHTS:
            weights = getattr(self, name)
            if weights and not any(weights):
                raise InputError(f"{name} = {listed(weights)}: leaves out all views: give one of them more than 0")
        if self.transductive and not self.remove_component:
            raise InputError("transductive = true, but no component is removed: give --remove-component too")

    def check_views(self, views: Sequence[str]) -> None:
        """Raise InputError unless there is a weight for each of these views, or none at all."""
        for name in WEIGHTS:
            weights = getattr(self, name)
            if weights and len(weights) != len(views):
                raise InputError(
                    f"{name} = {listed(weights)}: {counted(len(weights), 'weight')} for "
                    f"{counted(len(views), 'view')}: give one each for {', '.join(views)}"
                )

    def for_similarity(self) -> Self:
        """The representation for similarity tasks."""
        return replace(
            self,
            pooling=self.similarity_pooling or self.pooling,
            join=self.similarity_join or self.join,
            view_weights=self.similarity_view_weights or self.view_weights,
            similarity_pooling="",
            similarity_join="",
            similarity_view_weights=(),
        )

    def __str__(self) -> str:
        """A short form, such as ``pooled - pc, l2; similarity: mean - pc, average, weights 1,1,2``."""
        similarity = self.for_similarity()
        own = replace(self, similarity_pooling="", similarity_join="", similarity_view_weights=())
        removed = " - pc" * self.remove_component + " (transductive)" * self.transductive
        text = f"{self.pooling}{removed}" + ", l2" * self.normalise
        text += "" if self.join == "concatenation" else f", {self.join}"
        text += f", weights {listed(self.view_weights)}" if self.view_weights else ""
        return text if similarity == own else f"{text}; similarity: {similarity}"


@dataclass(frozen=True)
class Choice:
    """What was chosen on an embedder, to choose it on another one of the same run."""

    representation: Representation
    only: int | None  # index of the single view that is encoded; None for all views
    members: tuple["Choice", ...] = ()  # the same for each member of a joined run

    @property
    def is_transductive(self) -> bool:
        """Whether a vector depends on the other sentences."""
        return self.representation.transductive or any(member.is_transductive for member in self.members)


def listed(weights: Sequence[float]) -> str:
    """Weights as typed, such as ``1,1,0.5``."""
    return ",".join(f"{weight:g}" for weight in weights)


def numbered(views: Sequence[str]) -> list[str]:
    """Unique names of views: repeated ones are numbered, as ``seq.1`` and ``seq.2``."""
    return [f"{name}.{views[: i + 1].count(name)}" if views.count(name) > 1 else name for i, name in enumerate(views)]
