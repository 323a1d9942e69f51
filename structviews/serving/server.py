"""The server's address, its connections, and its timeouts for slow clients."""

import asyncio
import ipaddress
import json
import socket
from collections import defaultdict
from http import HTTPStatus
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from structviews.errors import InputError
from structviews.serving.limits import SECONDS

CONNECTIONS = 500
"""Maximum open connections; see ``Connections``."""
ACCEPTED_AT_ONCE = 100
"""Keeps the connections that are open for a moment, before others are closed for them, below 1,024 files."""
KEEP_ALIVE = 5
"""Seconds that an idle connection stays open."""


def check_token(host: str, token: str | None) -> None:
    """Raise InputError if a server that other machines can reach has no token."""
    if token == "":
        raise InputError("--token: empty: give one, such as the output of: openssl rand -hex 16")
    if token is None and not is_loopback(host):
        raise InputError(f"--host {host}: other machines can reach this address: add --token, or leave --host out")


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only.

    Raises:
        InputError: if the host does not exist.
    """
    return all(ipaddress.ip_address(address[4][0]).is_loopback for address in addresses(host, 0))


def addresses(host: str, port: int) -> list[tuple[Any, ...]]:
    """The results of ``socket.getaddrinfo``; raises InputError if the host does not exist."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InputError(f"--host {host}: no such address ({error}): use a local one, such as 127.0.0.1") from None


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket bound to an address, not yet listening.

    Raises:
        InputError: if the address is not available.
    """
    family, kind, protocol, _, address = addresses(host, port)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise not_to_be_had(address, error) from None
    return bound


def not_to_be_had(address: tuple[Any, ...], error: OSError) -> InputError:
    """The error for an address that is in use or not permitted."""
    host, port, *_ = address
    return InputError(f"port {port} of {host} is not available ({error.strerror}): give another --port")


def url(bound: socket.socket) -> str:
    """The server's URL."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def allowed_hosts(host: str, token: str | None) -> list[str]:
    """``Host`` names that the server accepts.

    Without a token, this keeps other web pages from reading the corpus through DNS rebinding.
    """
    return ["*"] if token else ["localhost", "127.0.0.1", "::1", host]


def serve(app: FastAPI, bound: socket.socket, seconds: float = SECONDS) -> uvicorn.Server:
    """A uvicorn server on a bound socket; call its ``run`` with ``sockets=[bound]``.

    Args:
        app: the application to serve.
        bound: the socket; starts listening here.
        seconds: time limit for a client to send a request or read a response.

    Raises:
        InputError: if another program is already listening on the address.
    """
    try:
        bound.listen(CONNECTIONS)
    except OSError as error:
        raise not_to_be_had(bound.getsockname(), error) from None

    class Patient(PatientProtocol):
        patience = seconds
        open_ones = Connections(CONNECTIONS)

    config = uvicorn.Config(
        app,
        http=Patient,
        ws="none",
        log_config=None,
        log_level="error",
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=KEEP_ALIVE,
        server_header=False,
    )
    return uvicorn.Server(config)


class Connections:
    """The open connections of each client address, of which there are at most ``most``.

    For a further one, the address that has the most loses one: that which has waited longest for its client.
    """

    def __init__(self, most: int):
        self._most = most
        # Those of an address in the order of their last data.
        self._of: dict[str, dict[PatientProtocol, None]] = defaultdict(dict)

    def enter(self, connection: "PatientProtocol") -> bool:
        """Take a new connection; return False if there are too many, and none waits for its client."""
        if sum(map(len, self._of.values())) >= self._most:
            idle = self._longest_idle()
            if idle is None:
                return False
            self.leave(idle)
            idle.transport.abort()
        self._of[connection.address][connection] = None
        return True

    def leave(self, connection: "PatientProtocol") -> None:
        """Forget a connection, if it is there."""
        those = self._of.get(connection.address, {})
        those.pop(connection, None)
        if not those:
            self._of.pop(connection.address, None)

    def note_data(self, connection: "PatientProtocol") -> None:
        """Note that a client has sent something."""
        those = self._of.get(connection.address, {})
        if connection in those:
            del those[connection]
            those[connection] = None

    def _longest_idle(self) -> "PatientProtocol | None":
        by_number = sorted(self._of.values(), key=len, reverse=True)
        return next((each for those in by_number for each in those if each.waits_for_client()), None)


class PatientProtocol(H11Protocol):
    """HTTP with timeouts: uvicorn itself waits forever for headers, and for a response to be read.

    Attributes:
        patience: time limit, in seconds, for receiving the headers and for reading the response.
        open_ones: all connections of the server.
    """

    patience = SECONDS
    open_ones: Connections
    _headers_due: asyncio.TimerHandle | None = None
    _reading_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if not self.open_ones.enter(self):
            self._close_with(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections at work: try again")
            return
        self._headers_due = self.loop.call_later(self.patience, self._too_slow)

    def data_received(self, data: bytes) -> None:
        self.open_ones.note_data(self)
        if not self._busy() and self._headers_due is None:
            self._headers_due = self.loop.call_later(self.patience, self._too_slow)
        super().data_received(data)
        if self._busy():
            cancel(self._headers_due)
            self._headers_due = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_ones.leave(self)
        cancel(self._headers_due)
        cancel(self._reading_due)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._reading_due = self.loop.call_later(self.patience, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        cancel(self._reading_due)
        super().resume_writing()

    @property
    def address(self) -> str:
        """The client's address, without its port."""
        return self.client[0] if self.client else ""

    def waits_for_client(self) -> bool:
        """Whether the server can only wait: for a request, the rest of one, or for an answer to be read."""
        return bool(not self._busy() or self.cycle.more_body or self.flow.write_paused)

    def _busy(self) -> bool:
        """Whether a request is being processed."""
        return self.cycle is not None and not self.cycle.response_complete

    def _too_slow(self) -> None:
        self._headers_due = None
        if not self._busy():
            self._close_with(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time: send it faster")

    def _close_with(self, status: HTTPStatus, line: str) -> None:
        """Answer with an error that is not about a request, and close the connection."""
        body = json.dumps({"detail": line})
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        self.transport.close()


def cancel(timer: asyncio.TimerHandle | None) -> None:
    """Cancel a timer, if it is set."""
    if timer:
        timer.cancel()
