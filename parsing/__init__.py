"""The offline stage: raw text to a parsed corpus on disk."""
