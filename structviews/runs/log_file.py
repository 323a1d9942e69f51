"""A run's ``log.jsonl``: a line per logged step."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from structviews.errors import InputError
from structviews.runs.folder import LOG
from structviews.runtime.documents import converted, parse_json
from structviews.runtime.files import write_bytes

# A number that TensorBoard can keep.
Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class LogEntry(TypedDict):
    """A line of the log; its further keys are metrics, which are numbers."""

    kind: str
    step: Whole
    epoch: Whole


PLACE = tuple(LogEntry.__annotations__)


def append_log(run: Path, entry: LogEntry, metrics: Mapping[str, float]) -> None:
    """Append a line."""
    line = json.dumps({**entry, **{name: round(value, 6) for name, value in metrics.items()}})
    with (run / LOG).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def read_log(run: Path) -> list[dict[str, Any]]:
    """A run's log; empty if it has none. A last line that was cut short by a kill, or is damaged, is left out.

    Raises:
        InputError: if another line is not a log entry.
    """
    path = run / LOG
    lines = path.read_bytes().splitlines() if path.exists() else []
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(_entry(line, f"{path}:{number}"))
        except InputError:
            if number < len(lines):
                raise
    return entries


def _entry(line: bytes, place: str) -> dict[str, Any]:
    remedy = "remove this line"
    entry: Mapping[str, Any] = parse_json(line, LogEntry, place, remedy)
    converted({name: value for name, value in entry.items() if name not in PLACE}, dict[str, float], place, remedy)
    return {**entry}


def cut_log(run: Path, step: int) -> None:
    """Drop lines after the step that training resumes from, as they will be written again, and damaged ones."""
    path = run / LOG
    if not path.exists():
        return
    kept = []
    for line in path.read_bytes().splitlines():
        with suppress(InputError):
            if _entry(line, "")["step"] <= step:
                kept.append(line + b"\n")
    write_bytes(path, b"".join(kept))
