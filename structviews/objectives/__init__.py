"""Training objectives: how views are made to agree."""

from structviews.objectives import consensus, generative, pairwise, quick_thoughts  # noqa: F401 - they register themselves
from structviews.objectives.base import (
    Context,
    ContextWords,
    Inputs,
    Objective,
    context_indices,
    create,
    extra_names,
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
    "extra_names",
    "names",
    "next_indices",
    "options",
]
