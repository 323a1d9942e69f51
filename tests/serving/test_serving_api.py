"""The endpoints, against the Embedder's own results, and what they refuse."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

from structviews.evaluation.retrieval.neighbours import nearest

pytest.importorskip("fastapi", reason="needs structviews[serve]")
pytest.importorskip("httpx2", reason="starlette's TestClient needs it")

from starlette.testclient import TestClient

from structviews.serving import endpoints
from structviews.serving.endpoints import create_app
from structviews.serving.request_batches import Batcher
from structviews.serving.served import ServedRun, random_cosines
from structviews.serving.server import allowed_hosts
from structviews.words.vocabulary import UNKNOWN, Vocabulary

SENTENCES = ["One bird sings.", "It's <b>bold</b> & “quoted”.", "stops", "topic0-1 of the topic0-2"]
# Whether alone or with others, to rounding.
CLOSE = {"atol": 1e-5, "rtol": 0}


@pytest.fixture
def client(served):
    with TestClient(create_app(served)) as opened:
        yield opened


def post(client, path, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer, status):
    """The line that says why."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["detail"]
    line = answer.json()["detail"]
    assert "\n" not in line
    assert 10 < len(line) < 200
    return line


@pytest.fixture(params=[0, 1], ids=["dep-const", "seq-avg"])
def run(request, served):
    return served[request.param]


def test_vectors_are_those_of_the_embedder(client, run):
    found = post(client, "/encode", run=run.name, sentences=SENTENCES)
    assert (found["run"], found["dim"]) == (run.name, run.embedder.dim)
    np.testing.assert_allclose(found["vectors"], run.embedder.encode(SENTENCES), **CLOSE)


def test_what_is_served_is_listed(client):
    found = client.get("/runs").json()
    assert found["runs"][1] == {"name": "seq-avg", "views": ["seq", "avg"], "dim": 16, "representation": "vector"}
    assert found["corpus"] == {"name": "pool.txt", "sentences": 4, "unit": "line"}
    assert (found["characters"], found["sentences"]) == (endpoints.CHARACTERS, endpoints.SENTENCES)


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def all_vectors(run, sentences):
    """The vectors of each view and the joined ones."""
    views = dict(zip(run.embedder.views, run.embedder.encode_views(sentences), strict=True))
    return views | {"joined": run.embedder.encode(sentences)}


def test_cosines_are_those_of_the_vectors(client, run):
    pairs = [SENTENCES[:2], SENTENCES[2:], [SENTENCES[0]] * 2]
    found = post(client, "/similarity", run=run.name, pairs=pairs)["similarities"]
    vectors = all_vectors(run, [sentence for pair in pairs for sentence in pair])
    for i, similarity in enumerate(found):
        both = (similarity, similarity["closer_than"])
        numbers, closer = (each["views"] | {"joined": each["joined"]} for each in both)
        assert numbers == {name: pytest.approx(cosine(*v[2 * i : 2 * i + 2]), abs=1e-5) for name, v in vectors.items()}
        shares = map(np.mean, map(np.less, run.random_cosines, numbers.values()))
        assert list(closer.values()) == pytest.approx(list(shares))
    assert found[2]["joined"] == pytest.approx(1)
    assert found[0]["joined"] < 0.999


def test_random_cosines_are_those_of_all_pairs(run, pool, monkeypatch):
    vectors = all_vectors(run, pool.sentences(0, len(pool))).values()
    for found, each in zip(run.random_cosines, vectors, strict=True):
        np.testing.assert_allclose(found, sorted(cosine(a, b) for a, b in combinations(each, 2)), atol=1e-5)
    monkeypatch.setattr("structviews.serving.served.SAMPLE", 3)
    one, other = (random_cosines(pool, run.embedder) for _ in range(2))
    assert {len(each) for each in one} == {3}
    np.testing.assert_array_equal(one, other)


def test_neighbours_are_those_of_the_search(client, run, pool):
    queries = ["one bird sings", "a dog barks"]
    found = post(client, "/neighbours", run=run.name, sentences=queries, k=3)["neighbours"]
    vectors = run.embedder.encode(pool.sentences(0, len(pool)))
    expected = nearest(run.embedder.encode([q.split() for q in queries]), vectors, 3, np.array([0, -1]))
    texts = [[pool.texts[row] for row in rows] for rows in expected.rows]
    assert [[n["text"] for n in each] for each in found] == texts
    np.testing.assert_allclose([[n["cosine"] for n in each] for each in found], expected.scores, **CLOSE)
    assert queries[0] not in [n["text"] for n in found[0]]
    (bird,) = [n for n in post(client, "/neighbours", sentences=["x"], k=100)["neighbours"][0] if n["place"] == 1]
    assert bird == {"text": "one bird sings", "place": 1, "times": 2, "cosine": bird["cosine"]}
    # Requests for few and for many are answered together.
    few, many = run.neighbours([("a bird", 1), ("a bird", 4)])
    assert [n.text for n in few] == [many[0].text]
    assert len(many) == 4


