"""Damage to files, by structure: what disks, editors, other programs and hands do to them.

A mutation is a function from a file's bytes and random numbers to other bytes. Those that know a format return None for
bytes that do not have it.
"""

import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

Mutation = Callable[[bytes, random.Random], bytes | None]
STRANGE = (
    b"\x00", b"\xff\xfe\xfd", b"\xc3", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x1b]52;c;eA==\x07", b"\xe2\x80\xae",
    b"\x85", b"\n", b"noise",
)  # fmt: skip
HUGE = (b"9" * 5000, b"1e400", b"-1e400", b"NaN", b"inf", b"-1", b"9223372036854775808", b"0", b"1e-400", b"0x10", b"")
DEEP = "[" * 100_000 + "]" * 100_000
# As they stand in a file; the last are not JSON by the book, or more than Python turns into a number.
OTHER_VALUES = (
    "null", "true", "-1", "0", "9223372036854775808", "1e400", "0.5", '""', '"x"', '"\\ud800"', '"\\u0000"', "[]", "{}",
    "[[1]]", '{"a": {"b": null}}', '"../../etc/passwd"', '"\\u001b]52;c;eA==\\u0007"', "NaN", "-Infinity", "9" * 5000,
    DEEP,
)  # fmt: skip
OTHER_KEYS = ("", "x", "__class__", "\ud800", "a" * 10_000)
ABSURD = (-1, 0, 1, 2**20, 2**31 - 1, 2**33, 2**40, 2**63 - 1, 2**64)
MARK = "the value that is replaced"


def damage(name: str, data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Other bytes than ``data`` for the file ``name``, and the mutation's name."""
    while True:
        mutation = rng.choice(mutations_of(name))
        damaged = mutation(data, rng)
        if damaged is not None and damaged != data:
            return mutation.__name__, damaged


def mutations_of(name: str) -> list[Mutation]:
    """What can happen to a file of this name; as often to its bytes as to its structure."""
    suffix = Path(name).suffix
    known = TABLES.get(suffix) or LINES + TEXTS.get(suffix, [])
    return BYTES + known * max(1, round(len(BYTES) / len(known)))


# Bytes, whatever the format.


def flip_bit(data: bytes, rng: random.Random) -> bytes | None:
    if not data:
        return None
    start = rng.randrange(len(data))
    return data[:start] + bytes([data[start] ^ 1 << rng.randrange(8)]) + data[start + 1 :]


def cut(data: bytes, rng: random.Random) -> bytes | None:
    """What a killed process leaves."""
    return data[: rng.choice((0, rng.randrange(len(data))))] if data else None


def insert(data: bytes, rng: random.Random) -> bytes:
    start = rng.choice((0, len(data), rng.randint(0, len(data))))
    return data[:start] + rng.choice((*STRANGE, rng.randbytes(100), data[-10_000:])) + data[start:]


def overwrite(data: bytes, rng: random.Random) -> bytes | None:
    """A page of zeros or of noise, as after a power cut."""
    size = rng.choice((1, 8, 512))
    start = rng.randint(0, max(0, len(data) - size))
    page = bytes(size) if rng.random() < 0.5 else rng.randbytes(size)
    return (data[:start] + page + data[start + size :]) if data else None


def number_of_four_bytes(data: bytes, rng: random.Random) -> bytes | None:
    """An absurd number where binary formats keep lengths, offsets and indices."""
    start = rng.randrange(len(data) // 4 or 1) * 4
    number = rng.choice((-1, 2**31 - 1, -(2**31), 2**20, 0, 1, 127, 128))
    return data[:start] + number.to_bytes(4, "little", signed=True) + data[start + 4 :] if len(data) >= 4 else None


BYTES: list[Mutation] = [flip_bit, flip_bit, cut, insert, insert, overwrite, number_of_four_bytes]


# Lines and fields of texts.


def crlf(data: bytes, rng: random.Random) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"\n\r")))


def other_order(data: bytes, rng: random.Random) -> bytes:
    """A line, or a field of a line, that is doubled, dropped or elsewhere."""
    lines = re.split(rb"(\n)", data)
    number = rng.randrange(len(lines))
    fields = lines if rng.random() < 0.5 else re.split(rb"([\t ]+)", lines[number])
    a, b = rng.randrange(len(fields)), rng.randrange(len(fields))
    change = rng.choice(("swap", "double", "drop"))
    if change == "swap":
        fields[a], fields[b] = fields[b], fields[a]
    else:
        fields[a : a + (change == "drop")] = [fields[b]] if change == "double" else []
    if fields is not lines:
        lines[number] = b"".join(fields)
    return b"".join(lines)


def huge_number(data: bytes, rng: random.Random) -> bytes | None:
    numbers = list(re.finditer(rb"-?\d+(?:\.\d+)?(?:e-?\d+)?", data))
    if not numbers:
        return None
    chosen = rng.choice(numbers)
    return data[: chosen.start()] + rng.choice(HUGE) + data[chosen.end() :]


