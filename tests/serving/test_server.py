"""The server itself: where it listens, what it refuses, and the command."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, nullcontext
from urllib.request import Request, urlopen

import pytest
from typer.testing import CliRunner

from structviews.cli.app import app as cli
from structviews.encoding.word_limit import WordLimit
from structviews.errors import InputError

pytest.importorskip("fastapi", reason="needs structviews[serve]")
pytest.importorskip("uvicorn", reason="needs structviews[serve]")

from structviews.runs.folder import run_names
from structviews.serving import server
from structviews.serving.endpoints import create_app
from structviews.serving.served import open_runs


def answer(address, sent):
    """All that comes until the server closes the connection."""
    with socket.create_connection(address) as connection:
        connection.sendall(sent)
        connection.settimeout(30)
        content = b""
        while part := connection.recv(2**16):
            content += part
    return content.decode()


def test_connections_are_limited(served, listening, monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS", 3)
    address = listening(create_app(served))
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(socket.create_connection(address))
        found = answer(address, b"GET /runs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert found.startswith("HTTP/1.1 503 ")
    with urlopen("http://{}:{}/runs".format(*address), timeout=30) as found:
        assert found.status == 200


def test_what_others_reach_needs_a_token(monkeypatch):
    for host in ("127.0.0.1", "127.0.0.2"):
        server.check_token(host, None)
        assert host in server.allowed_hosts(host, None)
    server.check_token("0.0.0.0", "secret")
    assert server.allowed_hosts("0.0.0.0", "secret") == ["*"]
    for token, message in ((None, r"--host .*: add --token"), ("", "--token: empty")):
        with pytest.raises(InputError, match=message):
            server.check_token("0.0.0.0", token)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, 1, 6, "", ("127.0.1.1", 0))])
    assert {"here", "127.0.1.1"} <= {*server.allowed_hosts("HERE", None)}  # the name of many a Linux machine


def test_addresses_that_cannot_be_had():
    with server.bound_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        line = rf"port {port} of 127\.0\.0\.1 is not available .*give another --port"
        assert server.url(taken) == f"http://127.0.0.1:{port}"
        with server.bound_socket("127.0.0.1", port) as also_taken:
            server.serve(None, taken)
            with pytest.raises(InputError, match=line):
                server.serve(None, also_taken)
        for host, message in (("127.0.0.1", line), ("no such host", "no such address")):
            with pytest.raises(InputError, match=message):
                server.bound_socket(host, port)


def test_runs_have_different_names_and_are_served_with_a_limit(folders, tmp_path):
    assert run_names(folders) == ["dep-const", "seq-avg"]
    assert run_names([folders[1], tmp_path / "seq-avg"]) == [str(folders[1]), str(tmp_path / "seq-avg")]
    (limited,) = open_runs([folders[1]], None, False, nullcontext, WordLimit(1, "cut"))
    with pytest.warns(UserWarning, match="1 sentence was cut to the first 1 word "):
        limited.encode(["two words"])


def test_a_run_that_cannot_encode_is_refused_when_it_is_loaded(folders, tmp_path):
    run = shutil.copytree(folders[1], tmp_path / "run")
    config = run / "config.toml"
    config.write_text(config.read_text().replace("remove_component = false", "remove_component = true"))
    assert [served.name for served in open_runs([run], None, False, nullcontext)] == ["run"]
    (run / "components.safetensors").unlink()
    with pytest.raises(InputError, match=r"run: cannot encode: .*the run has stored no components"):
        open_runs([run], None, False, nullcontext)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("nothing", "nothing: not a run"),
        ("RUN --host 0.0.0.0", "add --token"),
        ("RUN --corpus nothing.txt", "nothing.txt: No such file"),
        ("RUN", "pip install 'structviews[serve]'"),
    ],
)
def test_the_command_says_what_is_wrong_or_missing(folders, arguments, line, monkeypatch):
    if "pip" in line:
        for name in [name for name in sys.modules if name.startswith("structviews.serving.")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "fastapi", None)
    given = arguments.replace("RUN", str(folders[1])).split()
    ended = CliRunner().invoke(cli, ["serve", *given, "--port", "0"])
    assert isinstance(ended.exception, InputError)
    assert line in str(ended.exception)


def test_the_command_serves_until_it_is_interrupted(folders, tmp_path):
    pool = tmp_path / "pool.txt"
    pool.write_text("one bird sings\ntwo birds sing\n")
    command = [sys.executable, "-m", "structviews", "serve", str(folders[1]), "--corpus", str(pool), "--port", "0"]
    environment = os.environ | {"STRUCTVIEWS_TOKEN": "secret", "OMP_NUM_THREADS": "1"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **streams, text=True, env=environment) as process:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        headers = {"Content-Type": "application/json", "Authorization": "Bearer secret"}
        asked = Request(f"{url}/neighbours", json.dumps({"sentences": ["one bird sings"]}).encode(), headers)
        with urlopen(asked, timeout=60) as found:
            (neighbours,) = json.load(found)["neighbours"]
        assert [neighbour["text"] for neighbour in neighbours] == ["two birds sing"]
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in complaints