def test_trees_are_those_that_the_parser_gives(client, run):
    attends = run.name == "dep-const"
    found = post(client, "/trees", run=run.name, sentences=SENTENCES)["trees"]
    parsed = run.embedder.preparer.prepare(SENTENCES, ("dependency", "constituency"))
    attention = run.embedder.attention(parsed)
    assert list(attention) == (["dep"] if attends else [])
    for i, (tree, sentence) in enumerate(zip(found, parsed, strict=True)):
        assert (tree["tokens"], tree["heads"]) == (list(sentence.tokens), list(sentence.heads))
        assert tree["constituents"] == [list(span) for span in sentence.spans()]
        assert list(tree["attention"]) == list(attention)
        for name, weights in tree["attention"].items():
            assert weights.index(None) == sentence.heads.index(0)
            np.testing.assert_allclose(np.array(weights, dtype=float), attention[name][i], **CLOSE)
        assert [drawing["kind"] for drawing in tree["drawings"]] == ["dependency", "constituency", "constituency"]
        for drawing in tree["drawings"]:
            words = ElementTree.fromstring(drawing["svg"]).iter("{http://www.w3.org/2000/svg}text")
            assert [w.text for w in words if w.get("class") == "word middle"] == tree["tokens"]
    drawing = found[0]["drawings"][0]
    assert ("attention of dep" in drawing["title"]) == attends
    weight = f"{found[0]['attention']['dep'][0]:.2f}<" if attends else "stroke-width="
    assert (weight in drawing["svg"]) == attends


@pytest.fixture
def counted(served, held, monkeypatch):
    """Counts the calls of a run, and waits in the first one until it is told to go on."""
    encode = held(served[0].encode)
    monkeypatch.setattr(served[0], "encode", encode)
    return encode


def test_concurrent_requests_are_encoded_together(served, counted):
    sentences = [f"bird {n} sings to topic0-1" for n in range(30)]
    batcher = Batcher()
    with TestClient(create_app(served, batcher=batcher)) as client, ThreadPoolExecutor(32) as threads:
        first = threads.submit(post, client, "/encode", sentences=["a bird"])
        assert counted.begun.wait(30)
        others = [threads.submit(post, client, "/encode", sentences=[sentence]) for sentence in sentences]
        pairs = threads.submit(post, client, "/similarity", pairs=[sentences[:2]])
        while len(batcher._jobs) < 31:
            assert not any(other.done() for other in others)
        counted.go_on.set()
        vectors = [other.result(30)["vectors"][0] for other in others]
        assert len(first.result(30)["vectors"]) == 1
        assert len(pairs.result(30)["similarities"]) == 1
    assert list(map(len, counted.calls)) == [1, 32]
    np.testing.assert_allclose(vectors, served[0].embedder.encode(sentences), **CLOSE)


def test_when_too_many_wait_the_next_is_told_to_try_again(served, counted):
    with TestClient(create_app(served, batcher=Batcher(waiting=3))) as client, ThreadPoolExecutor(4) as threads:
        held = threads.submit(post, client, "/encode", sentences=["a bird"])
        assert counted.begun.wait(30)
        answer = client.post("/encode", json={"sentences": ["a"] * 4})
        assert "try again" in refused(answer, 503)
        assert answer.headers["retry-after"] == "1"
        counted.go_on.set()
        held.result(30)
        assert len(post(client, "/encode", sentences=["a"] * 3)["vectors"]) == 3


SENT, CHARACTERS = endpoints.SENTENCES, endpoints.CHARACTERS


