"""Baselines: runs that nothing was trained for, which eval and table treat like any other."""

from structviews.baselines.make import KINDS, load_baseline, make_baseline

__all__ = ["KINDS", "load_baseline", "make_baseline"]
