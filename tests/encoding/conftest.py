"""Runs of every kind, which several files go over."""

import pytest
from kinds_of_runs import KINDS, make_runs

from structviews.encoding.embedder import Embedder


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
