"""Damage to safetensors, npy, npz and Arrow files: absurd shapes, types, offsets and indices in valid containers."""

import io
import json
import random
import re
import struct
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from damaged_values import JSON

ABSURD = (-1, 0, 1, 2**20, 2**31 - 1, 2**33, 2**40, 2**63 - 1, 2**64)


def tensor_header(data: bytes, rng: random.Random) -> bytes | None:
    """Another shape, type, offset, name or note in a safetensors header; lengths fit."""
    found = header_of(data)
    if found is None:
        return None
    header, rest = found
    names = list(header)
    if not names:
        return None
    name = rng.choice(names)
    entry = header[name]
    change = rng.choice(("shape", "dtype", "data_offsets", "name", "drop", "note"))
    if change == "name":
        header[rng.choice(("x", "", "__metadata__", rng.choice(names)))] = header.pop(name)
    elif change == "drop":
        del header[name]
    elif change == "note" or name == "__metadata__":
        header["__metadata__"] = rng.choice(({}, [], {"x": 1}, None, dict.fromkeys(entry, "x"), {"progress": "[]"}))
    elif change == "dtype":
        entry["dtype"] = rng.choice(("F16", "F64", "I64", "BOOL", "U8", "BF16", "F8_E4M3", "X"))
    else:
        numbers = entry[change]
        if not numbers:
            return None
        numbers[rng.randrange(len(numbers))] = rng.choice(ABSURD)
    return with_header(header, rest)


def other_tensor_shape(data: bytes, rng: random.Random) -> bytes | None:
    """A tensor of the same bytes in another shape or type, which the format allows."""
    found = header_of(data)
    names = [name for name in found[0] if name != "__metadata__"] if found else []
    if not found or not names:
        return None
    header, rest = found
    entry = header[rng.choice(names)]
    n = int(np.prod(entry["shape"], dtype=object))
    same_size = {"F32": ["I32", "U32"], "F16": ["I16", "BF16"], "I64": ["F64", "U64"], "U8": ["I8", "BOOL"]}
    shapes = [[n], [n, 1], [1, n], entry["shape"][::-1], [1] * 40 + [n]]
    entry["shape"] = rng.choice(shapes)
    entry["dtype"] = rng.choice([entry["dtype"], *same_size.get(entry["dtype"], [])])
    return with_header(header, rest)


