"""Commands in forked children of this process, which has everything imported: they start in milliseconds."""

import ctypes
import gc
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

import structviews
import structviews.parsing
from structviews.__main__ import main
from structviews.cli import console

SECONDS_TO_STOP = 10
CAPABILITIES_VERSION = 0x20080522


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None  # negative after a signal; None if it did not end in time
    errors: str
    left: bool = False  # whether it left processes of its own behind

    @property
    def fault(self) -> str:
        """What no command may do, however it is disturbed."""
        if self.code is None:
            return f"hangs: {self.errors[-200:]!r}"
        if "Traceback" in self.errors:
            return f"traceback: {self.errors.splitlines()[-1][:200]}"
        return "leaves processes behind" if self.left else ""


def import_all() -> None:
    """Import what commands would import when they run."""
    for package in (structviews, structviews.parsing):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)


@dataclass
class Process:
    """A running command."""

    pid: int
    errors: Path

    def send(self, number: int) -> None:
        """Send a signal: Ctrl-C to all its processes, as a terminal does; others to itself."""
        with suppress(ProcessLookupError):
            (os.killpg if number == signal.SIGINT else os.kill)(self.pid, number)

    def wait(self, seconds: float) -> Ended:
        """Wait for its end, and for that of the processes it started; kill what is left then."""
        until = time.monotonic() + seconds
        code = None
        while code is None and time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if pid else time.sleep(0.002)
        until = time.monotonic() + SECONDS_TO_STOP
        while (left := self._has_processes()) and code is not None and time.monotonic() < until:
            time.sleep(0.01)
        if left:
            os.killpg(self.pid, signal.SIGKILL)
        if code is None:
            os.waitpid(self.pid, 0)
        return Ended(code, self.errors.read_text(errors="replace"), left and code is not None)

    def _has_processes(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def start(arguments: Sequence[str], folder: Path, errors: Path, prepare: Callable[[], object] | None = None) -> Process:
    """Start ``structviews ARGUMENTS`` in a folder, whose ``.home`` stands for the user's, after ``prepare``."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Process(pid, errors)
    code = 1
    try:
        _enter(folder, errors)
        if prepare:
            prepare()
        sys.argv = ["structviews", *arguments]
        main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _enter(folder: Path, errors: Path) -> None:
    """Make this process as the shell would make it."""
    gc.freeze()  # memory that is shared with the parent stays so
    os.setpgid(0, 0)
    os.chdir(folder)
    home = str(folder / ".home")
    os.environ |= {"HOME": home, "XDG_CACHE_HOME": home, "TMPDIR": home, "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    tempfile.tempdir = None
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    console.console.file, console.errors.file = sys.stdout, sys.stderr
    # What started this process is no concern of the workers that a command starts.
    sys.modules["__main__"] = ModuleType("__main__")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("default")


def small_files(size: int) -> None:
    """Let no file of this process be larger, as if the disk were full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def without_privileges() -> None:
    """Give up root's right to write where the modes of folders forbid it."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    if libc.capset(header, none):
        raise OSError(ctypes.get_errno(), "capset")
