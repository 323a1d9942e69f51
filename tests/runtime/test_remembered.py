"""What is remembered is not computed again, and is bounded."""

import threading

import pytest

from structviews.runtime.remembered import Remembered


class Squares:
    def __init__(self):
        self.asked = []

    def __call__(self, items):
        self.asked.append(list(items))
        return [item * item for item in items]


def test_each_is_computed_once():
    remembered, squares = Remembered(lambda result: 1, 10), Squares()
    assert remembered.of("a", [3, 2, 3], squares) == [9, 4, 9]
    assert remembered.of("a", [2, 4, 3], squares) == [4, 16, 9]
    assert remembered.of("a", [4], squares) == [16]
    assert remembered.of("a", [], squares) == []
    assert squares.asked == [[3, 2], [4]]


def test_what_depends_on_something_else_is_computed_again():
    remembered, squares = Remembered(lambda result: 1, 10), Squares()
    remembered.of("a", [3], squares)
    remembered.of("b", [3], squares)
    assert squares.asked == [[3], [3]]


def test_the_oldest_are_forgotten():
    remembered, squares = Remembered(lambda result: result, 50), Squares()
    assert remembered.of("a", [3, 4, 5], squares) == [9, 16, 25]
    remembered.of("a", [3], squares)  # 4 is the oldest now
    remembered.of("a", [1], squares)
    remembered.of("a", [3, 5, 1], squares)
    assert squares.asked == [[3, 4, 5], [1]]
    remembered.of("a", [4], squares)
    assert squares.asked[-1] == [4]
    assert remembered.of("a", [9, 2], squares) == [81, 4]  # more than is kept
    assert remembered._bytes == sum(remembered._known.values()) <= 50


def test_a_failure_leaves_nothing():
    remembered, squares = Remembered(lambda result: 1, 10), Squares()
    with pytest.raises(TypeError):
        remembered.of("a", [3, None], squares)
    assert remembered.of("a", [3], squares) == [9]
    assert squares.asked == [[3, None], [3]]


def test_threads_share_it():
    remembered, found = Remembered(lambda result: 1, 5), []

    def work(start):
        found.extend(remembered.of("a", [start + i % 7 for i in range(500)], Squares()))

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 2000
    assert remembered._bytes == len(remembered._known) <= 5
