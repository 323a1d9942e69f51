"""Checks before a request reaches the application: host, token, size and time."""

import asyncio
import json
import secrets
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY = 2**19
"""Maximum bytes of a request body."""
THROWN_AWAY = 2**24
SECONDS = 20.0
"""Time limit, in seconds, for a client to send a request or read a response."""
# The page loads nothing from other origins, and no other page may embed it.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware that rejects requests that are too large or too slow, lack the token or name another host.

    Args:
        app: the application to protect.
        token: bearer token that requests must carry, except for ``open_paths``; None for open access.
        hosts: accepted ``Host`` names and addresses; ``*`` for any.
        open_paths: paths that reveal nothing about the runs: the page and the OpenAPI schema.
        seconds: time limit for receiving the body.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        hosts: Collection[str],
        open_paths: Collection[str],
        seconds: float = SECONDS,
    ):
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._bearer = f"Bearer {token}".encode() if token is not None else None
        self._open_paths = open_paths
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope["path"], dict(scope["headers"]))
        try:
            async with asyncio.timeout(self._seconds):
                body = await read_body(receive, 0 if refusal else BODY)
        except TimeoutError:
            await refuse(send, 408, f"the request did not arrive within {self._seconds:g} s: send it faster")
            return
        except ConnectionError:
            return
        if refusal:
            await refuse(send, *refusal)
            return
        if body is None:
            await refuse(send, 413, f"the request is too large: send at most {BODY:,} bytes (fewer sentences)")
            return
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return unread.pop() if unread else await receive()

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *encoded_headers()]
            await send(message)

        await self._app(scope, replay, with_headers)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Status and message for a request to reject; None to accept it."""
        host = host_name(headers.get(b"host", b"").decode("latin-1"))
        if "*" not in self._hosts and host not in self._hosts:
            return 400, f"unknown host {host[:60]!r}: use {' or '.join(sorted(self._hosts))}"
        if self._bearer is None or path in self._open_paths:
            return None
        if secrets.compare_digest(headers.get(b"authorization", b""), self._bearer):
            return None
        return 401, "missing or wrong token: send the server's token as Authorization: Bearer TOKEN"


def host_name(header: str) -> str:
    """The host in a ``Host`` header, without the port and without the brackets of an IPv6 address."""
    bracketed = header.startswith("[")
    return (header[1:].partition("]")[0] if bracketed else header.partition(":")[0]).lower()


async def read_body(receive: Receive, most: int) -> bytes | None:
    """Read the body of a request; return None if it exceeds ``most`` bytes.

    A body that is too large is read and discarded, up to ``THROWN_AWAY`` bytes: a client that is still sending would
    not see the response.

    Raises:
        ConnectionError: if the client disconnects.
    """
    body = bytearray()
    size, more = 0, True
    while more and size <= THROWN_AWAY:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError
        part = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(part)
        if size <= most:
            body += part
    return bytes(body) if size <= most else None


def encoded_headers() -> list[tuple[bytes, bytes]]:
    """``HEADERS`` in ASGI's format."""
    return [(name.encode(), value.encode()) for name, value in HEADERS.items()]


async def refuse(send: Send, status: int, line: str) -> None:
    """Respond with a one-line error and close the connection without reading the rest of the request."""
    body = json.dumps({"detail": line}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *([(b"www-authenticate", b"Bearer")] if status == 401 else []),
        *encoded_headers(),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
