"""The endpoints, against the Embedder's own results, and what they refuse."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

from structviews.errors import InputError
from structviews.evaluation.retrieval.candidates import pool_vectors
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


@pytest.mark.parametrize("number", [0, 1])
def test_vectors_are_those_of_the_embedder(client, served, embedders, number):
    name, embedder = served[number].name, embedders[number]
    found = post(client, "/encode", run=name, sentences=SENTENCES)
    assert (found["run"], found["dim"]) == (name, embedder.dim)
    np.testing.assert_allclose(found["vectors"], embedder.encode(SENTENCES), **CLOSE)


def test_what_is_served_is_listed(client):
    found = client.get("/runs").json()
    assert found["runs"][1] == {"name": "seq-avg", "views": ["seq", "avg"], "dim": 16, "representation": "vector"}
    assert found["corpus"] == {"name": "pool.txt", "sentences": 4, "unit": "line"}
    assert (found["characters"], found["sentences"]) == (endpoints.CHARACTERS, endpoints.SENTENCES)


@pytest.mark.parametrize("number", [0, 1])
def test_cosines_are_those_of_the_vectors(client, served, embedders, number):
    pairs = [SENTENCES[:2], SENTENCES[2:], [SENTENCES[0]] * 2]
    found = post(client, "/similarity", run=served[number].name, pairs=pairs)["similarities"]
    flat = [sentence for pair in pairs for sentence in pair]
    views = dict(zip(embedders[number].views, embedders[number].encode_views(flat), strict=True))
    for i, similarity in enumerate(found):
        assert list(similarity["views"]) == list(views)
        for name, vectors in views.items():
            assert similarity["views"][name] == pytest.approx(cosine(*vectors[2 * i : 2 * i + 2]), abs=1e-5)
        both = embedders[number].encode(flat)[2 * i : 2 * i + 2]
        assert similarity["joined"] == pytest.approx(cosine(*both), abs=1e-5)
        numbers = [*similarity["views"].values(), similarity["joined"]]
        shares = [np.mean(random < each) for random, each in zip(served[number].random_cosines, numbers, strict=True)]
        closer = similarity["closer_than"]
        assert [*closer["views"].values(), closer["joined"]] == pytest.approx(shares)
    assert found[2]["joined"] == pytest.approx(1)
    assert found[0]["joined"] < 0.999


@pytest.mark.parametrize("number", [0, 1])
def test_random_cosines_are_those_of_all_pairs(served, embedders, pool, number, monkeypatch):
    sentences = pool.sentences(0, len(pool))
    views = [*embedders[number].encode_views(sentences), embedders[number].encode(sentences)]
    for found, vectors in zip(served[number].random_cosines, views, strict=True):
        np.testing.assert_allclose(found, sorted(cosine(a, b) for a, b in combinations(vectors, 2)), atol=1e-5)
    monkeypatch.setattr("structviews.serving.served.SAMPLE", 3)
    one, other = (random_cosines(pool, embedders[number]) for _ in range(2))
    assert {len(each) for each in one} == {3}
    np.testing.assert_array_equal(one, other)


def cosine(a, b):
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


@pytest.mark.parametrize("number", [0, 1])
def test_neighbours_are_those_of_the_search(client, served, embedders, folders, pool, number):
    queries = ["one bird sings", "a dog barks"]
    found = post(client, "/neighbours", run=served[number].name, sentences=queries, k=3)["neighbours"]
    vectors = pool_vectors(pool, folders[number], embedders[number])
    expected = nearest(embedders[number].encode([q.split() for q in queries]), vectors, 3, np.array([0, -1]))
    assert [[n["text"] for n in each] for each in found] == [
        [pool.texts[row] for row in rows] for rows in expected.rows
    ]
    np.testing.assert_allclose([[n["cosine"] for n in each] for each in found], expected.scores, **CLOSE)
    assert queries[0] not in [n["text"] for n in found[0]]
    (bird,) = [n for n in post(client, "/neighbours", sentences=["x"], k=100)["neighbours"][0] if n["place"] == 1]
    assert bird == {"text": "one bird sings", "place": 1, "times": 2, "cosine": bird["cosine"]}


def test_requests_for_few_and_many_neighbours_are_answered_together(served):
    few, many = served[0].neighbours([("a bird", 1), ("a bird", 4)])
    assert (len(few), len(many)) == (1, 4)
    assert few[0] == many[0].model_copy(update={"cosine": few[0].cosine})
    assert few[0].cosine == pytest.approx(many[0].cosine, abs=1e-6)


@pytest.mark.parametrize("number", [0, 1])
def test_trees_are_those_that_the_parser_gives(client, served, embedders, number):
    found = post(client, "/trees", run=served[number].name, sentences=SENTENCES)["trees"]
    parsed = embedders[number].preparer.prepare(SENTENCES, ("dependency", "constituency"))
    attention = embedders[number].attention(parsed)
    assert list(attention) == (["dep"] if number == 0 else [])
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
    assert ("attention of dep" in found[0]["drawings"][0]["title"]) == (number == 0)
    weight = f"{found[0]['attention']['dep'][0]:.2f}<" if number == 0 else "stroke-width="
    assert (weight in found[0]["drawings"][0]["svg"]) == (number == 0)


class Counts:
    """A run that counts its calls, and waits in the first one until it is told to go on."""

    def __init__(self, run):
        self.run, self.calls = run, []
        self.begun, self.go_on = threading.Event(), threading.Event()

    def encode(self, sentences):
        self.calls.append(len(sentences))
        self.begun.set()
        assert self.go_on.wait(30)
        return ServedRun.encode(self.run, sentences)


@pytest.fixture
def counted(served, monkeypatch):
    counts = Counts(served[0])
    monkeypatch.setattr(served[0], "encode", counts.encode, raising=True)
    return counts


def test_concurrent_requests_are_encoded_together(served, embedders, counted):
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
    assert counted.calls == [1, 32]
    alone = [embedders[0].encode([sentence])[0] for sentence in sentences]
    np.testing.assert_allclose(vectors, alone, **CLOSE)


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


@pytest.mark.parametrize(
    ("path", "body", "line"),
    [
        ("/encode", {"sentences": []}, "sentences: List should have at least 1 item"),
        ("/encode", {"sentences": ["a", " \n"]}, "sentences.1: String should have at least 1 character"),
        ("/encode", {"sentences": ["a"] * (endpoints.SENTENCES + 1)}, f"at most {endpoints.SENTENCES} items"),
        ("/encode", {"sentences": ["a" * (endpoints.CHARACTERS + 1)]}, f"at most {endpoints.CHARACTERS} characters"),
        ("/encode", {}, "sentences: Field required"),
        ("/trees", {"sentences": ["stop"]}, "sentence 1: 'stop': not parsed: says stop"),
        ("/similarity", {"pairs": [["a"]]}, "pairs.0.1: Field required"),
        ("/neighbours", {"sentences": ["a"], "k": 10**6}, "k: Input should be less than or equal to 100"),
    ],
)
def test_what_cannot_be_answered_is_said_in_one_line(client, path, body, line):
    assert line in refused(client.post(path, json=body), 422)


@pytest.mark.parametrize(
    ("content", "kind", "status", "line"),
    [
        (b'{"sentences": ["a"', "application/json", 422, "not JSON at character 18"),
        (b'{"sentences": ["a"]}', "text/plain", 422, "with Content-Type: application/json"),
        (b"", "application/json", 422, "send a JSON object"),
        (b'{"sentences": ["\\ud800"]}', "application/json", 422, "unicode"),
        (b"[" * 10**5, "application/json", 400, "error parsing"),
        (
            b'{"sentences": [' + b'"a",' * (endpoints.BODY // 4) + b'"a"]}',
            "application/json",
            413,
            "at most 524,288 bytes",
        ),
    ],
)
def test_broken_bodies_are_answered_in_one_line(client, content, kind, status, line):
    assert line in refused(client.post("/encode", content=content, headers={"content-type": kind}), status)
    assert len(post(client, "/encode", sentences=["a"])["vectors"]) == 1


def test_unknown_runs_and_paths(client):
    answer = client.post("/encode", json={"run": "none", "sentences": ["a"]})
    assert refused(answer, 404) == "no run 'none': choose one of dep-const, seq-avg"
    assert client.get("/nothing").status_code == 404


def test_without_a_corpus_there_are_no_neighbours(served):
    with TestClient(create_app([ServedRun("x", served[0].embedder)])) as client:
        assert "--corpus" in refused(client.post("/neighbours", json={"sentences": ["a"]}), 404)
        assert client.get("/runs").json()["corpus"] is None
        assert post(client, "/similarity", pairs=[["a", "b"]])["similarities"][0]["closer_than"] is None


def test_vectors_that_are_not_finite_are_an_error(served):
    class Diverged:
        view_names = ("x",)

        def encode_views(self, sentences):
            return [np.array([[1.0], [np.nan]])]

        def joined(self, views):
            return views[0]

    with pytest.raises(InputError, match="sentence 2: its vector is not finite"):
        ServedRun("x", Diverged()).encode(["a", "b"])


def test_with_a_token_only_those_who_bear_it_are_answered(served):
    with TestClient(create_app(served, token="søsecret")) as client:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "søsecret".encode()}):
            answer = client.get("/runs", headers=headers)
            assert "Authorization: Bearer TOKEN" in refused(answer, 401)
            assert answer.headers["www-authenticate"] == "Bearer"
        right = {"authorization": "Bearer søsecret".encode()}
        assert client.get("/runs", headers=right).status_code == 200
        answer = client.post("/encode", json={"sentences": ["a"]}, headers=right)
        assert answer.status_code == 200
        assert client.get("/").status_code == client.get("/docs").status_code == 200
        assert "HTTPBearer" in client.get("/openapi.json").json()["components"]["securitySchemes"]


@pytest.mark.parametrize("host", ["[::1]:8000", "[::1]", "localhost:8000", "LOCALHOST", "127.0.0.1:80"])
def test_only_addresses_and_names_of_loopback_are_answered(served, host):
    with TestClient(create_app(served, hosts=allowed_hosts("::1", None))) as client:
        assert client.get("/runs", headers={"host": host}).json()["runs"][0]["name"] == "dep-const"
        for other in ("", "[::2]:8000", "::1", "localhost.example"):
            answer = client.get("/runs", headers={"host": other})
            assert (answer.status_code, answer.text) == (400, "Invalid host header")


def test_a_fault_of_the_server_is_one_line_of_json(served):
    class Broken:
        def encode_views(self, sentences):
            raise ZeroDivisionError

    with TestClient(create_app([ServedRun("x", Broken())]), raise_server_exceptions=False) as client:
        answer = client.post("/encode", json={"sentences": ["a"]})
        assert refused(answer, 500) == "the server failed (ZeroDivisionError): see the server's output"


def test_the_description_names_every_endpoint_and_its_errors(client):
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {"/runs", "/encode", "/similarity", "/neighbours", "/trees"}
    for path in described["paths"].values():
        for method in path.values():
            assert {"200", "401", "404", "413", "422", "503"} <= set(method["responses"])
            assert method["responses"]["422"]["content"]["application/json"]["schema"]["$ref"].endswith("/Problem")
            assert "$ref" in method["responses"]["200"]["content"]["application/json"]["schema"]
    limits = described["components"]["schemas"]["Sentences"]["properties"]["sentences"]
    assert limits["maxItems"] == endpoints.SENTENCES
    assert limits["items"]["maxLength"] == endpoints.CHARACTERS


def test_nothing_of_the_page_comes_from_elsewhere(client):
    for path in ("/", "/page.css", "/page.js"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not re.search("https?://|@import", answer.text)


def test_the_drawings_are_safe_whatever_the_words(client):
    (tree,) = post(client, "/trees", sentences=["<script>alert(1)</script> \x07 ]]> & \"'"])["trees"]
    for drawing in tree["drawings"]:
        elements = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawing["svg"]).iter()}
        assert elements <= {"svg", "style", "rect", "g", "text", "path"}


@pytest.mark.filterwarnings("ignore:most words of this text")
def test_text_in_another_language_is_noticed(client, served, monkeypatch):
    """By the words of the run; the run of these tests knows too few."""
    german = "Der alte Mann ging mit seinem Hund durch den Wald."
    asked = {
        "/encode": {"sentences": [german]},
        "/similarity": {"pairs": [[german, german]]},
        "/neighbours": {"sentences": [german]},
        "/trees": {"sentences": [german]},
    }
    for path, body in asked.items():
        assert post(client, path, **body)["warning"] is None
    english = [*re.findall(r"\w+", " ".join(SENTENCES)), *(f"word-{i}" for i in range(30_000))]
    monkeypatch.setattr(served[0].embedder.preparer, "vocabulary", Vocabulary([UNKNOWN, *english]))
    for path, body in asked.items():
        assert "most words of this text" in post(client, path, **body)["warning"]
    assert post(client, "/encode", sentences=SENTENCES)["warning"] is None
