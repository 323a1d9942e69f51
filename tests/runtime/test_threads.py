"""Independent work in threads of one PyTorch thread each."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from structviews.runtime import threads
from structviews.runtime.threads import in_threads


@pytest.fixture(autouse=True)
def _three_threads(monkeypatch):
    monkeypatch.setattr(threads, "_busy_until", 0.0)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def about(item):
    time.sleep(0.02)
    return item, threading.get_ident(), torch.get_num_threads()


def test_each_item_has_one_thread_and_the_results_keep_their_order():
    items, where, each = zip(*in_threads(about, range(12)), strict=True)
    assert items == tuple(range(12))
    assert len(set(where)) == 3
    assert threading.get_ident() not in where
    assert set(each) == {1}
    assert torch.get_num_threads() == 3
    with ThreadPoolExecutor(1) as new:
        assert new.submit(torch.get_num_threads).result() == 3


def test_a_single_item_has_all_threads_on_a_quiet_machine_and_one_on_a_busy_one(monkeypatch):
    [*in_threads(about, range(6))]  # several threads of Python wait for one another, which says nothing
    assert [*in_threads(lambda _: torch.get_num_threads(), [0])] == [3]
    [*in_threads(about, [0])]  # which sleeps, as if another process had the core
    assert [*in_threads(lambda _: torch.get_num_threads(), [0])] == [1]
    monkeypatch.setattr(threads, "perf_counter", lambda real=time.perf_counter: real() + 2 * threads.SECONDS)
    assert [*in_threads(lambda _: torch.get_num_threads(), [0])] == [3]


def test_after_an_error_no_further_item_is_begun():
    begun = []

    def fail(item):
        begun.append(item)
        time.sleep(0.02)
        if item == 1:
            raise KeyError(item)
        return item

    results = in_threads(fail, range(100))
    assert next(results) == 0
    with pytest.raises(KeyError):
        next(results)
    time.sleep(0.1)
    assert len(begun) < 20


def test_a_forked_process_has_threads_of_its_own():
    code = """
import os, torch
from structviews.runtime.threads import in_threads
torch.set_num_threads(2)
assert [*in_threads(abs, [-1, -2])] == [1, 2]
child = os.fork()
if not child:
    os._exit(0 if [*in_threads(abs, [-1, -2])] == [1, 2] else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
