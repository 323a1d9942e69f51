"""Freed memory is used again without asking the system."""

import subprocess
import sys

import pytest

CODE = """
import resource, sys
import torch
from structviews.memory import keep_freed_memory

could = keep_freed_memory() if sys.argv[1] == "keep" else True
for _ in range(20):  # until it has found its places
    torch.ones(2**24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    torch.ones(2**24)
print(int(could), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_freed_memory_is_kept():
    def pages_asked_for(way):
        done = subprocess.run([sys.executable, "-c", CODE, way], capture_output=True, text=True, check=True)
        could, pages = map(int, done.stdout.split())
        if not could:
            pytest.skip("needs glibc")
        return pages

    # Five times 64 MB: in pages of 4 kB that is 80,000, in large ones 160.
    assert pages_asked_for("keep") < 20
    assert pages_asked_for("give back") > 100
