"""Evaluation: SentEval's tasks and protocols, probing tasks, retrieval, and score tables."""
