"""Retrieval: next sentences, nearest neighbours, analogies and captions."""
