"""How a sentence's vector is computed at test time."""

from dataclasses import dataclass, replace
from typing import Self

from structviews.errors import InputError
from structviews.settings import Settings, setting

POOLINGS = ("vector", "pooled", "mean")
JOINS = ("concatenation", "average")


@dataclass(frozen=True)
class Representation(Settings):
    """How a sentence's vector is computed at test time.

    ``transductive`` fits the removed component on the encoded sentences instead of using the run's own; it is not a
    setting of training.

    Raises:
        InputError: for an unknown value, or ``transductive`` without ``remove_component``.
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
    similarity_pooling: str = setting(
        "", "Pooling for similarity tasks.", choices=("", *POOLINGS), show_default="as --pooling", rare=True
    )
    similarity_join: str = setting(
        "", "Join for similarity tasks.", choices=("", *JOINS), show_default="as --join", rare=True
    )
    transductive: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.transductive and not self.remove_component:
            raise InputError("transductive = true, but no component is removed: give --remove-component too")

    def for_similarity(self) -> Self:
        """The representation for similarity tasks."""
        return replace(
            self,
            pooling=self.similarity_pooling or self.pooling,
            join=self.similarity_join or self.join,
            similarity_pooling="",
            similarity_join="",
        )

    def __str__(self) -> str:
        """A short form, such as ``pooled - pc, l2; similarity: mean - pc, average``."""
        similarity = self.for_similarity()
        own = replace(self, similarity_pooling="", similarity_join="")
        removed = " - pc" * self.remove_component + " (transductive)" * self.transductive
        text = f"{self.pooling}{removed}" + ", l2" * self.normalise + ", average" * (self.join == "average")
        return text if similarity == own else f"{text}; similarity: {similarity}"
