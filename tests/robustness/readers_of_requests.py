"""The server as a reader: bodies of requests to its endpoints."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from corpora import RandomParser
from readers import TEXT, Shared, reader

from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.retrieval.candidates import open_pool, pool_vectors

pytest.importorskip("fastapi", reason="needs structviews[serve]")
pytest.importorskip("httpx2", reason="starlette's TestClient needs it")

from starlette.testclient import TestClient

from structviews.serving.endpoints import create_app
from structviews.serving.served import ServedRun

SENTENCES = ["One bird sings.", "It's <b>bold</b> & “quoted”."]
BODIES = {
    "encode": {"sentences": SENTENCES},
    "similarity": {"run": "run", "pairs": [SENTENCES]},
    "neighbours": {"sentences": SENTENCES, "k": 2},
    "trees": {"sentences": SENTENCES},
}


def served(folder: Path, shared: Shared) -> None:
    shared.run(folder / "run")
    (folder / "pool.txt").write_text("a bird\ntwo birds\n")
    client(folder, os.getpid())
    for endpoint, body in BODIES.items():
        (folder / f"{endpoint}.json").write_text(json.dumps(body))


@cache
def client(folder: Path, process: int) -> TestClient:
    """A client of a server in this process; threads are not inherited."""
    embedder = Embedder.load(folder / "run", RandomParser())
    pool = open_pool(folder / "pool.txt", tokenised=True)
    run = ServedRun("run", embedder, pool, pool_vectors(pool, folder / "run", embedder))
    return TestClient(create_app([run]), raise_server_exceptions=True)


@reader(TEXT, "*.json", served, named=". :")
def request(folder: Path) -> Any:
    answers = []
    for endpoint in BODIES:
        content = (folder / f"{endpoint}.json").read_bytes()
        headers = {"Content-Type": "application/json"}
        answer = client(folder, os.getpid()).post(f"/{endpoint}", content=content, headers=headers)
        if answer.status_code != 200:
            assert answer.status_code < 500, answer.text
            assert list(answer.json()) == ["detail"], answer.text
            raise InputError(f"/{endpoint}: {answer.json()['detail']}")
        answers.append(answer.json())
    return answers
