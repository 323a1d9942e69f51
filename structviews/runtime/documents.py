"""The one reader of JSON and TOML: what is wrong with a file is one line with its place and a remedy.

A document's type is a ``TypedDict`` next to the code that writes it. Documents that only this package writes are
sealed: they hold a checksum of their own content.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import msgspec

from structviews.errors import InputError
from structviews.runtime.files import write_whole
from structviews.runtime.wording import reason

CHECKSUM = "checksum"
BOM = b"\xef\xbb\xbf"
# Of a TOML file, which holds settings: bytes, as a key of ten thousand parts takes seconds, and tables within tables.
MOST_TOML, DEEPEST_TOML = 2**15, 20
# What can go wrong in a text of any content: not UTF-8, not JSON or TOML, numbers of thousands of digits, and brackets
# nested deeper than the stack.
UNREADABLE = (ValueError, RecursionError)


def checked(content: Any, kind: Any, source: object, remedy: str) -> Any:
    """The content of a document, further keys included, or an instance of a dataclass, if it has the type ``kind``.

    Else raises InputError, which names the source and the value's path in the document.
    """
    try:
        found = msgspec.convert(content, kind)
    except UNREADABLE as error:
        raise InputError(f"{source}: {reason(error)}: {remedy}") from None
    return found if is_dataclass(kind) else content


def read_json(path: Path, kind: Any, remedy: str) -> Any:
    """Read a JSON file of the type ``kind``; raises InputError if it cannot be read, or is of another type."""
    return parse_json(_content(path, remedy), kind, path, remedy)


def parse_json(content: bytes, kind: Any, source: object, remedy: str) -> Any:
    """As ``read_json``, from bytes."""
    try:
        parsed = msgspec.json.decode(content.removeprefix(BOM))
    except UNREADABLE as error:
        raise InputError(f"{source}: not JSON ({reason(error)}): {remedy}") from None
    return checked(parsed, kind, source, remedy)


def read_toml(path: Path, remedy: str) -> dict[str, Any]:
    """Read a TOML file; raises InputError if it cannot be read, or is too large for settings."""
    content = _content(path, remedy)
    if len(content) > MOST_TOML:
        raise InputError(f"{path}: {len(content):,} bytes, more than the {MOST_TOML:,} of a file of settings: {remedy}")
    try:
        table = tomllib.loads(content.decode("utf-8"))
        _check_depth(table, DEEPEST_TOML)
    except UNREADABLE as error:
        raise InputError(f"{path}: not TOML ({reason(error)}): {remedy}") from None
    return table


def _check_depth(content: object, deepest: int) -> None:
    """Raise RecursionError for tables and lists that are nested deeper than ``deepest``."""
    if not deepest:
        raise RecursionError
    for each in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        _check_depth(each, deepest - 1)


def write_json(path: Path, content: Mapping[str, Any], sealed: bool = True) -> None:
    """Write JSON atomically, with sorted keys, so that equal content gives equal bytes.

    Sealed, it has its checksum, which ``read_sealed`` asks for.
    """
    whole = {**content, CHECKSUM: checksum(content)} if sealed else content
    text = json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, text.encode())


def read_sealed(path: Path, kind: Any, remedy: str) -> Any:
    """Read what ``write_json`` sealed; raises InputError if it cannot be read, is of another type, or was changed."""
    content = read_json(path, dict[str, Any], remedy)
    if content.get(CHECKSUM) != checksum(content):
        raise InputError(f"{path}: damaged: its checksum does not match its content: {remedy}")
    return checked(content, kind, path, remedy)


def checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of a document's content without the checksum itself."""
    rest = {key: value for key, value in content.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _content(path: Path, remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}: {remedy}") from None
