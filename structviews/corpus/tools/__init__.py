"""Parsed corpora as wholes: merge, split, verify, count."""
