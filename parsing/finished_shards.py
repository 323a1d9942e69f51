"""The journal of a parsing job: the size and digest of each shard, written down before the shard appears.

So an interrupted job believes no shard that is not exactly what it wrote: a damaged one is parsed again.
"""

import json
import os
import warnings
from contextlib import suppress
from pathlib import Path

from structviews.corpus.format import FINISHED, SHARD_NAME
from structviews.corpus.shard_checks import DamagedCorpus, ShardEntry, whole_shard
from structviews.errors import InputError
from structviews.runtime.documents import parse_json
from structviews.runtime.files import write_bytes


def note_shard(out: Path, entry: ShardEntry) -> None:
    """Write down the entry of a shard that is about to be written."""
    with (out / FINISHED).open("a", encoding="utf-8") as file:
        file.write(_line(entry))
        file.flush()
        os.fsync(file.fileno())


def finished_shards(out: Path) -> dict[str, ShardEntry]:
    """The entries of an earlier attempt's shards, by name, except those of missing or damaged ones."""
    journal = out / FINISHED
    entries: dict[str, ShardEntry] = {}
    for line in journal.read_bytes().split(b"\n") if journal.exists() else ():
        with suppress(InputError):  # cut short by a kill, or damaged
            found = parse_json(line, ShardEntry, FINISHED, "")
            name, rows, size, digest = (found[key] for key in ("name", "rows", "bytes", "sha256"))  # and nothing else
            entry = ShardEntry(name=name, rows=rows, bytes=size, sha256=digest)
            entries[entry["name"]] = entry
    sound = {name: entry for name, entry in entries.items() if _is_sound(out, entry)}
    # Whole lines only, as more will follow.
    write_bytes(journal, "".join(map(_line, sound.values())).encode())
    return sound


def _line(entry: ShardEntry) -> str:
    return json.dumps(entry) + "\n"


def _is_sound(out: Path, entry: ShardEntry) -> bool:
    """Whether a shard is there and is what its entry says; warns of one that is there but differs."""
    path = out / entry["name"]
    if not SHARD_NAME.fullmatch(entry["name"]) or not path.exists():
        return False
    try:
        whole_shard(path, entry)
    except DamagedCorpus as damage:
        warnings.warn(f"{out}: {damage.fault}: it is parsed again", stacklevel=2)
        return False
    return True
