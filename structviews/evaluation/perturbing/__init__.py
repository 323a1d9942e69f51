"""Sentences altered by rules over their trees, and how far their vectors move."""
