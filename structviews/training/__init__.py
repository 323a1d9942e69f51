"""Training: the loop, its state, what it tells, and what goes before it."""
