"""Readings in forked children, which may crash, hang or take memory without harm to this process."""

import faulthandler
import gc
import hashlib
import json
import os
import re
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from structviews.errors import InputError
from structviews.runtime.terminal import visible

SECONDS = 10
BYTES = 2 * 2**30
# Readings of one child: a fork costs about as much as reading a small file.
AT_ONCE = 40
OK, REFUSED = "ok", "refused"
FAULTS = ("traceback", "hang", "crash", "memory", "believed", "two lines", "unnamed")
NO_MEMORY = re.compile(r"can't allocate memory|bad_alloc|Cannot allocate|malloc of size|realloc of size", re.IGNORECASE)


@dataclass(frozen=True)
class Outcome:
    """How a reading ended."""

    kind: str  # ``ok``, ``refused`` (an InputError), or one of ``FAULTS``
    detail: str = ""  # the message; of a fault, what and where
    content: str = ""  # hash of what was read


def observe(readings: Sequence[Callable[[], Any]]) -> list[Outcome]:
    """The outcome of each reading; those after one that ended its child go on in another."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(readings):
        outcomes += _in_child(readings[len(outcomes) :][:AT_ONCE])
    return outcomes


def _in_child(readings: Sequence[Callable[[], Any]]) -> list[Outcome]:
    """Outcomes of the first readings, at least of one: the last of them may have ended the child."""
    with TemporaryFile() as results, TemporaryFile() as errors:
        child = os.fork()
        if not child:
            _read_all(readings, results.fileno(), errors.fileno())
        _, status = os.waitpid(child, 0)
        results.seek(0)
        errors.seek(0)
        outcomes = [Outcome(**json.loads(line)) for line in results]
        if len(outcomes) < len(readings):
            outcomes.append(_of_death(status, " ".join(errors.read().decode(errors="replace").split())[:300]))
        return outcomes


def _read_all(readings: Sequence[Callable[[], Any]], results: int, errors: int) -> None:
    """In the child: read, write outcomes, never return. ``faulthandler`` ends what hangs."""
    gc.freeze()  # memory that is shared with the parent stays so
    os.dup2(errors, 2)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    faulthandler.enable(2)
    try:
        for reading in readings:
            faulthandler.dump_traceback_later(SECONDS, exit=True, file=2)
            line = json.dumps(asdict(_attempt(reading))).encode() + b"\n"
            faulthandler.cancel_dump_traceback_later()
            os.write(results, line)
    finally:
        os._exit(0)


def _attempt(reading: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(OK, content=digest(reading()))
    except InputError as error:
        return Outcome(REFUSED, visible(str(error)))
    except BaseException as error:
        kind = "memory" if isinstance(error, MemoryError) or NO_MEMORY.search(str(error)) else "traceback"
        where = traceback.extract_tb(error.__traceback__)[-1]
        what = " ".join(f"{type(error).__name__}: {error}".split())[:160]
        return Outcome(kind, f"{what} ({Path(where.filename).name}:{where.lineno} in {where.name})")


def _of_death(status: int, errors: str) -> Outcome:
    """The outcome of the reading at which a child ended; ``faulthandler`` says where."""
    if "Timeout (" in errors:
        return Outcome("hang", f"over {SECONDS} s ({errors})")
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return Outcome("memory" if NO_MEMORY.search(errors) else "crash", f"{name} ({errors})")
    return Outcome("crash", f"exit code {os.waitstatus_to_exitcode(status)} ({errors})")


def digest(value: Any) -> str:
    """A hash of what was read; equal contents have equal ones."""
    sha = hashlib.sha256()
    _feed(sha, value)
    return sha.hexdigest()


def _feed(sha: Any, value: Any) -> None:
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        sha.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        _feed(sha, vars(value) if hasattr(value, "__dict__") else asdict(value))
    elif isinstance(value, dict):
        _feed(sha, sorted(value.items(), key=lambda item: str(item[0])))  # equal in any order
    elif isinstance(value, (str, bytes)):
        sha.update(value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass"))
    elif hasattr(value, "__iter__") and not isinstance(value, Path):
        sha.update(b"(")
        for item in value:
            _feed(sha, item)
            sha.update(b",")
        sha.update(b")")
    else:
        sha.update(repr(value).encode("utf-8", "surrogatepass"))


def judged(outcome: Outcome, *, names: Sequence[str], original: str | None, must_refuse: bool) -> Outcome:
    """An outcome of reading a damaged sample, by the reader's promise.

    Args:
        names: one of which a refusal must have: the damaged file's, or that of its folder.
        original: the hash that the content must still have; None if any content will do.
        must_refuse: whether reading without an error is a fault even with the right content.
    """
    if outcome.kind == REFUSED and "\n" in outcome.detail:
        return replace(outcome, kind="two lines")
    if outcome.kind == REFUSED and not any(name in outcome.detail for name in names):
        return replace(outcome, kind="unnamed")
    if outcome.kind == OK and (must_refuse or original not in (None, outcome.content)):
        same = "the same" if outcome.content == original else "another"
        return Outcome("believed", f"no error, {same} content")
    return outcome
