"""A run's TensorBoard event files, written from its log."""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from structviews.errors import InputError
from structviews.runs.folder import TENSORBOARD
from structviews.runs.log_file import PLACE, read_log


def require_tensorboard() -> None:
    """Raise InputError unless tensorboardX is installed."""
    try:
        import tensorboardX  # noqa: F401, PLC0415 - an optional dependency
    except ImportError as error:
        raise InputError(f"--tensorboard: {error}: pip install 'structviews[tensorboard]'") from None


class Events:
    """The points of a run's log for TensorBoard: ``kind/name`` by step.

    Rewrites what is already in the log, so that a run resumed from an earlier step has no duplicate
    points, and a run that turns this on later has all of them.

    Args:
        run: its folder.
    """

    def __init__(self, run: Path):
        from tensorboardX.event_file_writer import EventsWriter  # noqa: PLC0415

        folder = run / TENSORBOARD
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._writer = EventsWriter(str(folder / "events"))
        for entry in read_log(run):
            self._write(entry["kind"], entry["step"], {k: v for k, v in entry.items() if k not in PLACE})
        self._writer.flush()

    def add(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Write the points of one line of the log."""
        self._write(kind, step, values)
        self._writer.flush()

    def _write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        from tensorboardX.proto.event_pb2 import Event  # noqa: PLC0415
        from tensorboardX.summary import scalar  # noqa: PLC0415

        for name, value in values.items():
            summary = scalar(f"{kind}/{name}", value)
            self._writer.write_event(Event(wall_time=time.time(), step=step, summary=summary))
