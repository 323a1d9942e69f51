"""Evaluation protocols, one per module: data splits, folds and regularisation grids.

Each module registers a ``Protocol`` under the name that ``--protocol`` takes.
"""

from typing import Any

from structviews.registry import Registry

PROTOCOLS: Registry[Any] = Registry("protocol", __name__, "structviews.protocols")
