"""Freed memory is used again without asking the system; little is kept for shapes that do not come again."""

import os
import subprocess
import sys

import pytest

from structviews.runtime.memory import keep_few_shapes

CODE = """
import resource, sys
import torch
from structviews.runtime.memory import keep_freed_memory

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


def test_few_shapes_are_kept_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "7")
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "")  # so that what is set is taken away again
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY")
    keep_few_shapes()
    assert os.environ["LRU_CACHE_CAPACITY"] == "7"
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "16"
