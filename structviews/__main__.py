"""The command ``structviews``, also as ``python -m structviews``."""

import _thread
import atexit
import gc
import sys
from contextlib import suppress
from threading import Timer
from typing import Any

from structviews.errors import interrupted


def main() -> None:
    """Run the command line; an interrupt ends it with one line, also while it is still being imported."""
    sys.unraisablehook = interrupt_again
    # Importing PyTorch makes several hundred thousand objects that stay. Looking through them for garbage each 700 new
    # ones, and once more at the end, takes a fifth of a short command's time.
    gc.set_threshold(10_000)
    atexit.register(gc.freeze)
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


def interrupt_again(found: Any) -> None:
    """Let an interrupt that met a finaliser, where nothing can be raised, come once more instead of being lost."""
    if isinstance(found.exc_value, KeyboardInterrupt):
        again = Timer(0.05, _thread.interrupt_main)  # when this function has returned
        again.daemon = True
        with suppress(RuntimeError):  # Python is ending, and so does the command
            again.start()
    else:
        sys.__unraisablehook__(found)


if __name__ == "__main__":
    main()
