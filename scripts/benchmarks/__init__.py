"""Modules of ``scripts/bench.py`` and the other benchmarks."""
