"""Syntax-aware, multi-view sentence embeddings."""

__version__ = "0.1.0"
