"""The script that loads the server, against a server in this process."""

import asyncio
import importlib
import io
import json
import os
from collections import Counter
from types import SimpleNamespace

import pytest
from scripts_for_tests import SCRIPTS

pytest.importorskip("fastapi", reason="needs structviews[serve]")

from structviews.serving.endpoints import create_app
from structviews.serving.request_batches import Batcher


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("benchmarks.serve")


def at(address):
    """A process as ``load`` wants it."""
    return SimpleNamespace(stdout=io.StringIO("http://{}:{}\n".format(*address)), pid=os.getpid())


def test_all_clients_are_answered_and_the_rude_are_told(bench, served, listening):
    address = listening(create_app(served, seconds=3), seconds=3)
    found = asyncio.run(bench.load(at(address), clients=20, seconds=1.5, idle=5))
    assert found["requests"] >= 20
    assert found["errors"] == {}
    assert 0 < found["p50 ms"] <= found["p99 ms"]
    assert {what: said.split()[0] for what, said in found["rude"].items()} == {
        "oversize": "413",
        "malformed": "422",
        "slow": "408",
    }
    assert all("detail" in json.loads(said.partition(" ")[2]) for said in found["rude"].values())
    assert len(found["resident MB"]) == 3
    assert "errors: none" in bench.tables(found | {"run": "x", "clients": 20, "idle": 5})


def test_refusals_are_counted_as_errors(bench, served, listening, monkeypatch):
    address = listening(create_app(served, batcher=Batcher(waiting=0)))
    monkeypatch.setattr(bench, "MOST", 3)
    times, errors = [], Counter()
    asyncio.run(bench.client(address, None, 0, float("inf"), times, errors))
    assert (times, errors) == ([], {"503": 3})
