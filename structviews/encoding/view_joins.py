"""Which of a run's views are encoded, and how their vectors become one.

Shapes: n sentences, d dimensions of a sentence's vector.
"""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from structviews.encoding.representation import join_views, joined_width
from structviews.encoding.stored_run import StoredRun
from structviews.encoding.view_gate import Gate
from structviews.errors import InputError
from structviews.runs.bundled import typed
from structviews.runs.folder import GATE
from structviews.runs.which_vectors import GATED, Representation, numbered


class JoinedViews(StoredRun):
    """A run's views and their join.

    Attributes:
        views: names of the views, in the order of their vectors.
        representation: how sentence vectors are computed.
        only: index of the single view that is encoded; None for all views.
        gate: what ``structviews gate`` fitted; None if the run has none.
        run: folder that the run was loaded from, see ``StoredRun``; None if it was created in memory.
    """

    views: tuple[str, ...]
    representation: Representation
    only: int | None = None
    gate: Gate | None = None

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
        dim = joined_width(widths, [self.views[i] for i in self.chosen], self.representation.join)
        if self._is_gated:
            self.fitted_gate()
        return dim

    @property
    def view_vectors(self) -> str:
        """Short description of the views' vectors before they are joined."""
        own = self.representation
        return str(Representation(own.pooling, own.remove_component, own.normalise))

    @property
    def _representation(self) -> str:
        """Short description of the representation."""
        return self.representation.described(self._gate_name)

    @property
    def _gate_name(self) -> str:
        """What descriptions say of the gate: vectors of one gate are not taken for those of another."""
        return f"{GATED} {self.gate.digest}" if self.gate else GATED

    @property
    def _is_gated(self) -> bool:
        return self.only is None and self.representation.join == GATED

    def fitted_gate(self) -> Gate:
        """The gate, fitted for these views and vectors.

        Raises:
            InputError: if the run has none, or it was fitted for others.
        """
        run = typed(self.run) if self.run else "RUN"
        remedy = f"fit one with `structviews gate {run}`"
        if self.gate is None:
            raise InputError(f"{run}: join = {GATED}, but there is no {GATE}: {remedy}")
        self.gate.check(self.view_names, self.view_vectors, self.widths, f"{run}/{GATE}", remedy)
        return self.gate

    def joined(self, views: Sequence[np.ndarray]) -> np.ndarray:
        """Join the vectors ``(n, width)`` of each view into ``(n, d)``, as ``encode`` does."""
        return self._joined([views[i] for i in self.chosen])

    def _joined(self, views: Sequence[np.ndarray]) -> np.ndarray:
        """Join the vectors of the chosen views."""
        if self.only is not None:
            return views[0]
        if self._is_gated:
            return self.fitted_gate().join(views)
        names, weights = [self.views[i] for i in self.chosen], self.representation.weights_of(self.chosen)
        return join_views(views, names, self.representation.join, weights)
