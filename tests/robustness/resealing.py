"""Damage under right digests: what is left to find it are the checks of a file's structure."""

import hashlib
import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from damage import header_of, with_header

from structviews.encoding.kinds.baseline import fingerprint as given_hash
from structviews.parsing.backends import builtin
from structviews.runs.folder import CONFIG
from structviews.runtime.documents import CHECKSUM, checksum
from structviews.runtime.files import digest
from structviews.runtime.seals import ENTRY, head_digest
from structviews.words.vector_files import VECTORS_KEY, WORDS_KEY, words_digest

# Of a small npy file.
HEADER = 128


def reseal(path: Path) -> None:
    """Make all digests right that a damaged file has, or that others have of it, where what it holds allows it."""
    for applies, make_right in RESEALS.items():
        if path.match(applies):
            with suppress(ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError, IndexError):
                make_right(path)
            return


def _shard(path: Path) -> None:
    """The digest of a shard is in the manifest or, as long as there is none, in a journal."""
    journal, manifest = path.with_name("finished.jsonl"), path.with_name("manifest.json")
    if journal.exists():
        entries = [_entry(path, json.loads(line)) for line in journal.read_bytes().splitlines()]
        journal.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    else:
        content = json.loads(manifest.read_bytes())
        content["shards"] = [_entry(path, entry) for entry in content["shards"]]
        manifest.write_text(json.dumps(content))
        _document(manifest)


def _entry(path: Path, entry: dict[str, object]) -> dict[str, object]:
    content = path.read_bytes()
    own = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return entry | (own if entry["name"] == path.name else {})


def _document(path: Path) -> None:
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps(content | {CHECKSUM: checksum(content)}))


def _tensors(path: Path) -> None:
    found = header_of(path.read_bytes())
    if found is None:
        return
    header, rest = found
    metadata = header.pop("__metadata__", None) or {}
    notes = json.loads(metadata.get(ENTRY, "{}")).get("notes", {})
    described = {name: (entry["dtype"], entry["shape"]) for name, entry in header.items()}
    data = digest(*(rest[slice(*header[name]["data_offsets"])] for name in sorted(header)))
    seal = {"notes": notes, "data": data, "head": head_digest(notes, described, data)}
    header["__metadata__"] = {ENTRY: json.dumps(seal, sort_keys=True)}
    path.write_bytes(with_header(header, rest))


def sealed_content(data: bytes) -> Any:
    """What a sealed file of tensors says, however its header is written."""
    header, rest = header_of(data) or ({}, b"")
    seal = json.loads(header.pop("__metadata__")[ENTRY])
    return seal["notes"], seal["data"], seal["head"], sorted(header.items()), rest


def _parser(path: Path) -> None:
    weights, settings, own = (path.with_name(name) for name in builtin.FILES)
    own.write_text(hashlib.sha256(weights.read_bytes() + settings.read_bytes()).hexdigest())


def _blocks(path: Path) -> None:
    """The digests of an array's blocks, as many rows in each as there were."""
    beside = (f"{path.name}.digests", path.name.lstrip(".").partition(".npy")[0] + ".digests")
    journal = next(path.with_name(name) for name in beside if path.with_name(name).exists())
    content = path.read_bytes()[HEADER:]
    step = -(-len(content) // len(journal.read_bytes().splitlines()))
    blocks = [content[start : start + step] for start in range(0, len(content), step)]
    journal.write_text("".join(f"{digest(block)}\n" for block in blocks))


def _given(path: Path) -> None:
    """The run of vectors from elsewhere has a hash of them."""
    config = path.parent / "run" / CONFIG
    found = given_hash(path.with_name("x.npy"))
    config.write_text(re.sub("^fingerprint = .*$", f'fingerprint = "{found}"', config.read_text(), flags=re.MULTILINE))


def _word_vectors(path: Path) -> None:
    content = path.read_bytes()
    reader = pa.ipc.open_file(pa.py_buffer(content))
    for number in range(reader.num_record_batches):
        batch, digests = reader.get_batch_with_custom_metadata(number)
        words = words_digest(batch["word"], batch["vector"].type.list_size)
        vectors = digest(np.frombuffer(batch["vector"].values.buffers()[1], np.float32).data)
        for key, found in ((WORDS_KEY, words), (VECTORS_KEY, vectors)):
            content = content.replace(digests[key], found.encode())
    path.write_bytes(content)


# The first pattern that a path matches decides.
RESEALS: dict[str, Callable[[Path], None]] = {
    "shard-*.arrow": _shard,
    "*.arrow": _word_vectors,
    "parser/model.*": _parser,
    "*.safetensors": _tensors,
    "*.state": _tensors,
    "*.json": _document,
    "x.npy": _given,
    "x.txt": _given,
    "*.npy": _blocks,
    "*.partial": _blocks,
}
