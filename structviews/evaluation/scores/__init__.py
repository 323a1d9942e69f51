"""Scores: saved, compared and shown in tables."""