def long_line(data: bytes, rng: random.Random) -> bytes:
    start = rng.randint(0, len(data))
    return data[:start] + rng.choice((b"x", b"x ", b"x\t", b"\n")) * 30_000 + data[start:]


def nest_deeply(data: bytes, rng: random.Random) -> bytes:
    opening, closing = rng.choice(((b"[", b"]"), (b"(", b")"), (b'{"a":', b"}"), (b"(S ", b")")))
    start = rng.randint(0, len(data))
    return data[:start] + opening * 100_000 + data[start:] + (closing * 100_000 if rng.random() < 0.5 else b"")


LINES: list[Mutation] = [crlf, other_order, other_order, huge_number, huge_number, long_line, nest_deeply]


# JSON and TOML: keys that are missing, values of other types, at a random path.


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a tree of objects and lists."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(below for key, each in inside for below in paths(each, (*path, key)))]


def other_json(data: bytes, rng: random.Random) -> bytes | None:
    """A value of another type, an absurd number, brackets without end; a key or item less, a key more or renamed."""
    try:
        value = {MARK: json.loads(data)}
    except ValueError:
        return None
    path = rng.choice(paths(value)[1:])
    owner = value
    for key in path[:-1]:
        owner = owner[key]
    key, text = path[-1], rng.choice(OTHER_VALUES)
    if rng.random() < 0.7 or len(path) == 1:
        owner[key] = MARK
    else:
        if isinstance(owner, dict) and rng.random() < 0.6:
            owner[rng.choice(OTHER_KEYS)] = owner[key]
        if rng.random() < 0.7:
            del owner[key]
    return json.dumps(value[MARK], indent=rng.choice((None, 1))).replace(json.dumps(MARK), text).encode()


def json_line(data: bytes, rng: random.Random) -> bytes | None:
    """One of these in one line."""
    lines = data.split(b"\n")
    number = rng.randrange(len(lines))
    lines[number] = (other_json(lines[number], rng) or b"").replace(b"\n", b" ")
    return b"\n".join(lines)


def toml_value(data: bytes, rng: random.Random) -> bytes | None:
    """A value of another type after ``key =``, or a key or a table of another name."""
    found = list(re.finditer(rng.choice((rb"(?<= = ).+$", rb"^[\w-]+(?= = )|^\[.*\]$")), data, re.MULTILINE))
    if not found:
        return None
    chosen = rng.choice(found)
    values = (*OTHER_VALUES, "nan", "inf", "1979-05-27", "{a = 1}", "'x'", "[1, 'x']", '"""\nx\n"""')
    names = ("", "x", "[x]", "[[x]]", "a." * 5000 + "b", '"\\ud800"', "[")
    other = rng.choice(values if chosen.start() and data[chosen.start() - 1 : chosen.start()] == b" " else names)
    return data[: chosen.start()] + other.encode() + data[chosen.end() :]


def toml_more(data: bytes, rng: random.Random) -> bytes:
    """Tables within tables, or a table that nobody knows."""
    deep = b"\n[" + b".".join([b"a"] * 20_000) + b"]\n"
    return data + rng.choice((deep, b"\n[x]\ny = 1\n", b"\na = " + DEEP.encode() + b"\n"))


TEXTS: dict[str, list[Mutation]] = {
    ".json": [other_json],
    ".jsonl": [json_line],
    ".toml": [toml_value, toml_value, toml_value, toml_more],
}


# safetensors: an absurd header whose length fits, other shapes of the same bytes, numbers that are none.


def header_of(data: bytes) -> tuple[dict[str, Any], bytes] | None:
    try:
        size = int.from_bytes(data[:8], "little")
        return json.loads(data[8 : 8 + size]), data[8 + size :]
    except ValueError:
        return None


