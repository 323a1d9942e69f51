"""The server's address, and its timeouts for slow clients."""

import asyncio
import ipaddress
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from structviews.errors import InputError
from structviews.serving.limits import SECONDS

CONNECTIONS = 500
"""Maximum open connections; further ones get a 503 response."""
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

    config = uvicorn.Config(
        app,
        http=Patient,
        ws="none",
        log_config=None,
        log_level="error",
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=KEEP_ALIVE,
        server_header=False,
    )
    return uvicorn.Server(config)


class PatientProtocol(H11Protocol):
    """HTTP with timeouts: uvicorn itself waits forever for headers, and for a response to be read.

    Attributes:
        patience: time limit, in seconds, for receiving the headers and for reading the response.
    """

    patience = SECONDS
    _headers_due: asyncio.TimerHandle | None = None
    _reading_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._headers_due = self.loop.call_later(self.patience, self._too_slow)

    def data_received(self, data: bytes) -> None:
        if not self._busy() and self._headers_due is None:
            self._headers_due = self.loop.call_later(self.patience, self._too_slow)
        super().data_received(data)
        if self._busy():
            cancel(self._headers_due)
            self._headers_due = None

    def connection_lost(self, exc: Exception | None) -> None:
        cancel(self._headers_due)
        cancel(self._reading_due)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._reading_due = self.loop.call_later(self.patience, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        cancel(self._reading_due)
        super().resume_writing()

    def _busy(self) -> bool:
        """Whether a request is being processed."""
        return self.cycle is not None and not self.cycle.response_complete

    def _too_slow(self) -> None:
        self._headers_due = None
        if not self._busy():
            line = b'{"detail":"the request did not arrive in time: send it faster"}'
            head = f"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: {len(line)}\r\n"
            self.transport.write(head.encode() + b"connection: close\r\n\r\n" + line)
            self.transport.close()


def cancel(timer: asyncio.TimerHandle | None) -> None:
    """Cancel a timer, if it is set."""
    if timer:
        timer.cancel()
