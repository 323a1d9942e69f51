"""The description of the endpoints: its examples work as they stand."""

import contextlib
import html
import io
import json
import re
import shutil
import subprocess

import pytest

pytest.importorskip("fastapi", reason="needs structviews[serve]")
pytest.importorskip("httpx2", reason="starlette's TestClient needs it")

from starlette.testclient import TestClient

from structviews.serving.endpoints import create_app

ENDPOINTS = ("/runs", "/encode", "/similarity", "/neighbours", "/trees")


def calls(app, address, kind):
    """The examples of a kind on the page, by endpoint."""
    with TestClient(app, base_url=address) as client:
        answer = client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "<script" not in answer.text
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', answer.text)
    return [html.unescape(each) for each in re.findall(rf'<pre class="{kind}">(.*?)</pre>', answer.text, re.DOTALL)]


def check(answers):
    assert answers[0]["runs"][0]["name"] == "dep-const"
    names = ("vectors", "similarities", "neighbours", "trees")
    assert [len(each[name]) for each, name in zip(answers[1:], names, strict=True)] == [2, 1, 2, 2]


@pytest.mark.parametrize("token", [None, "sesame"])
def test_the_examples_in_python_run(served, listening, token):
    pytest.importorskip("requests")
    app = create_app(served, token=token)
    address = "http://{}:{}".format(*listening(app))
    answers = []
    for program in calls(create_app(served, token=token), address, "python"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(program.replace("TOKEN", token or "TOKEN").replace("print(answer.json())", "print(answer.text)"), {})
        answers.append(json.loads(printed.getvalue()))
    check(answers)


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_the_examples_by_curl_run(served, listening):
    address = "http://{}:{}".format(*listening(create_app(served)))
    commands = calls(create_app(served), address, "curl")
    check([json.loads(subprocess.run(each, shell=True, capture_output=True, check=True).stdout) for each in commands])


def test_every_endpoint_every_field_and_every_error_is_described(served):
    app = create_app(served)
    with TestClient(app) as client:
        text = client.get("/docs").text
    for path in ENDPOINTS:
        assert f'<section id="{path[1:]}">' in text
    for field in ("similarities[].closer_than.joined", "trees[].drawings[].svg", "neighbours[][].text", "warning"):
        assert f"<code>{field}</code>" in text
    assert "list of lists of numbers" in text
    assert all(f'<th scope="row">{status}</th>' in text for status in (400, 401, 404, 408, 413, 422, 500, 503))


def test_the_name_of_the_host_is_text(served):
    with TestClient(create_app(served)) as client:
        answer = client.get("/docs", headers={"host": "a<b>'$(x)"})
    assert "<b>" not in answer.text