def with_header(header: dict[str, Any], rest: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + rest


def tensor_header(data: bytes, rng: random.Random) -> bytes | None:
    """Another shape, type, offset, name or note in a safetensors header; lengths fit."""
    found = header_of(data)
    if found is None or not found[0]:
        return None
    header, rest = found
    names = list(header)
    name = rng.choice(names)
    entry = header[name]
    change = rng.choice(("shape", "dtype", "data_offsets", "name", "drop", "note", "same bytes"))
    if change == "name":
        header[rng.choice(("x", "", "__metadata__", rng.choice(names)))] = header.pop(name)
    elif change == "drop":
        del header[name]
    elif change == "note" or name == "__metadata__":
        notes = header.get("__metadata__") or {"x": "1"}
        key = rng.choice(list(notes))
        notes[key] = (other_json(str(notes[key]).encode(), rng) or b"x").decode()
        header["__metadata__"] = rng.choice((notes, notes, [], {"x": 1}, None))
    elif change == "same bytes":  # in another shape or type, which the format allows
        n = int(np.prod(entry["shape"], dtype=object))
        same_size = {"F32": ["I32", "U32"], "F16": ["I16", "BF16"], "I64": ["F64", "U64"], "U8": ["I8", "BOOL"]}
        entry["shape"] = rng.choice([[n], [n, 1], [1, n], entry["shape"][::-1], [1] * 40 + [n]])
        entry["dtype"] = rng.choice([entry["dtype"], *same_size.get(entry["dtype"], [])])
    elif change == "dtype":
        entry["dtype"] = rng.choice(("F16", "F64", "I64", "BOOL", "U8", "BF16", "F8_E4M3", "X"))
    elif entry[change]:
        entry[change][rng.randrange(len(entry[change]))] = rng.choice(ABSURD)
    return with_header(header, rest)


def strange_number(data: bytes, rng: random.Random) -> bytes | None:
    """NaN, infinity or a giant among the numbers at the end of the file."""
    if len(data) < 140:
        return None
    start = len(data) - 4 * rng.randint(1, (len(data) - 128) // 4)
    return data[:start] + struct.pack("<f", rng.choice((float("nan"), float("inf"), 3e38, -0.0))) + data[start + 4 :]


def header_length(data: bytes, rng: random.Random) -> bytes | None:
    number = rng.choice((0, 1, 7, 2**20, 2**31, 2**63, 2**64 - 1))
    return number.to_bytes(8, "little") + data[8:] if len(data) > 8 else None


TENSORS: list[Mutation] = [tensor_header, tensor_header, tensor_header, strange_number, header_length]


# Arrays and archives of NumPy.


def array_header(data: bytes, rng: random.Random) -> bytes | None:
    """Another shape, type or order in an npy header."""
    if data[:6] != b"\x93NUMPY":
        return None
    size = int.from_bytes(data[8:10], "little")
    header = data[10 : 10 + size].decode("latin-1")
    n, other = rng.choice(ABSURD), rng.choice(("<f8", "<f2", "|O", "<i8", "<U9999999", "|S0", "<c16", "x", "<f99"))
    shape = rng.choice((f"({n}, {rng.choice(ABSURD)})", f"({n},)", "()", f"({n}, 1, 1)", "(1.5, 2)", "(None,)", "("))
    header = rng.choice(
        (
            re.sub(r"\([^)]*\)", shape, header),
            re.sub(r"'[<|>][^']*'", repr(other), header),
            header.replace("False", rng.choice(("True", "None", "3"))),
            header.replace("{", rng.choice(("{" * 5000, "", "[", "__import__('os')")), 1),
        )
    )
    text = header.rstrip().encode("latin-1", "replace")
    text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return data[:8] + (len(text) % 2**16).to_bytes(2, "little") + text + data[10 + size :]


def zip_member(data: bytes, rng: random.Random) -> bytes | None:
    """Another member, one less, or one with a damaged array, in a valid zip."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            members = {name: packed.read(name) for name in packed.namelist()}
    except (ValueError, OSError, zipfile.BadZipFile):
        return None
    name = rng.choice(list(members))
    content = members.pop(name)
    other = (array_header(content, rng) or b"", array_header(content, rng) or b"", b"hello", content)
    members[rng.choice((name, name, name, "../x.npy", "features"))] = rng.choice(other)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for each, inside in members.items():
            packed.writestr(each, inside)
    return out.getvalue()


# Arrow: other columns. Absurd offsets and dictionary indices are numbers of four bytes.


def arrow_columns(data: bytes, rng: random.Random) -> bytes | None:
    """A column less, twice, or of another name or type; fewer rows; other notes in the metadata."""
    try:
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    except (pa.ArrowInvalid, OSError):
        return None
    number = rng.randrange(table.num_columns)
    name = table.column_names[number]
    values = rng.choice((None, 1, "x", [1], [None]))
    notes = table.schema.metadata or {}
    changed = rng.choice(
        (
            lambda: table.drop_columns([name]),
            lambda: table.append_column(name, table[name]),
            lambda: table.set_column(number, name, pa.array([values] * len(table))),
            lambda: table.rename_columns([rng.choice(("x", "")) if n == name else n for n in table.column_names]),
            lambda: table.slice(rng.randint(0, len(table))),
            lambda: table.replace_schema_metadata({key: rng.choice((b"", b"[]", b"{}", b"[[1]]")) for key in notes}),
            lambda: table.replace_schema_metadata(rng.choice((None, {b"x": b"y"}))),
        )
    )()
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, changed.schema) as writer:
        writer.write_table(changed)
    return sink.getvalue()


ARRAYS: list[Mutation] = [array_header, array_header, strange_number]
TABLES: dict[str, list[Mutation]] = {
    ".safetensors": TENSORS,
    ".state": TENSORS,
    ".npy": ARRAYS,
    ".partial": ARRAYS,
    ".npz": [zip_member],
    ".arrow": [number_of_four_bytes, number_of_four_bytes, number_of_four_bytes, arrow_columns],
}
