"""The files that a source is read from."""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from structviews.errors import InputError
from structviews.parsing import text


class SurveyedFile:
    """A file and its ``text.survey`` from when it was first read."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.survey = text.survey(path, name)

    def describe(self) -> dict[str, Any]:
        """The file's entry in the manifest."""
        return {"sha256": self.survey.sha256, "bytes": self.survey.bytes}

    def changed(self) -> bool:
        """Whether the content has changed or can no longer be read; read again only if ``file_state`` differs."""
        if text.file_state(self.path) == self.survey.state:
            return False
        try:
            again = text.survey(self.path, self.name)
        except InputError:
            return True
        if again.sha256 != self.survey.sha256:
            return True
        self.survey = again
        return False


def spooled_stdin() -> Any:
    """Copy standard input to a temporary file, which is deleted when it is closed."""
    try:
        spool = tempfile.NamedTemporaryFile(prefix="structviews-", suffix=".txt")  # noqa: SIM115 - outlives this call
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()
    except OSError as error:
        folder = tempfile.gettempdir()
        raise InputError(
            f"standard input cannot be stored in {folder} ({error.strerror}): set TMPDIR to a folder with more space"
        ) from None
    return spool
