"""A page to play with runs, and JSON endpoints for programs: ``structviews serve``."""
