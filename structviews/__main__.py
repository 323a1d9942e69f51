"""``python -m structviews``."""

from structviews.cli.app import main

main()
