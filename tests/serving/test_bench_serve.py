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


def test_all_clients_are_answered_bad_requests_are_refused_and_refusals_are_errors(served, listening, monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    bench = importlib.import_module("benchmarks.serve")
    address = listening(create_app(served))
    server = SimpleNamespace(stdout=io.StringIO("http://{}:{}\n".format(*address)), pid=os.getpid())
    found = asyncio.run(bench.load(server, clients=20, seconds=0.3))
    assert found["requests"] >= 20
    assert found["errors"] == {}
    statuses = {request: answer.split()[0] for request, answer in found["bad"].items()}
    assert statuses == {"oversize": "413", "malformed": "422"}
    assert all("detail" in json.loads(answer.partition(" ")[2]) for answer in found["bad"].values())
    assert "errors: none" in bench.tables(found | {"run": "x", "clients": 20})

    monkeypatch.setattr(bench, "MOST", 3)
    times, errors = [], Counter()
    refusing = listening(create_app(served, batcher=Batcher(waiting=0)))
    asyncio.run(bench.client(refusing, 0, float("inf"), times, errors))
    assert (times, errors) == ([], {"503": 3})
