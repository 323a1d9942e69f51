"""Damage to files, by structure: what disks, editors, other programs and hands do to them.

A mutation is a function from a file's bytes and random numbers to other bytes. Those that know a format
return None for bytes that do not have it.
"""

import random
import re
from collections.abc import Callable
from pathlib import Path

from damaged_tables import ARRAYS, ARROW, TENSORS, ZIPS
from damaged_values import JSON, JSON_LINES, TOML

Mutation = Callable[[bytes, random.Random], bytes | None]
STRANGE = (
    b"\x00",
    b"\xff\xfe\xfd",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\x1b]52;c;eA==\x07",
    b"\xe2\x80\xae",
    b"\x85",
)
HUGE = (b"9" * 5000, b"1e400", b"-1e400", b"NaN", b"inf", b"-1", b"9223372036854775808", b"0", b"1e-400", b"0x10", b"")


def flip_bit(data: bytes, rng: random.Random) -> bytes | None:
    if not data:
        return None
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def cut(data: bytes, rng: random.Random) -> bytes | None:
    return data[: rng.randrange(len(data))] if data else None


def insert(data: bytes, rng: random.Random) -> bytes:
    place = rng.randint(0, len(data))
    return data[:place] + rng.randbytes(rng.choice((1, 4, 100))) + data[place:]


def insert_strange(data: bytes, rng: random.Random) -> bytes:
    place = rng.choice((0, len(data), rng.randint(0, len(data))))
    return data[:place] + rng.choice(STRANGE) + data[place:]


def delete(data: bytes, rng: random.Random) -> bytes | None:
    if not data:
        return None
    place = rng.randrange(len(data))
    return data[:place] + data[place + rng.choice((1, 4, 100)) :]


def overwrite(data: bytes, rng: random.Random) -> bytes | None:
    """A page of zeros or of noise, as after a power cut."""
    size = rng.choice((1, 8, 512))
    place = rng.randint(0, max(0, len(data) - size))
    page = bytes(size) if rng.random() < 0.5 else rng.randbytes(size)
    return (data[:place] + page + data[place + size :]) if data else None


def number_of_four_bytes(data: bytes, rng: random.Random) -> bytes | None:
    """An absurd number where binary formats keep lengths, offsets and indices."""
    if len(data) < 4:
        return None
    place = rng.randrange(len(data) // 4) * 4
    number = rng.choice((-1, 2**31 - 1, -(2**31), 2**20, 0, 1, 127, 128))
    return data[:place] + number.to_bytes(4, "little", signed=True) + data[place + 4 :]


def empty(data: bytes, rng: random.Random) -> bytes:
    return b""


def grow(data: bytes, rng: random.Random) -> bytes:
    return data + data[-rng.choice((1, 100, 10_000)) :]


BYTES = [flip_bit, flip_bit, cut, insert, insert_strange, delete, overwrite, number_of_four_bytes, empty, grow]


def crlf(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"\n\r")))


def duplicate_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    line = rng.choice(lines)
    lines.insert(rng.randint(0, len(lines)), line)
    return b"\n".join(lines)


def swap_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def swap_fields(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    fields = re.split(rb"([\t ]+)", lines[place])
    a, b = rng.randrange(len(fields)), rng.randrange(len(fields))
    fields[a], fields[b] = fields[b], fields[a]
    lines[place] = b"".join(fields)
    return b"\n".join(lines)


def drop_field(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    fields = re.split(rb"([\t ]+)", lines[place])
    del fields[rng.randrange(len(fields))]
    lines[place] = b"".join(fields)
    return b"\n".join(lines)


def huge_number(data: bytes, rng: random.Random) -> bytes | None:
    numbers = list(re.finditer(rb"-?\d+(?:\.\d+)?(?:e-?\d+)?", data))
    if not numbers:
        return None
    chosen = rng.choice(numbers)
    return data[: chosen.start()] + rng.choice(HUGE) + data[chosen.end() :]


def long_line(data: bytes, rng: random.Random) -> bytes:
    place = rng.randint(0, len(data))
    return data[:place] + rng.choice((b"x", b"x ", b"x\t", b"\n")) * 30_000 + data[place:]


def nest_deeply(data: bytes, rng: random.Random) -> bytes:
    opening, closing = rng.choice(((b"[", b"]"), (b"(", b")"), (b'{"a":', b"}"), (b"(S ", b")")))
    place = rng.randint(0, len(data))
    return data[:place] + opening * 100_000 + data[place:] + (closing * 100_000 if rng.random() < 0.5 else b"")


LINES = [crlf, duplicate_line, swap_lines, swap_fields, drop_field, huge_number, huge_number, long_line, nest_deeply]
TEXTS = {".json": JSON, ".jsonl": JSON_LINES, ".toml": TOML}
TABLES = {".safetensors": TENSORS, ".state": TENSORS, ".npy": ARRAYS, ".partial": ARRAYS, ".npz": ZIPS, ".arrow": ARROW}


def mutations_of(name: str) -> list[Mutation]:
    """What can happen to a file of this name; as often to its bytes as to its structure."""
    suffix = Path(name).suffix
    known = TABLES.get(suffix) or LINES + TEXTS.get(suffix, [])
    return BYTES + known * max(1, round(len(BYTES) / len(known)))


def damage(name: str, data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Other bytes than ``data`` for the file ``name``, and the mutation's name."""
    while True:
        mutation = rng.choice(mutations_of(name))
        damaged = mutation(data, rng)
        if damaged is not None and damaged != data:
            return mutation.__name__, damaged
