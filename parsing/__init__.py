"""The offline stage: parse raw text into a corpus on disk."""
