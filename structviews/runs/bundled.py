"""The bundled models, such as ``default``: runs in folders of the package, by their folders' names.

``scripts/default_model.py`` makes them (see docs/default-model.md). Their folders are read-only.
"""

from collections.abc import Iterable
from pathlib import Path

from structviews.errors import InputError

MODELS = Path(__file__).parents[1] / "models"


def bundled_names() -> list[str]:
    """The names of the bundled models, sorted."""
    return sorted(path.name for path in MODELS.iterdir() if path.is_dir()) if MODELS.is_dir() else []


def or_bundled() -> str:
    """The end of a sentence on what could be given: a bundled model, if there are any."""
    names = bundled_names()
    return f", or a bundled model: {', '.join(names)}" if names else " (this copy of structviews has no bundled model)"


def run_folder(run: str | Path) -> Path:
    """The folder of a run as the user names it; a text that is the name of a bundled model is that model.

    Write ``./default``, or pass a ``Path``, for a folder of that name.
    """
    return MODELS / run if run in bundled_names() else Path(run)


def is_bundled(run: Path) -> bool:
    """Whether a folder is that of a bundled model."""
    return run.parent == MODELS


def typed(run: Path) -> str:
    """A run's folder as the user names it."""
    if is_bundled(run):
        return run.name
    return f"./{run}" if str(run) in bundled_names() else str(run)


def check_own(runs: Iterable[Path | None]) -> None:
    """Refuse to write to a bundled model: raise InputError if it is one of the runs."""
    for name in (run.name for run in runs if run and is_bundled(run)):
        raise InputError(
            f"{name}: bundled models are read-only: use a copy, which `structviews pull {name} -o runs/{name}` makes"
        )
