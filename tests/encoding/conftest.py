"""Runs of every kind, and work shared between processes, which several files go over."""

from itertools import cycle

import pytest
from kinds_of_runs import KINDS, make_runs

from structviews.encoding import encoding_pool
from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import Task


@pytest.fixture(scope="session")
def runs_of_all_kinds(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("kinds"))


@pytest.fixture(params=KINDS)
def embedder(runs_of_all_kinds, request, monkeypatch):
    """Not used yet. A run's own parser is the built-in one, instead of one that only tests have."""
    embedder = Embedder.load(runs_of_all_kinds[request.param])
    for each in (embedder, *getattr(embedder, "members", ())):
        monkeypatch.setitem(each.preparer.parsed.parser, "name", "builtin")
    return embedder


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces of two sentences; of those that it could take, this process takes the ones for which it is told so."""
    take = Task.take

    def taking(*turns):
        may = cycle(turns)
        monkeypatch.setattr(encoding_pool, "SMALLEST", 2)
        monkeypatch.setattr(Task, "take", lambda task: next(may) and take(task))

    return taking


@pytest.fixture
def left_to_others(small_pieces):
    """This process only waits for the other one."""
    small_pieces(False)
