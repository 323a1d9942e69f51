"""An interactive page and JSON endpoints for runs: ``structviews serve``."""
