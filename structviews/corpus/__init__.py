"""The parsed corpus: sentences with their trees, on disk and in memory."""
