"""The words of a batch as ids.

Shapes: n words, U distinct ones.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from structviews.batches.shared_trees import SharedFamilies, SharedPairs, shared_constituency, shared_dependency
from structviews.batches.trees import NodeRows, TreeBatch, node_rows
from structviews.runtime.arrays import Array, group
from structviews.runtime.device import send_fields


@dataclass(frozen=True)
class WordIds:
    """The words of a batch in one vocabulary; their ids are ``distinct[inverse]``.

    A word table then reads each distinct row once, and its gradient has one row for it. Encoders likewise
    compute whatever depends only on the word once. In running text, a batch of hundreds of sentences has about a
    quarter as many distinct words as words.

    Attributes:
        distinct: ``(U,)`` the ids that occur, ascending.
        inverse: ``(n,)`` index of each word's id in ``distinct``.
        places: ``(n,)`` indices of the words, sorted by id.
        starts: ``(U,)`` start of each id in ``places``.
        further: ``(further, d)`` vectors of the last of ``distinct``, which are beyond the word table: the words of a
            vector file, in its dimensions; None if there are none.
        dependency, constituency: these words as nodes of the batch's trees, if it has them; or those trees themselves
            with equal subtrees merged.
    """

    distinct: Tensor
    inverse: Tensor
    places: Tensor
    starts: Tensor
    further: Tensor | None = None
    dependency: NodeRows | SharedFamilies | None = None
    constituency: NodeRows | SharedPairs | None = None

    @classmethod
    def of(cls, ids: np.ndarray, further: np.ndarray | None = None) -> Self:
        """From what ``Vocabulary.look_up`` returns, or ``ids (n,)``, int64, alone; linear in n and the largest id."""
        distinct, inverse, places, starts = map(torch.from_numpy, group(ids, int(ids.max(initial=-1)) + 1))
        return cls(distinct, inverse, places, starts, None if further is None else torch.from_numpy(further))

    def over(self, dependency: TreeBatch | None = None, constituency: TreeBatch | None = None) -> Self:
        """The same words with their rows as nodes of these trees; on the CPU."""

        def rows(trees: TreeBatch | None) -> NodeRows | None:
            return None if trees is None else node_rows(trees, self.inverse.numpy(), len(self.distinct))

        return replace(self, dependency=rows(dependency), constituency=rows(constituency))

    def merged(self, lengths: Array, columns: dict[str, Array]) -> Self:
        """The same words with their trees, equal subtrees merged; arguments as for ``batch.assemble``."""
        dependency = constituency = None
        words = lengths, self.inverse.numpy(), len(self.distinct)
        if "heads" in columns:
            dependency = shared_dependency(columns["heads"], columns["dep_height"], *words)
        if "left" in columns:
            constituency = shared_constituency(columns["left"], columns["right"], columns["const_height"], *words)
        return replace(self, dependency=dependency, constituency=constituency)

    def nodes_of(self, trees: TreeBatch) -> NodeRows:
        """These words as nodes of trees of this kind.

        Raises:
            ValueError: if ``over`` was not called with trees of this kind.
        """
        rows = self.constituency if trees.binary else self.dependency
        if not isinstance(rows, NodeRows):
            raise ValueError(
                f"these words have no {'constituency' if trees.binary else 'dependency'} trees: call WordIds.over"
            )
        return rows

    @property
    def own(self) -> Tensor:
        """The ids ``(U - further,)`` of ``distinct`` that are rows of the word table."""
        return self.distinct[: len(self.distinct) - self.n_further]

    @property
    def n_further(self) -> int:
        """How many of ``distinct`` are beyond the word table."""
        return 0 if self.further is None else len(self.further)

    def __len__(self) -> int:
        """The number n of words."""
        return len(self.inverse)

    def to(self, device: torch.device) -> "WordIds":
        """The ids on ``device``."""
        return send_fields(self, device)