def tensor_values(data: bytes, rng: random.Random) -> bytes | None:
    """NaN, infinity and giants among the numbers."""
    found = header_of(data)
    if not found or len(found[1]) < 4:
        return None
    header, rest = found
    place = rng.randrange(len(rest) // 4) * 4
    value = rng.choice((float("nan"), float("inf"), 3e38, -0.0))
    return with_header(header, rest[:place] + struct.pack("<f", value) + rest[place + 4 :])


def tensor_notes(data: bytes, rng: random.Random) -> bytes | None:
    """Other notes in the metadata: keys that are missing, values of other types."""
    found = header_of(data)
    notes = found[0].get("__metadata__") if found else None
    if not found or not notes:
        return None
    key = rng.choice(list(notes))
    changed = rng.choice(JSON)(notes[key].encode(), rng)
    if changed is None:
        return None
    notes[key] = changed.decode()
    return with_header(*found)


def header_length(data: bytes, rng: random.Random) -> bytes | None:
    number = rng.choice((0, 1, 7, 2**20, 2**31, 2**63, 2**64 - 1))
    return number.to_bytes(8, "little") + data[8:] if len(data) > 8 else None


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


TENSORS = [tensor_header, tensor_header, tensor_notes, other_tensor_shape, tensor_values, header_length]


def array_header(data: bytes, rng: random.Random) -> bytes | None:
    """Another shape, type or order in an npy header."""
    if data[:6] != b"\x93NUMPY":
        return None
    size = int.from_bytes(data[8:10], "little")
    header = data[10 : 10 + size].decode("latin-1")
    change = rng.choice(("shape", "descr", "fortran_order", "text"))
    n, other = rng.choice(ABSURD), rng.choice(("<f8", "<f2", "|O", "<i8", "<U9999999", "|S0", "<c16", "x", "<f99"))
    shape = rng.choice((f"({n}, {rng.choice(ABSURD)})", f"({n},)", "()", f"({n}, 1, 1)", "(1.5, 2)", "(None,)", "("))
    header = {
        "shape": lambda: re.sub(r"\([^)]*\)", shape, header),
        "descr": lambda: re.sub(r"'[<|>][^']*'", repr(other), header),
        "fortran_order": lambda: header.replace("False", rng.choice(("True", "None", "3"))),
        "text": lambda: header.replace("{", rng.choice(("{" * 5000, "", "[", "__import__('os')")), 1),
    }[change]()
    text = header.rstrip().encode("latin-1", "replace")
    text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return data[:8] + (len(text) % 2**16).to_bytes(2, "little") + text + data[10 + size :]


def array_values(data: bytes, rng: random.Random) -> bytes | None:
    """NaN, infinity and giants among the numbers."""
    if len(data) < 140:
        return None
    place = 128 + rng.randrange((len(data) - 128) // 4) * 4
    value = rng.choice((float("nan"), float("inf"), 3e38))
    return data[:place] + struct.pack("<f", value) + data[place + 4 :]


ARRAYS = [array_header, array_header, array_values]


def zip_member(data: bytes, rng: random.Random) -> bytes | None:
    """Another member, one less, twice the same, or one with a damaged array, in a valid zip."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            members = {name: packed.read(name) for name in packed.namelist()}
    except (ValueError, OSError, zipfile.BadZipFile):
        return None
    name = rng.choice(list(members))
    change = rng.choice(("array", "array", "drop", "text", "name", "bomb"))
    if change == "array":
        members[name] = array_header(members[name], rng) or b""
    elif change == "drop":
        del members[name]
    elif change == "name":
        members[rng.choice(("../x.npy", "x", "features", "a.npy"))] = members.pop(name)
    else:
        members[name] = b"hello" if change == "text" else members[name][:128] + bytes(50_000_000)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for each, content in members.items():
            packed.writestr(each, content)
    return out.getvalue()


ZIPS = [zip_member]


def arrow_buffer(data: bytes, rng: random.Random) -> bytes | None:
    """An absurd offset, dictionary index or bitmap in one column of a valid Arrow file."""
    table = _table(data)
    if table is None:
        return None
    batches = table.to_batches()
    if not batches or not batches[0].num_rows:
        return None
    number = rng.randrange(len(batches))
    batch = batches[number]
    place = rng.randrange(batch.num_columns)
    columns = list(batch.columns)
    try:
        columns[place] = _damaged_array(columns[place], rng)
    except pa.ArrowInvalid:  # what Arrow itself refuses to make
        return None
    batches[number] = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    return _written(batches, table.schema)


def arrow_columns(data: bytes, rng: random.Random) -> bytes | None:
    """A column less, twice, of another type or name; fewer rows, none at all; other notes."""
    table = _table(data)
    if table is None:
        return None
    place = rng.randrange(table.num_columns)
    change = rng.choice(("drop", "twice", "type", "name", "rows", "none", "notes", "nulls"))
    name = table.column_names[place]
    if change == "drop":
        table = table.remove_column(place)
    elif change == "twice":
        table = table.append_column(name, table[name])
    elif change in ("type", "nulls"):
        values = rng.choice(([1] * len(table), ["x"] * len(table), [[1]] * len(table), [[None]] * len(table)))
        table = table.set_column(place, name, pa.array(values if change == "type" else [None] * len(table)))
    elif change == "name":
        table = table.rename_columns(
            [rng.choice(("x", "", each)) if each == name else each for each in table.column_names]
        )
    elif change in ("rows", "none"):
        table = table.slice(rng.randint(0, len(table)) if change == "rows" else len(table))
    else:
        notes = rng.choice((None, {}, {b"structviews.skipped": b"["}, {b"x": b"y"}))
        noted = {
            key: rng.choice((b"", b"[]", b"{}", b"[[1]]", value))
            for key, value in (table.schema.metadata or {}).items()
        }
        table = table.replace_schema_metadata(rng.choice((notes, noted)))
    return _written(table.to_batches(), table.schema)


def _table(data: bytes) -> Any:
    try:
        return pa.ipc.open_file(pa.py_buffer(data)).read_all()
    except (pa.ArrowInvalid, OSError):
        return None


def _written(batches: list[Any], schema: Any) -> bytes | None:
    sink = io.BytesIO()
    try:
        with pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None
    return sink.getvalue()


def _damaged_array(array: Any, rng: random.Random) -> Any:
    """The array with one number of one of its own buffers, or of its children's, made absurd; nothing is checked."""
    if pa.types.is_dictionary(array.type):
        return _damaged_dictionary(array, rng)
    if pa.types.is_list(array.type):
        values, offsets = array.values, array.buffers()[1]
        if rng.random() < 0.6:
            values = _damaged_array(values, rng)
        else:
            offsets = _damaged_buffer(offsets, 4, rng)
        return pa.ListArray.from_buffers(array.type, len(array), [None, offsets], children=[values])
    return array if pa.types.is_fixed_size_list(array.type) else _damaged_values(array, rng)


def _damaged_dictionary(array: Any, rng: random.Random) -> Any:
    indices, words = array.indices, array.dictionary
    if rng.random() < 0.2:
        words = _damaged_array(words, rng)
    else:
        indices = _damaged_array(indices, rng)
    return pa.DictionaryArray.from_arrays(indices, words, safe=False)


def _damaged_values(array: Any, rng: random.Random) -> Any:
    width = 4 if pa.types.is_string(array.type) else max(1, array.type.bit_width // 8)
    buffers = array.buffers()
    places = [i for i, each in enumerate(buffers) if each is not None and each.size >= width]
    if not places:
        return array
    place = rng.choice(places)
    buffers[place] = _damaged_buffer(buffers[place], width if place == 1 else 1, rng)
    return pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset)


def _damaged_buffer(buffer: Any, width: int, rng: random.Random) -> Any:
    content = bytearray(buffer.to_pybytes())
    place = rng.randrange(len(content) // width) * width
    bits = 8 * width
    number = rng.choice((-1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 1, 0, 100))
    content[place : place + width] = (number % 2**bits).to_bytes(width, "little")
    return pa.py_buffer(bytes(content))


ARROW = [arrow_buffer, arrow_buffer, arrow_buffer, arrow_columns]
