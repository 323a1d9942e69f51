"""Requests per second of structviews serve, and its behaviour under load.

    python scripts/bench.py serve runs/dep-const                                # 200 clients for 30 s on loopback
    python scripts/bench.py serve runs/dep-const --clients 20 --seconds 5 --json load.json

Starts the server on a free port. Every client has one connection and sends a new request as soon as it gets an answer:
for the vector of a new sentence each time, which is tokenised, parsed and encoded. Meanwhile two other clients send an
oversized request and invalid JSON; the output shows the answers. Memory is the server's resident set before the load,
halfway through, and after it. The clients run on the same machine and use part of it.
"""

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from benchmarks.measure import megabytes

SUBJECTS = ("a bird", "the old man", "nobody", "her sister's friend", "the first train of the day", "rain")
VERBS = ("sees", "follows", "has never heard of", "is waiting for", "remembers", "stands beside")
OBJECTS = ("the dead tree", "a dog that barks", "what they said", "the house on the hill", "him", "a long letter")
ENDS = (".", " today.", ", or so they say.", " and goes on.", " in the middle of the night.", "?")
MOST = 100_000
"""Requests of a client, whatever the time."""
TIMEOUT = 60.0


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("run", type=Path, help="a run's folder")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start the server, and load it."""
    command = [sys.executable, "-m", "structviews", "serve", str(options.run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            found = asyncio.run(load(server, options.clients, options.seconds))
        finally:
            server.send_signal(signal.SIGINT)
    return found | {"run": options.run.name, "clients": options.clients}


async def load(server: subprocess.Popen[str], clients: int, seconds: float) -> dict[str, Any]:
    """Run the clients for some seconds."""
    assert server.stdout
    url = urlsplit((await asyncio.to_thread(server.stdout.readline)).strip())
    if not url.port:
        raise SystemExit(2)  # the server has printed why
    address = str(url.hostname), url.port
    memory = [megabytes("VmRSS", server.pid)]
    times: list[float] = []
    errors: Counter[str] = Counter()
    began = time.perf_counter()

    async def note_memory() -> None:
        await asyncio.sleep(seconds / 2)
        memory.append(megabytes("VmRSS", server.pid))

    askers = [client(address, number, began + seconds, times, errors) for number in range(clients)]
    load_on = asyncio.gather(note_memory(), *askers)
    bad = asyncio.create_task(bad_requests(address))
    await load_on
    took = time.perf_counter() - began
    memory.append(megabytes("VmRSS", server.pid))
    p50, p99 = np.percentile(times, [50, 99]) * 1000 if times else (float("nan"),) * 2
    return {
        "requests": len(times),
        "requests/s": len(times) / took,
        "p50 ms": p50,
        "p99 ms": p99,
        "errors": dict(errors),
        "resident MB": memory,
        "bad": await bad,
    }


async def client(address: tuple[str, int], number: int, until: float, times: list[float], errors: Counter[str]) -> None:
    """Send one sentence after another; record the seconds of each answer, or the error."""
    rng = random.Random(number)
    connection = None
    for _ in range(MOST):
        began = time.perf_counter()
        if began >= until:
            break
        try:
            connection = connection or await asyncio.open_connection(*address)
            async with asyncio.timeout(TIMEOUT):
                status = await asked(*connection, sentence(rng))
            if status == 200:
                times.append(time.perf_counter() - began)
            else:
                errors[str(status)] += 1
        except (OSError, EOFError, TimeoutError) as error:
            errors[type(error).__name__] += 1
            connection = None
            await asyncio.sleep(0.1)
    if connection:
        connection[1].close()


def sentence(rng: random.Random) -> str:
    """One of many sentences, mostly new to the server."""
    parts = [rng.choice(SUBJECTS), rng.choice(VERBS), rng.choice(OBJECTS)]
    return f"{' '.join(parts)} {rng.randrange(10**6)} times{rng.choice(ENDS)}"


async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str) -> int:
    """Send a request, read the whole answer and return its status."""
    writer.write(request(json.dumps({"sentences": [text]}).encode()))
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
    await reader.readexactly(length)
    return int(lines[0].split()[1])


def request(body: bytes, last: bool = False) -> bytes:
    """A request for vectors, after the last of which the connection is closed."""
    head = "POST /encode HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += "Connection: close\r\n" if last else ""
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def bad_requests(address: tuple[str, int]) -> dict[str, str]:
    """The server's answers to requests that are too large or invalid."""
    sent = {
        "oversize": request(b'{"sentences": ["' + b"x" * 2_000_000 + b'"]}', last=True),
        "malformed": request(b'{"sentences": [', last=True),
    }
    answers = await asyncio.gather(*(answer(address, content) for content in sent.values()))
    return dict(zip(sent, answers, strict=True))


async def answer(address: tuple[str, int], content: bytes) -> str:
    """Status and body of the answer."""
    try:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(content)
        async with asyncio.timeout(TIMEOUT):
            found = await reader.read()
        writer.close()
    except (OSError, TimeoutError) as error:
        return type(error).__name__
    head, _, body = found.decode().partition("\r\n\r\n")
    return f"{head.split()[1]} {body}" if head else "closed"


def tables(found: dict[str, Any]) -> str:
    """The figures as text."""
    before, half, after = found["resident MB"]
    errors = ", ".join(f"{count} x {what}" for what, count in found["errors"].items()) or "none"
    lines = [
        f"{found['run']}, {found['clients']} clients",
        f"{found['requests']:,} requests, {found['requests/s']:.0f}/s",
        f"p50 {found['p50 ms']:.0f} ms, p99 {found['p99 ms']:.0f} ms; errors: {errors}",
        f"resident: {before:.0f} MB before, {half:.0f} MB half-way, {after:.0f} MB after",
        *(f"{request}: {answer}" for request, answer in found["bad"].items()),
    ]
    return "\n".join(lines)
