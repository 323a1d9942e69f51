"""The demo: a corpus, view pairs and a table, without network or data."""
