"""The command ``structviews``, also as ``python -m structviews``."""

import sys

from structviews.errors import interrupted


def main() -> None:
    """Run the command line; an interrupt ends it with one line, also while it is still being imported."""
    try:
        from structviews.cli.app import main as run  # noqa: PLC0415 - takes long enough to be interrupted

        run()
    except SystemExit:
        raise
    except BaseException as error:
        if not interrupted(error):
            raise
        sys.stderr.write("stopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
