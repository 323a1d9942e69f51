"""The parts of ``scripts/view_pairs.py``."""
