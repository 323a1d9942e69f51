"""The model that comes with the package, and the name that stands for it.

Made by ``scripts/default_model.py``; docs/default-model.md says how. Nothing is ever written to its folder.
"""

from collections.abc import Iterable
from pathlib import Path

from structviews.errors import InputError

NAME = "default"
FOLDER = Path(__file__).parent / "models" / NAME
MISSING = f"{NAME}: this copy of structviews came without its model: name a run; ./{NAME} is a folder of that name"


def run_folder(run: str | Path) -> Path:
    """The folder of a run that a user names: by the text ``default`` that of the model in the package.

    A folder of that name is ``./default``, or a ``Path``.
    """
    return FOLDER if run == NAME else Path(run)


def typed(run: Path) -> str:
    """A run's folder as a user names it."""
    return NAME if run == FOLDER else str(run)


def check_own(runs: Iterable[Path]) -> None:
    """Refuse to write into the package.

    Raises:
        InputError: if one of the runs is the model in it.
    """
    if FOLDER in runs:
        raise InputError(
            f"{NAME}: is read only, as it is part of structviews: give a copy of your own, which "
            f"`structviews pull {NAME} -o runs/{NAME}` makes"
        )
