"""Freed memory is used again without asking the system; how much is left is known."""

import subprocess
import sys

import pytest

from structviews.errors import InputError
from structviews.runtime import machine

CODE = """
import resource
import torch
from structviews.runtime.machine import keep_freed_memory

def pages():
    counts = []
    for _ in range(13):  # it has found its places after eight; on a busy machine it may lose one once
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(2**23)
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return sorted(counts[8:])[2]

print(pages(), int(keep_freed_memory()), pages())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_freed_memory_is_kept():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    given_back, could, pages = map(int, done.stdout.split())
    if not could:
        pytest.skip("needs glibc")
    # 32 MB: in pages of 4 kB that is 8,192, in large ones 16.
    assert given_back > 10
    assert pages < 4


GIB = 2**30
STATISTICS = f"anon 1\ninactive_file {GIB}\ntotal_inactive_file {2 * GIB}\n"
NEW, OLD = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")


@pytest.mark.parametrize(
    ("groups", "folder", "names", "gibibytes", "left"),
    [
        ("0::/\n", "", NEW, (), 8),
        ("0::/\n", "", NEW, (4, 2), 3),
        ("0::/a/b\n", "a", NEW, (4, 1), 4),
        ("9:cpu:/x\n4:memory:/a\n", "memory/a", OLD, (4, 3), 3),
    ],
)
def test_what_is_available(tmp_path, monkeypatch, groups, folder, names, gibibytes, left):
    monkeypatch.setattr(machine, "PROC", tmp_path / "proc")
    monkeypatch.setattr(machine, "GROUPS", tmp_path / "groups")
    meminfo = f"MemTotal: 1 kB\nMemAvailable: {8 * 2**20} kB\n"
    written = {"proc/meminfo": meminfo, "proc/self/cgroup": groups, f"groups/{folder}/memory.stat": STATISTICS}
    written |= {f"groups/{folder}/{name}": f"{n * GIB}\n" for name, n in zip(names, gibibytes, strict=False)}
    for name, content in written.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert machine.available_bytes() == left * GIB


def test_memory_that_is_not_there_is_one_line():
    machine.check_memory("x", 10**9, None, "lower y")
    machine.check_memory("x", 10**9, 10**9, "lower y")
    with pytest.raises(InputError, match=r"^x: needs about 1\.5 GB of memory, and 1\.0 GB are free: lower y$"):
        machine.check_memory("x", 1_500_000_000, 10**9, "lower y")
