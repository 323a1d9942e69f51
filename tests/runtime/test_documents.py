"""Whatever a JSON or TOML file holds, what is wrong is one line with its place."""

import json
from typing import TypedDict

import pytest
from shell import refused

from structviews.errors import InputError
from structviews.runtime.documents import read_json, read_sealed, read_toml, write_json

REMEDY = "write it again"


class Document(TypedDict):
    name: str
    sizes: list[int]


GOOD = {"name": "a", "sizes": [1, 2], "more": {"b": None}}
BAD = {
    "utf-8": b'{"name": "\xff"}',
    "not a number": b'{"name": "a", "sizes": [NaN]}',
    "huge number": b'{"name": "a", "sizes": [' + b"9" * 5000 + b"]}",
    "infinite": b'{"name": "a", "sizes": [1e999]}',
    "surrogate": b'{"name": "\\ud800", "sizes": []}',
    "nested": b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "empty": b"",
    "missing": b'{"name": "a"}',
    "inner type": b'{"name": "a", "sizes": [1.5]}',
}


def read_a_document(path, remedy):
    return read_json(path, Document, remedy)


def said(path, read):
    message = refused(read, path, REMEDY)
    assert message.startswith(f"{path}: ")
    assert message.endswith(f": {REMEDY}")
    assert len(message) < 400
    return message


@pytest.mark.parametrize("content", [b"%s", b"\xef\xbb\xbf%s"])
def test_what_is_written_is_read_with_further_keys(tmp_path, content):
    (tmp_path / "x").write_bytes(content % json.dumps(GOOD).encode())
    assert read_json(tmp_path / "x", Document, REMEDY) == GOOD


NO_TOML = [b"a = \xff", b"a = " + b"[" * 10_000 + b"]" * 10_000, b"a = " + b"9" * 5000, b"["]


@pytest.mark.parametrize(("read", "contents"), [(read_a_document, BAD.values()), (read_toml, NO_TOML)])
def test_what_is_wrong_is_one_line(tmp_path, read, contents):
    for content in contents:
        (tmp_path / "x").write_bytes(content)
        assert ("$.sizes[0]" in said(tmp_path / "x", read)) == (content == BAD["inner type"])
    said(tmp_path, read)
    said(tmp_path / "none", read)


def test_a_sealed_document_is_what_was_written(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, GOOD)
    assert read_sealed(path, Document, REMEDY) == GOOD | {"checksum": read_sealed(path, Document, REMEDY)["checksum"]}
    before = path.read_bytes()
    write_json(path, read_sealed(path, Document, REMEDY))
    assert path.read_bytes() == before
    for place in range(len(before)):
        changed = bytes([before[place] ^ 1])
        if not (before[place : place + 1] + changed).isspace():
            path.write_bytes(before[:place] + changed + before[place + 1 :])
            with pytest.raises(InputError, match=r"x\.json: "):
                read_sealed(path, Document, REMEDY)


def test_what_json_has_no_number_for_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="nan"):
        write_json(tmp_path / "x", {"a": float("nan")})
    assert not (tmp_path / "x").exists()
