"""A run's folder: its files, its settings and its kind."""
