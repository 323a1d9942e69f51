"""Two runs, one of which attends, over random trees; and a server of them."""

import threading
import time

import pytest
from corpora import RandomParser, small_config, topic_corpus

from structviews.encoding.embedder import Embedder
from structviews.evaluation.retrieval.candidates import Pool, pool_vectors
from structviews.training.loop import train

LINES = ["one bird sings", "two birds sing", "", "one  bird sings", "three birds sleep on a tree", "a cat sleeps"]


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serving")
    corpus = topic_corpus(folder / "x.parsed", documents=6)
    pairs = ("dep", "const"), ("seq", "avg")
    return [train(small_config(corpus, folder / "-".join(views), views, steps=2)) for views in pairs]


@pytest.fixture(scope="session")
def embedders(folders):
    return [Embedder.load(run, RandomParser()) for run in folders]


@pytest.fixture(scope="session")
def pool(tmp_path_factory):
    path = tmp_path_factory.mktemp("pool") / "pool.txt"
    path.write_text("\n".join(LINES) + "\n")
    return Pool(path, tokenised=True)


@pytest.fixture(scope="session")
def served(folders, embedders, pool):
    pytest.importorskip("fastapi", reason="needs structviews[serve]")
    from structviews.serving.served import ServedRun

    loaded = zip(folders, embedders, strict=True)
    return [ServedRun(run.name, embedder, pool, pool_vectors(pool, run, embedder)) for run, embedder in loaded]


class Held:
    """Calls a function on items; waits in each call until ``go_on`` is set, and counts the items of the calls."""

    def __init__(self, function):
        self.function = function
        self.calls = []
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, items):
        self.calls.append(list(items))
        self.begun.set()
        assert self.go_on.wait(30)
        return self.function(items)


@pytest.fixture(scope="session")
def held():
    return Held


@pytest.fixture
def listening():
    """Serves applications on free ports of loopback, and gives their sockets; they end with the test."""
    pytest.importorskip("uvicorn", reason="needs structviews[serve]")
    from structviews.serving.server import bound_socket, serve

    started = []

    def start(app):
        bound = bound_socket("127.0.0.1", 0)
        server = serve(app, bound)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        started.append((server, thread, bound))
        while not server.started:
            time.sleep(0.01)
        return bound.getsockname()

    yield start
    for server, thread, bound in started:
        server.should_exit = True
        thread.join(30)
        bound.close()
