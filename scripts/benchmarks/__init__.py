"""What ``scripts/bench.py`` measures, one part a module."""
