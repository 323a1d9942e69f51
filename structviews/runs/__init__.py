"""A run's folder: its files, its settings and its kind."""

from pathlib import Path

# Where commands put the runs that they make, and look for those that they are given by name.
RUNS = Path("runs")
