"""The tree cells."""

from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.nary import BinaryCell

Cell = ChildSumCell | BinaryCell
