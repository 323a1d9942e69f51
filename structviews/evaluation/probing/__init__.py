"""Probing tasks from a parsed corpus: which properties of a sentence its vector encodes."""
