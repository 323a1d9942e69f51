"""What waits together is worked on together, and each gets its own."""

import threading
from concurrent.futures import CancelledError

import pytest

from structviews.errors import InputError
from structviews.serving.request_batches import Batcher, Full


def doubled(numbers):
    if any(number < 0 for number in numbers):
        raise InputError(f"{min(numbers)} is negative")
    return [2 * number for number in numbers]


@pytest.fixture
def batcher():
    made = Batcher(waiting=12, at_once=8)
    yield made
    made.close()


@pytest.fixture
def work(batcher, held):
    """Work whose first job is being done until ``work.go_on`` is set."""
    doubles = held(doubled)
    doubles.first = batcher.submit(doubles, [0])
    assert doubles.begun.wait(30)
    return doubles


def test_jobs_that_wait_become_one_call_of_at_most_so_many_items(batcher, work):
    others = [batcher.submit(work, [n, n + 10, n + 20]) for n in range(4)]
    work.go_on.set()
    assert work.first.result(30) == [0]
    assert [other.result(30) for other in others] == [[2 * n, 2 * n + 20, 2 * n + 40] for n in range(4)]
    assert list(map(len, work.calls)) == [1, 6, 6]
    assert batcher.submit(work, list(range(11))).result(30) == [2 * n for n in range(11)]  # more, in a job of its own


def test_other_work_waits_for_its_turn(batcher, work, held):
    other = held(doubled)
    other.go_on.set()
    results = [batcher.submit(each, [n]) for n, each in enumerate([other, work, other, work])]
    work.go_on.set()
    assert [result.result(30) for result in results] == [[0], [2], [4], [6]]
    assert other.calls == [[0, 2]]
    assert work.calls == [[0], [1, 3]]


def test_an_error_is_that_of_its_own_job(batcher, work):
    good, bad, also_good = (batcher.submit(work, numbers) for numbers in ([1], [2, -7], [3]))
    work.go_on.set()
    assert (good.result(30), also_good.result(30)) == ([2], [6])
    with pytest.raises(InputError, match="-7 is negative"):
        bad.result(30)
    with pytest.raises(KeyError):
        batcher.submit(lambda items: {}[items[0]], [1]).result(30)
    assert batcher.submit(work, [4]).result(30) == [8]  # whatever goes wrong, the thread goes on


def test_what_is_given_up_is_not_done(batcher, work):
    given_up, wanted = batcher.submit(work, [1]), batcher.submit(work, [2])
    assert given_up.cancel()
    work.go_on.set()
    assert wanted.result(30) == [4]
    assert work.calls == [[0], [2]]


def test_closing_drops_what_waits(batcher, work):
    waiting = batcher.submit(work, [1])
    threading.Timer(0.1, work.go_on.set).start()
    batcher.close()
    assert work.first.result(0) == [0]
    with pytest.raises(CancelledError):
        waiting.result(0)
    with pytest.raises(Full):
        batcher.submit(work, [1])
