"""The parts of ``scripts/transformers_study.py``."""
