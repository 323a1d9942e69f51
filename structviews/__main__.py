"""``python -m structviews``."""

from structviews.cli import main

main()
