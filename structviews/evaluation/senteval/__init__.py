"""SentEval's tasks, the protocols that score them, and their solvers."""
