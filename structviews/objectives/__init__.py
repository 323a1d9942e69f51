"""Training objectives: how views are made to agree."""

from structviews.objectives import pairwise  # noqa: F401 - it registers itself
from structviews.objectives.base import Objective, context_indices, create, names

__all__ = ["Objective", "context_indices", "create", "names"]
