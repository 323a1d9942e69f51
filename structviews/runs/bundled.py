"""The bundled model and its name, ``default``.

``scripts/default_model.py`` makes it (see docs/default-model.md). Its folder is read-only.
"""

from collections.abc import Iterable
from pathlib import Path

from structviews.errors import InputError

NAME = "default"
FOLDER = Path(__file__).parents[1] / "models" / NAME
MISSING = f"{NAME}: this copy of structviews has no bundled model: name a run, or ./{NAME} for a folder of that name"


def run_folder(run: str | Path) -> Path:
    """The folder of a run as the user names it; the text ``default`` is the bundled model.

    Write ``./default``, or pass a ``Path``, for a folder of that name.
    """
    return FOLDER if run == NAME else Path(run)


def typed(run: Path) -> str:
    """A run's folder as the user names it."""
    if run == FOLDER:
        return NAME
    return f"./{run}" if str(run) == NAME else str(run)


def check_own(runs: Iterable[Path]) -> None:
    """Refuse to write to the bundled model.

    Raises:
        InputError: if it is one of the runs.
    """
    if FOLDER in runs:
        raise InputError(
            f"{NAME}: the bundled model is read-only: use a copy, which `structviews pull {NAME} -o runs/{NAME}` makes"
        )
