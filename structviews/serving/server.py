"""The address that is listened on, and the server's patience with slow clients."""

import asyncio
import ipaddress
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from structviews.errors import InputError
from structviews.serving.guard import SECONDS

CONNECTIONS = 500
"""Connections that may be open at once; more are answered with 503."""
KEEP_ALIVE = 5
"""Seconds that a connection stays open with no request on it."""


def check_token(host: str, token: str | None) -> None:
    """Raise InputError unless a server that others can reach has a token."""
    if token == "":
        raise InputError("--token: empty: give one, such as that of: openssl rand -hex 16")
    if token is None and not is_loopback(host):
        raise InputError(f"--host {host}: others can reach that address: give --token too, or leave --host out")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    Raises:
        InputError: if there is no such host.
    """
    return all(ipaddress.ip_address(address[4][0]).is_loopback for address in addresses(host, 0))


def addresses(host: str, port: int) -> list[tuple[Any, ...]]:
    """What ``socket.getaddrinfo`` gives; raises InputError if there is no such host."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InputError(f"--host {host}: no such address ({error}): give one of this machine, as 127.0.0.1") from None


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that has an address, on which nothing listens yet.

    Raises:
        InputError: if the address is not to be had.
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
    """What to say of an address that another program has."""
    host, port, *_ = address
    return InputError(f"port {port} of {host} cannot be had ({error.strerror}): give another --port")


def url(bound: socket.socket) -> str:
    """Where the server is found."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def allowed_hosts(host: str, token: str | None) -> list[str]:
    """Names under which the server may be asked.

    Without a token a page from elsewhere, whose name is made to point at this machine, must not read the corpus.
    """
    return ["*"] if token else ["localhost", "127.0.0.1", "::1", host]


def serve(app: FastAPI, bound: socket.socket, seconds: float = SECONDS) -> uvicorn.Server:
    """A server of an application on a socket; its ``run`` takes ``sockets=[bound]``.

    Args:
        app: what it serves.
        bound: where; it listens from now on.
        seconds: that a client may take to send a request, or to read an answer.

    Raises:
        InputError: if another program has begun to listen there meanwhile.
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
    """HTTP with an end to patience: uvicorn itself waits for ever for headers, and for an answer to be read.

    Attributes:
        patience: seconds until the headers of a request must be there, and an answer must be read.
    """

    patience = SECONDS
    _headers_due: asyncio.TimerHandle | None = None
    _reading_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
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
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _too_slow(self) -> None:
        self._headers_due = None
        if not self._busy():
            line = b'{"detail":"the request was not there in time: send it faster"}'
            head = f"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: {len(line)}\r\n"
            self.transport.write(head.encode() + b"connection: close\r\n\r\n" + line)
            self.transport.close()


def cancel(timer: asyncio.TimerHandle | None) -> None:
    """Stop a timer, if there is one."""
    if timer:
        timer.cancel()
