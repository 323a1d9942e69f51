"""Damage to JSON, JSON lines and TOML: keys that are missing, values of other types, at a random path."""

import json
import random
import re
from typing import Any

DEEP = "[" * 100_000 + "]" * 100_000
# As they stand in a file; the last are not JSON by the book, or more than Python turns into a number.
OTHER_VALUES = (
    "null", "true", "-1", "0", "9223372036854775808", "1e400", "0.5", '""', '"x"', '"\\ud800"', '"\\u0000"', "[]", "{}",
    "[[1]]",
    '{"a": {"b": null}}', '"../../etc/passwd"', '"\\u001b]52;c;eA==\\u0007"', "NaN", "-Infinity", "9" * 5000, DEEP,
)  # fmt: skip
OTHER_KEYS = ("", "x", "__class__", "\ud800", "a" * 10_000)
MARK = "the value that is replaced"


def paths(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every value in a tree of objects and lists."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(path for key, each in inside for path in paths(each, (*place, key)))]


def _holder(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        value = value[key]
    return value


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def other_value(data: bytes, rng: random.Random) -> bytes | None:
    """A value of another type, an absurd number or brackets without end."""
    if (value := _parsed(data)) is None:
        return None
    path = rng.choice(paths(value))
    if path:
        _holder(value, path)[path[-1]] = MARK
    text = json.dumps(value if path else MARK, ensure_ascii=True, indent=1)
    return text.replace(json.dumps(MARK), rng.choice(OTHER_VALUES)).encode()


def missing_key(data: bytes, rng: random.Random) -> bytes | None:
    value = _parsed(data)
    inner = [path for path in paths(value) if path]
    if not inner:
        return None
    path = rng.choice(inner)
    del _holder(value, path)[path[-1]]
    return json.dumps(value).encode()


def other_key(data: bytes, rng: random.Random) -> bytes | None:
    """A key more, or one under another name."""
    value = _parsed(data)
    objects = [path for path in paths(value) if isinstance(_holder(value, (*path, "")), dict)] if value else []
    if not objects:
        return None
    chosen = _holder(value, (*rng.choice(objects), ""))
    key, name = rng.choice([*chosen, ""]), rng.choice(OTHER_KEYS)
    chosen[name] = chosen.pop(key, None) if rng.random() < 0.5 else chosen.get(key)
    return json.dumps(value).encode()


def swap_values(data: bytes, rng: random.Random) -> bytes | None:
    """Two values change places."""
    value = _parsed(data)
    inner = [path for path in paths(value) if path]
    if len(inner) < 2:
        return None
    first, second = rng.sample(inner, 2)
    if first == second[: len(first)] or second == first[: len(second)]:
        return None
    a, b = _holder(value, first), _holder(value, second)
    a[first[-1]], b[second[-1]] = b[second[-1]], a[first[-1]]
    return json.dumps(value).encode()


JSON = [other_value, other_value, missing_key, other_key, swap_values]


def json_line(data: bytes, rng: random.Random) -> bytes | None:
    """One of these in one line."""
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    changed = rng.choice(JSON)(lines[place], rng)
    if changed is None:
        return None
    lines[place] = changed.replace(b"\n", b" ")
    return b"\n".join(lines)


def cut_last_line(data: bytes, rng: random.Random) -> bytes | None:
    """What a killed process leaves."""
    start = data.rstrip(b"\n").rfind(b"\n") + 1
    return data[: rng.randint(start, len(data) - 1)] if data else None


JSON_LINES = [json_line, json_line, json_line, cut_last_line]


def toml_value(data: bytes, rng: random.Random) -> bytes | None:
    """A value of another type after ``key =``."""
    values = list(re.finditer(rb"^[\w-]+ = (.+)$", data, re.MULTILINE))
    if not values:
        return None
    chosen = rng.choice(values)
    other = rng.choice((*OTHER_VALUES, "nan", "inf", "1979-05-27", "{a = 1}", "'x'", "[1, 'x']", '"""\nx\n"""'))
    return data[: chosen.start(1)] + other.encode() + data[chosen.end(1) :]


def toml_key(data: bytes, rng: random.Random) -> bytes | None:
    """A line is left out, or a key or a table has another name."""
    names = list(re.finditer(rb"^(?:[\w-]+(?= = )|\[.*\]$)", data, re.MULTILINE))
    if not names:
        return None
    chosen = rng.choice(names)
    other = rng.choice((b"", b"x", b"[x]", b"[[x]]", b"a." * 5000 + b"b", b'"\\ud800"', b"["))
    end = data.find(b"\n", chosen.end()) if rng.random() < 0.5 else chosen.end()
    return data[: chosen.start()] + other + data[end:]


def toml_deep(data: bytes, rng: random.Random) -> bytes:
    """Tables within tables, and a valid file with a table that nobody knows."""
    more = rng.choice(
        (b"\n[" + b".".join([b"a"] * 20_000) + b"]\n", b"\n[x]\ny = 1\n", b"\na = " + DEEP.encode() + b"\n")
    )
    return data + more


TOML = [toml_value, toml_value, toml_key, toml_deep]
