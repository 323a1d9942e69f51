"""What this machine has: memory, packages, and devices by name. PyTorch is imported only to try one."""

import ctypes
import math
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from structviews.errors import InputError

# Constants of glibc's malloc.h, and "never" for a threshold.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
NEVER, PAD = -1, 2**26
# Where Linux tells what there is, and a control group's limit, what it uses, and the part of it that is cached files.
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
GROUP_FILES = ("memory.max", "memory.current", "inactive_file")
OLD_GROUP_FILES = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def keep_freed_memory() -> bool:
    """Make malloc keep freed memory instead of returning it to the system; returns whether it worked (it needs glibc).

    A training step frees hundreds of megabytes. By default glibc returns large blocks to the system, which
    hands them out again, page by page and zeroed, in the next step. This takes a tenth of the step's time or more.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        return False
    # Allocate from the heap, which is never trimmed, and not by mmap, which is unmapped when it is freed.
    return all([mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, NEVER), mallopt(M_TOP_PAD, PAD)])


def available_bytes() -> int | None:
    """Memory that this process may still take: of the machine, and of its control groups; None if it is not known."""
    try:
        found = dict(line.split(":") for line in (PROC / "meminfo").read_text().splitlines())
        of_machine = 1024 * int(found["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):  # not Linux: all that it has, as what is free is not told
        pages: list[int] = [os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE") if hasattr(os, "sysconf")]
        of_machine = math.prod(pages) if pages else 0
    left = [of_machine]
    lines = []
    with suppress(OSError):
        lines = (PROC / "self/cgroup").read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        names = OLD_GROUP_FILES if controllers else GROUP_FILES
        folder = GROUPS / ("memory" if controllers else "") / path.lstrip("/")
        for each in (folder, *folder.parents):
            if GROUPS in (each, *each.parents):
                with suppress(OSError, ValueError, KeyError):  # without a limit, it says max, or has no such file
                    limit, used = (int((each / name).read_text()) for name in names[:2])
                    statistics = dict(line.split() for line in (each / "memory.stat").read_text().splitlines())
                    left.append(limit - used + int(statistics[names[2]]))  # cached files make room
    return min(filter(None, left), default=None)


def check_memory(what: str, needed: int, available: int | None, remedy: str) -> None:
    """Raise InputError if ``what`` needs more bytes than are available, before they are taken; None is enough."""
    if available is not None and needed > available:
        needs, has = needed / 1e9, available / 1e9
        raise InputError(f"{what}: needs about {needs:,.1f} GB of memory, and {has:,.1f} GB are free: {remedy}")


def require(package: str, what: str, extra: str) -> None:
    """Raise InputError unless a package is installed; the message names ``what`` needs it and the pip ``extra``."""
    try:
        import_module(package)
    except ImportError:
        raise InputError(f"{what} needs {package}: pip install 'structviews[{extra}]'") from None


def check_device(name: str) -> None:
    """Raise InputError if PyTorch cannot use a device."""
    import torch  # noqa: PLC0415 - slow to import

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        if reason.startswith(("Expected one of", "Invalid device string")):
            reason = "no such device"
        remedy = "give cpu, or cuda or cuda:1 on a machine with GPUs"
        raise InputError(f"--device {name}: {reason[:120]}: {remedy}") from None
