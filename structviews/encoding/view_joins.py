"""Which of a run's views are encoded, and how their vectors become one.

Shapes: n sentences, d dimensions of a sentence's vector.
"""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from structviews.encoding.representation import join_views, joined_width
from structviews.encoding.stored_run import StoredRun
from structviews.runs.which_vectors import Representation, numbered


class JoinedViews(StoredRun):
    """A run's views and their join.

    Attributes:
        views: names of the views, in the order of their vectors.
        representation: how sentence vectors are computed.
        only: index of the single view that is encoded; None for all views.
        run: folder that the run was loaded from, see ``StoredRun``; None if it was created in memory.
    """

    views: tuple[str, ...]
    representation: Representation
    only: int | None = None

    @property
    @abstractmethod
    def widths(self) -> list[int]:
        """Dimensions of each view's vector."""

    @property
    def view_names(self) -> list[str]:
        """Unique names of the views, see ``numbered``."""
        return numbered(self.views)

    @property
    def chosen(self) -> list[int]:
        """Indices of the views that ``encode`` computes: that of ``with_view``, or all but those of weight 0."""
        return self.representation.kept(len(self.views)) if self.only is None else [self.only]

    @property
    def dim(self) -> int:
        """Dimensions d of a sentence's vector.

        Raises:
            InputError: if the views cannot be joined.
        """
        widths = [self.widths[i] for i in self.chosen]
        return joined_width(widths, [self.views[i] for i in self.chosen], self.representation.join)

    @property
    def _representation(self) -> str:
        """Short description of the representation."""
        return str(self.representation)

    def joined(self, views: Sequence[np.ndarray]) -> np.ndarray:
        """Join the vectors ``(n, width)`` of each view into ``(n, d)``, as ``encode`` does."""
        return self._joined([views[i] for i in self.chosen])

    def _joined(self, views: Sequence[np.ndarray]) -> np.ndarray:
        """Join the vectors of the chosen views."""
        if self.only is not None:
            return views[0]
        names, weights = [self.views[i] for i in self.chosen], self.representation.weights_of(self.chosen)
        return join_views(views, names, self.representation.join, weights)
