"""The server itself: where it listens, how long it waits for slow clients, and the command."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, nullcontext, suppress
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

PATIENCE = 0.5


@pytest.fixture
def address(served, listening):
    return listening(create_app(served, hosts=["127.0.0.1"], seconds=PATIENCE), seconds=PATIENCE)


def answer(connection):
    """All that comes until the server closes the connection."""
    return read(connection).decode()


def read(connection):
    connection.settimeout(30)
    content = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(2**16):
            content += part
    return content


def request(body, length=None):
    head = "POST /encode HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
    return f"{head}{len(body) if length is None else length}\r\n\r\n{body}".encode()


GOOD = request(json.dumps({"sentences": ["a bird"]}))


def is_alive(address):
    with urlopen("http://{}:{}/runs".format(*address), timeout=30) as found:
        return found.status == 200


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST /encode HTTP/1.1\r\nHost: 127.0.0.1\r\n", request('{"sentences"', 100)],
    ids=["nothing", "half of the headers", "half of the body"],
)
def test_slow_requests_are_told_so_and_closed(address, sent):
    with socket.create_connection(address) as connection:
        connection.sendall(sent)
        found = answer(connection)
    assert found.startswith("HTTP/1.1 408 ")
    head, _, body = found.partition("\r\n\r\n")
    assert "send it faster" in json.loads(body)["detail"]
    assert "connection: close" in head.lower()
    assert is_alive(address)


def test_drops_of_a_request_do_not_buy_time(address):
    with socket.create_connection(address) as connection:
        began = time.monotonic()
        connection.sendall(b"POST /encode HTTP/1.1\r\n")
        found = b""
        connection.settimeout(0.05)
        for number in range(1000):
            try:
                connection.sendall(f"x-{number}: 1\r\n".encode())
                found += connection.recv(2**16)
                break
            except TimeoutError:
                continue
        assert b"408" in found
        assert time.monotonic() - began < 20


def whole_answer(connection):
    """An answer of a connection that stays open, in however many pieces it comes."""
    found, length = b"", 0
    while not length or len(found.partition(b"\r\n\r\n")[2]) < length:
        part = connection.recv(2**16)
        assert part, "closed"
        found += part
        if b"\r\n\r\n" in found:
            length = int(re.search(rb"content-length: (\d+)", found)[1])
    return found


def test_a_second_request_has_its_own_time(address):
    with socket.create_connection(address) as connection:
        connection.settimeout(30)
        for _ in range(3):
            connection.sendall(GOOD)
            assert whole_answer(connection).startswith(b"HTTP/1.1 200 ")
            time.sleep(0.6 * PATIENCE)
        connection.sendall(GOOD[:40])
        assert answer(connection).startswith("HTTP/1.1 408 ")


def test_who_does_not_read_the_answer_is_cut_off(address):
    body = json.dumps({"sentences": ["a bird sings " * 30] * 20})
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(address)
        # Trees are drawn, so the answer is larger than all buffers on the way.
        connection.sendall(request(body).replace(b"/encode", b"/trees"))
        connection.settimeout(60)
        assert connection.recv(1) == b"H"
        time.sleep(4 * PATIENCE)
        found = read(connection)
    head, _, body = found.partition(b"\r\n\r\n")
    assert 0 < len(body) < int(re.search(rb"content-length: (\d+)", head)[1])
    assert is_alive(address)


def closed(connection):
    """Whether the server has closed a connection."""
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="needs further addresses of loopback")
@pytest.mark.parametrize(
    "sent", [b"", GOOD[:40], GOOD[:-5]], ids=["nothing", "half of the headers", "half of the body"]
)
def test_an_address_with_many_idle_connections_loses_its_own(served, listening, monkeypatch, sent):
    monkeypatch.setattr(server, "CONNECTIONS", 20)
    address = listening(create_app(served, hosts=["127.0.0.1"]), seconds=60)
    with ExitStack() as stack:
        few, many = (
            [stack.enter_context(socket.create_connection(address, source_address=(host, 0))) for _ in range(number)]
            for host, number in (("127.0.0.2", 5), ("127.0.0.3", 15))
        )
        for connection in many:
            connection.sendall(sent)
        assert is_alive(address)  # and has read what was sent before
        for _ in range(30):
            many.append(stack.enter_context(socket.create_connection(address, source_address=("127.0.0.3", 0))))
            many[-1].sendall(sent)
        for connection in few:
            connection.sendall(GOOD)
            connection.settimeout(30)
            assert whole_answer(connection).startswith(b"HTTP/1.1 200 ")
        assert all(map(closed, many[:29]))
        assert not any(map(closed, many[-10:]))


class Connection:
    """What ``Connections`` sees of one."""

    def __init__(self, address, idle):
        self.address = address
        self.idle = idle
        self.aborted = False
        self.transport = self

    def waits_for_client(self):
        return self.idle

    def abort(self):
        self.aborted = True


def test_the_connection_that_waited_longest_is_closed_and_none_that_works():
    those = [Connection(*each) for each in [("b", True), ("a", False), *[("a", True)] * 3, ("b", True)]]
    open_ones = server.Connections(6)
    assert all(map(open_ones.enter, those))
    open_ones.note_data(those[2])
    for number in (3, 4, 0, 2, 5):  # of the address that has the most, the one that was heard of longest ago
        before = [each.aborted for each in those]
        assert open_ones.enter(Connection("c", False))
        assert [i for i, each in enumerate(those) if each.aborted and not before[i]] == [number]
    assert not open_ones.enter(Connection("c", True))
    open_ones.leave(those[1])
    assert open_ones.enter(Connection("c", True))


def test_a_connection_too_many_is_told_so(served, listening, monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS", 0)
    address = listening(create_app(served, hosts=["127.0.0.1"]))
    with socket.create_connection(address) as connection:
        found = answer(connection)
    assert found.startswith("HTTP/1.1 503 Service Unavailable\r\n")
    assert json.loads(found.partition("\r\n\r\n")[2]) == {"detail": "too many connections at work: try again"}


def test_bodies_that_are_far_too_large_get_their_answer(address):
    with socket.create_connection(address) as connection:
        connection.sendall(request("x" * 3 * 10**6))
        found = answer(connection)
    assert found.startswith("HTTP/1.1 413 ")
    assert is_alive(address)


def test_what_is_no_http_is_refused(address):
    with socket.create_connection(address) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert answer(connection).startswith("HTTP/1.1 400 ")
    assert is_alive(address)


@pytest.mark.parametrize(("host", "only_here"), [("127.0.0.1", True), ("127.0.0.2", True), ("0.0.0.0", False)])
def test_what_others_reach_needs_a_token(host, only_here):
    assert server.is_loopback(host) == only_here
    server.check_token(host, "secret")
    if only_here:
        server.check_token(host, None)
        assert host in server.allowed_hosts(host, None)
    else:
        with pytest.raises(InputError, match=r"--host .*: add --token"):
            server.check_token(host, None)
    with pytest.raises(InputError, match="--token: empty"):
        server.check_token(host, "")
    assert server.allowed_hosts(host, "secret") == ["*"]


def test_addresses_that_cannot_be_had():
    with server.bound_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        line = rf"port {port} of 127\.0\.0\.1 is not available .*give another --port"
        assert server.url(taken) == f"http://127.0.0.1:{port}"
        with server.bound_socket("127.0.0.1", port) as also_taken:
            server.serve(None, taken)
            with pytest.raises(InputError, match=line):
                server.serve(None, also_taken)
        with pytest.raises(InputError, match=line):
            server.bound_socket("127.0.0.1", port)
    with pytest.raises(InputError, match="no such address"):
        server.bound_socket("no such host", 0)


def test_runs_have_different_names(folders, tmp_path):
    assert run_names(folders) == ["dep-const", "seq-avg"]
    other = tmp_path / "seq-avg"
    assert run_names([folders[1], other]) == [str(folders[1]), str(other)]
    with pytest.raises(InputError, match="named twice"):
        run_names([folders[0], folders[0].parent / "." / folders[0].name])


def test_runs_are_served_with_a_limit(folders):
    (limited,) = open_runs([folders[1]], None, False, nullcontext, WordLimit(1, "cut"))
    assert limited.embedder.limit == WordLimit(1, "cut")
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
        (["nothing"], "nothing: not a run"),
        (["RUN", "--host", "0.0.0.0"], "add --token"),
        (["RUN", "RUN"], "named twice"),
        (["RUN", "--corpus", "nothing.txt"], "nothing.txt: No such file"),
    ],
)
def test_the_command_says_what_is_wrong(folders, arguments, line):
    given = [str(folders[1]) if argument == "RUN" else argument for argument in arguments]
    ended = CliRunner().invoke(cli, ["serve", *given, "--port", "0"])
    assert isinstance(ended.exception, InputError)
    assert line in str(ended.exception)


def test_without_the_extra_the_command_names_it(folders, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("structviews.serving.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    ended = CliRunner().invoke(cli, ["serve", str(folders[1]), "--port", "0"])
    assert isinstance(ended.exception, InputError)
    assert "pip install 'structviews[serve]'" in str(ended.exception)


def test_the_command_serves_until_it_is_interrupted(folders, tmp_path):
    pool = tmp_path / "pool.txt"
    pool.write_text("one bird sings\ntwo birds sing\n")
    command = [sys.executable, "-m", "structviews", "serve", str(folders[1]), "--corpus", str(pool), "--port", "0"]
    environment = os.environ | {"STRUCTVIEWS_TOKEN": "secret", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        asked = Request(
            f"{url}/neighbours",
            json.dumps({"sentences": ["one bird sings"]}).encode(),
            {"Content-Type": "application/json", "Authorization": "Bearer secret"},
        )
        with urlopen(asked, timeout=60) as found:
            (neighbours,) = json.load(found)["neighbours"]
        assert [neighbour["text"] for neighbour in neighbours] == ["two birds sing"]
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in complaints
