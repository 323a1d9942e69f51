"""Encode sentences as vectors, with any kind of run."""
