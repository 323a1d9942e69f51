"""What stands before the application: who may ask, how much, and how long it may take."""

import asyncio
import json
import secrets
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY = 2**19
"""Bytes that a request may have."""
THROWN_AWAY = 2**24
SECONDS = 20.0
"""Seconds that a client may take to send a request, or to read an answer."""
# Nothing of the page comes from elsewhere, and no other page may show it.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware: refuses what is too large, too slow, without the token or asked under another name.

    Args:
        app: what is guarded.
        token: what requests must bear, but for ``open_paths``; None where anyone may ask.
        hosts: names and addresses under which the server is asked; ``*`` for any.
        open_paths: what holds nothing of the runs: the page, and the description of the endpoints.
        seconds: until the body must be there.
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
            await refuse(send, 408, f"the request was not there after {self._seconds:g} s: send it faster")
            return
        except ConnectionError:
            return
        if refusal:
            await refuse(send, *refusal)
            return
        if body is None:
            await refuse(send, 413, f"the request is too large: send at most {BODY:,} bytes, such as fewer sentences")
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
        """Status and line for a request that is not to be answered, whatever it asks."""
        host = host_name(headers.get(b"host", b"").decode("latin-1"))
        if "*" not in self._hosts and host not in self._hosts:
            return 400, f"the server has no name {host[:60]!r}: ask for {' or '.join(sorted(self._hosts))}"
        if self._bearer is None or path in self._open_paths:
            return None
        if secrets.compare_digest(headers.get(b"authorization", b""), self._bearer):
            return None
        return 401, "give the token that the server was started with, as Authorization: Bearer TOKEN"


def host_name(header: str) -> str:
    """What a ``Host`` header names, without the port; an IPv6 address stands there in brackets."""
    bracketed = header.startswith("[")
    return (header[1:].partition("]")[0] if bracketed else header.partition(":")[0]).lower()


async def read_body(receive: Receive, most: int) -> bytes | None:
    """The body of a request; None if it has more than ``most`` bytes, or if some are not read.

    What is too large is read and thrown away, up to ``THROWN_AWAY``: clients that still send would not see the answer.

    Raises:
        ConnectionError: if the client goes away.
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
    """``HEADERS`` as ASGI wants them."""
    return [(name.encode(), value.encode()) for name, value in HEADERS.items()]


async def refuse(send: Send, status: int, line: str) -> None:
    """Answer with one line, and close the connection: what is left of the request is not read."""
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
