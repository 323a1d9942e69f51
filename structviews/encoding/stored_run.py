"""A loaded run's folder, and copies of it."""

import warnings
from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path

from structviews.errors import InputError
from structviews.runs.copying import copy_run
from structviews.runs.which_vectors import Representation

# A representation, and the index of a single view or None for all views.
Choice = tuple[Representation, int | None]


class StoredRun(ABC):
    """A run that may have a folder, which can be copied elsewhere.

    Attributes:
        run: folder that the run was loaded from; None if it was created in memory.
        stored: the ``choices`` that the folder has, so that others are not saved as if they were.
    """

    run: Path | None = None
    stored: list[Choice] | None = None

    @property
    @abstractmethod
    def choices(self) -> list[Choice]:
        """Representation and view selected on this run and, for a joined run, on its members."""

    @property
    def folder(self) -> Path:
        """The run's folder.

        Raises:
            InputError: if the run was created in memory.
        """
        if self.run is None:
            raise InputError("a run created in memory has no folder: load a run from its folder")
        return self.run

    def save(self, folder: str | Path) -> None:
        """Copy the whole run, but for the state of its training, to a folder, which appears complete or not at all.

        Raises:
            InputError: if the run was created in memory, or another representation or view was chosen than its own; if
                the folder is inside the run, or exists and is not empty.
        """
        copy_run(self._as_stored(), Path(folder))

    def push_to_hub(
        self, repo_id: str, *, private: bool = False, licence: str = "", card: str | Path | None = None
    ) -> str:
        """Upload the run to the Hugging Face Hub, as ``structviews push`` does; what it leaves out is warned of.

        Args:
            repo_id: OWNER/NAME; the repository is created if necessary.
            private: whether a new repository is private.
            licence: licence identifier of the Hub, for the model card.
            card: file with a custom model card.

        Returns:
            The URL of the commit.

        Raises:
            InputError: as ``save``; if the run cannot be shared, or the Hub cannot be reached or refuses the upload.
        """
        # By its name, as a registry finds its parts: the Hub's model cards have scores, so it stands on a floor above.
        push = import_module("structviews.hub.transfer").push
        pushed = push(self._as_stored(), repo_id, private=private, licence=licence, card=Path(card) if card else None)
        for note in pushed.notes:
            warnings.warn(note, stacklevel=2)
        url: str = pushed.url
        return url

    def _as_stored(self) -> Path:
        """The run's folder, if it has what was chosen on this embedder."""
        folder = self.folder
        if self.choices != self.stored:
            what = "the run's own representation and views are saved, but others were chosen"
            raise InputError(f"{folder}: {what}: save the run as it was loaded, and choose again where it is loaded")
        return folder