@pytest.mark.parametrize(
    ("path", "body", "status", "line"),
    [
        ("/encode", {"sentences": []}, 422, "sentences: List should have at least 1 item"),
        ("/encode", {"sentences": ["a", " \n"]}, 422, "sentences.1: String should have at least 1 character"),
        ("/encode", {"sentences": ["a"] * (SENT + 1)}, 422, f"at most {SENT} items"),
        ("/encode", {"sentences": ["a" * (CHARACTERS + 1)]}, 422, f"at most {CHARACTERS} characters"),
        ("/encode", {"run": "none", "sentences": ["a"]}, 404, "no run 'none': choose one of dep-const, seq-avg"),
        ("/trees", {"sentences": ["stop"]}, 422, "sentences[0]: 'stop': not parsed: says stop"),
        ("/similarity", {"pairs": [["a"]]}, 422, "pairs.0.1: Field required"),
        ("/encode", b'{"sentences": ["a"', 422, "not JSON at character 18"),
        ("/encode", b"", 422, "send a JSON object, with Content-Type: application/json"),
        ("/encode", b'{"sentences": ["\\ud800"]}', 422, "unicode"),
        ("/encode", b"[" * 10**5, 400, "error parsing"),
        ("/encode", {"sentences": ["a"] * (endpoints.BODY // 4)}, 413, "at most 524,288 bytes"),
    ],
)
def test_what_cannot_be_answered_is_said_in_one_line(client, path, body, status, line):
    content = body if isinstance(body, bytes) else json.dumps(body)
    assert line in refused(client.post(path, content=content, headers={"content-type": "application/json"}), status)
    assert len(post(client, "/encode", sentences=["a"])["vectors"]) == 1


def test_without_a_corpus_there_are_no_neighbours(served):
    with TestClient(create_app([ServedRun("x", served[0].embedder)])) as client:
        assert "--corpus" in refused(client.post("/neighbours", json={"sentences": ["a"]}), 404)
        assert client.get("/runs").json()["corpus"] is None
        assert post(client, "/similarity", pairs=[["a", "b"]])["similarities"][0]["closer_than"] is None


class Diverged:
    """An embedder of vectors that are none."""

    view_names = ("x",)

    def encode_views(self, sentences):
        return [1 / np.arange(2.0)[:, None]] if len(sentences) > 1 else [1 // 0]

    def joined(self, views):
        return views[0]


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_vectors_that_are_not_finite_and_faults_of_the_server_are_one_line():
    with TestClient(create_app([ServedRun("x", Diverged())]), raise_server_exceptions=False) as client:
        answer = client.post("/encode", json={"sentences": ["a", "b"]})
        assert "sentences[0]: its vector is not finite" in refused(answer, 422)
        answer = client.post("/encode", json={"sentences": ["a"]})
        assert refused(answer, 500) == "the server failed (ZeroDivisionError): see the server's output"


def test_with_a_token_only_those_who_bear_it_are_answered(served):
    with TestClient(create_app(served, token="søsecret")) as client:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "søsecret".encode()}):
            answer = client.get("/runs", headers=headers)
            assert "Authorization: Bearer TOKEN" in refused(answer, 401)
            assert answer.headers["www-authenticate"] == "Bearer"
        right = {"authorization": "Bearer søsecret".encode()}
        assert client.post("/encode", json={"sentences": ["a"]}, headers=right).status_code == 200
        assert client.get("/").status_code == client.get("/docs").status_code == 200
        assert "HTTPBearer" in client.get("/openapi.json").json()["components"]["securitySchemes"]


def test_only_addresses_and_names_of_loopback_are_answered(served):
    with TestClient(create_app(served, hosts=allowed_hosts("::1", None))) as client:
        for host in ("[::1]:8000", "[::1]", "localhost:8000", "LOCALHOST", "127.0.0.1:80"):
            assert client.get("/runs", headers={"host": host}).json()["runs"][0]["name"] == "dep-const"
        for other in ("", "[::2]:8000", "::1", "localhost.example"):
            answer = client.get("/runs", headers={"host": other})
            assert (answer.status_code, answer.text) == (400, "Invalid host header")


def test_the_description_names_every_endpoint_and_its_errors(client):
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {"/runs", "/encode", "/similarity", "/neighbours", "/trees"}
    for path in described["paths"].values():
        for method in path.values():
            assert {"200", "401", "404", "413", "422", "503"} <= set(method["responses"])
            assert method["responses"]["422"]["content"]["application/json"]["schema"]["$ref"].endswith("/Problem")


def test_nothing_of_the_page_comes_from_elsewhere(client):
    for path in ("/", "/page.css", "/page.js"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not re.search("https?://|@import", answer.text)


@pytest.mark.filterwarnings("ignore:most words of this text")
def test_text_in_another_language_is_noticed(client, served, monkeypatch):
    """By the words of the run; the run of these tests knows too few."""
    german = "Der alte Mann ging mit seinem Hund durch den Wald."

    text = {"sentences": [german]}
    asked = {"/similarity": {"pairs": [[german, german]]}, "/encode": text, "/neighbours": text, "/trees": text}

    def warnings():
        return {post(client, path, **body)["warning"] for path, body in asked.items()}

    assert warnings() == {None}
    english = [*re.findall(r"\w+", " ".join(SENTENCES)), *(f"word-{i}" for i in range(30_000))]
    monkeypatch.setattr(served[0].embedder.preparer, "vocabulary", Vocabulary([UNKNOWN, *english]))
    (warning,) = warnings()
    assert "most words of this text" in warning
    assert post(client, "/encode", sentences=SENTENCES)["warning"] is None
