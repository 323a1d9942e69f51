"""What a tree cell is: its parameters, its equations, and the kernels that run it.

A cell is one file with a subclass of ``TreeCell``. The rest asks it: ``dispatch`` for its kernels, ``naive`` for its
equations, ``initialisation`` for its gates. Only ``message_passing`` has a function for each cell.

Shapes: U distinct words, B sentences, N nodes, R rows (``trees.NodeRows``), E edges, H hidden size, X input size.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from structviews.batches.trees import NodeRows, TreeBatch
from structviews.kernels.inference import MergedCell

# What goes from a node to its parent: the hidden state, and whatever else the cell has.
State = tuple[Tensor, ...]


class TreeCell(nn.Module, ABC):
    """A cell over trees.

    Attributes:
        binary: whether its trees are binary and have words at the leaves only; other trees have a word at each node.
        attention: whether it weighs the children.
        hidden: dimension H of a state.
    """

    binary: ClassVar[bool]
    attention: bool = False
    hidden: int

    @abstractmethod
    def node(self, x: Tensor, children: Sequence[State]) -> tuple[State, Tensor | None]:
        """The equations: the state of one node, and the weights ``(k,)`` of its children or None.

        Args:
            x: ``(X,)`` its word's vector; a node without a word does not read it.
            children: their states, ``(H,)`` each; of a binary node, the left one first.
        """

    @abstractmethod
    def level(self, vectors: Tensor, rows: NodeRows, trees: TreeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        """States ``(R, H)`` of all rows, root states ``(B, H)``, and attention ``(E,)`` or None, level by level.

        ``vectors (U, X)`` are the vectors of the distinct words.
        """

    @abstractmethod
    def merged(self, precision: str) -> MergedCell:
        """The cell without gradients over merged trees, with products of this precision, see ``Product``."""

    def gate_biases(self) -> list[Tensor]:
        """The biases that the setting ``gate_bias`` sets; none by default."""
        return []
