"""Evaluation protocols: data splits, folds, classifiers and their grids.

A module registers a ``Protocol`` under the name that ``--protocol`` takes.
"""

from typing import Any

from structviews.registry import Registry

PROTOCOLS: Registry[Any] = Registry("protocol", __name__, "structviews.protocols")
