"""Training objectives: how views are made to agree."""

from structviews.objectives import pairwise  # noqa: F401 - it registers itself
from structviews.objectives.base import (
    Context,
    ContextWords,
    Inputs,
    Objective,
    context_indices,
    create,
    names,
    next_indices,
    options,
)

__all__ = [
    "Context",
    "ContextWords",
    "Inputs",
    "Objective",
    "context_indices",
    "create",
    "names",
    "next_indices",
    "options",
]
