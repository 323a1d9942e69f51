"""The server: its address, who may use it, and uvicorn's settings."""

import ipaddress
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI

from structviews.errors import InputError

# The most open connections, below the 1,024 files that a process may usually open; uvicorn answers others with 503.
CONNECTIONS = 500
KEEP_ALIVE = 5  # seconds that an idle connection stays open


def check_token(host: str, token: str | None) -> None:
    """Raise InputError if a server that other machines can reach has no token."""
    if token == "":
        raise InputError("--token: empty: give one, such as the output of: openssl rand -hex 16")
    # A host's name may stand for several addresses.
    if token is None and not all(ipaddress.ip_address(each[4][0]).is_loopback for each in addresses(host, 0)):
        raise InputError(f"--host {host}: other machines can reach this address: add --token, or leave --host out")


def addresses(host: str, port: int) -> list[tuple[Any, ...]]:
    """The results of ``socket.getaddrinfo``; raises InputError if the host does not exist."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InputError(f"--host {host}: no such address ({error}): use a local one, such as 127.0.0.1") from None


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket bound to an address, not yet listening; raises InputError if the address is not available."""
    family, kind, protocol, _, address = addresses(host, port)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise unavailable(address, error) from None
    return bound


def unavailable(address: tuple[Any, ...], error: OSError) -> InputError:
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
    if token:
        return ["*"]
    names = [host.lower(), *(str(address[4][0]) for address in addresses(host, 0))]  # ``url`` shows the address
    return ["localhost", "127.0.0.1", "[::1]", *(f"[{name}]" if ":" in name else name for name in names)]


def serve(app: FastAPI, bound: socket.socket) -> uvicorn.Server:
    """A uvicorn server on a bound socket, which starts listening here; call its ``run`` with ``sockets=[bound]``."""
    try:
        bound.listen(CONNECTIONS)
    except OSError as error:
        raise unavailable(bound.getsockname(), error) from None
    config = uvicorn.Config(
        app,
        ws="none",
        log_config=None,
        log_level="error",
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=KEEP_ALIVE,
        server_header=False,
    )
    return uvicorn.Server(config)
