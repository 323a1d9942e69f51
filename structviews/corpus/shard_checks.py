"""What a shard must be before anything computes with it: the file of its entry, whole, and every tree a tree."""

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from structviews.corpus.flat import Flat, end_of_chains
from structviews.corpus.format import COLUMNS, KEPT, NAMES, NUMBERS, PLACES, SKIPPED_KEY, read_shard, skipped_of
from structviews.errors import InputError
from structviews.runtime.arrays import Array
from structviews.runtime.files import file_hash

Place = tuple[int, int]
OTHER_COLUMNS = "its columns are not those that the manifest names"
# The characters for which str.isspace() is true.
WHITE_SPACE = "[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"


class ShardEntry(TypedDict):
    """A shard in the manifest: its file, its number of rows, its size and its digest."""

    name: str
    rows: int
    bytes: int
    sha256: str


class DamagedCorpus(InputError):  # noqa: N818 - named for the state of the corpus
    """A corpus whose files have changed since they were written.

    Attributes:
        fault: the file and what is wrong with it, without the remedy.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.fault = f"{path.name}: {what}"
        super().__init__(f"{path} is damaged: {what}: copy {path.parent} again, or delete it and parse the text again")


def sound_shard(path: Path, entry: ShardEntry) -> pa.Table:
    """A shard's content, memory-mapped, if it is what the manifest says and all its sentences are valid.

    Raises:
        DamagedCorpus: if it is not.
    """
    table = whole_shard(path, entry)
    wrong = np.flatnonzero(malformed(table))
    if len(wrong):
        raise DamagedCorpus(path, f"{len(wrong)} of its sentences are invalid, the first in row {wrong[0]}")
    return table


def check_size(path: Path, size: int) -> None:
    """Raise DamagedCorpus unless the shard exists and has the size in the manifest."""
    if not path.is_file():
        raise DamagedCorpus(path, "the file is missing")
    if path.stat().st_size != size:
        raise DamagedCorpus(path, f"it has {path.stat().st_size} bytes, but the manifest says {size}")


def check_content(path: Path, entry: ShardEntry) -> None:
    """Raise DamagedCorpus unless the shard exists and matches its entry in the manifest."""
    check_size(path, entry["bytes"])
    if file_hash(path) != entry["sha256"]:
        raise DamagedCorpus(path, "its checksum does not match the manifest")


def whole_shard(path: Path, entry: ShardEntry) -> pa.Table:
    """A shard's content.

    Raises:
        DamagedCorpus: if it does not match the manifest, or does not have the columns of a parsed corpus.
    """
    check_content(path, entry)
    try:
        table = read_shard(path)
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise DamagedCorpus(path, f"it cannot be read ({' '.join(str(error).split())})") from None
    if not is_schema(table.schema) or SKIPPED_KEY not in (table.schema.metadata or {}):
        raise DamagedCorpus(path, "its columns are not those of a parsed corpus")
    if any(column.num_chunks != 1 for column in table.columns):
        raise DamagedCorpus(path, "it is not one record batch")
    if any(has_nulls(column.chunk(0)) for column in table.columns):
        raise DamagedCorpus(path, "a value is missing")
    try:
        skipped_of(table)
    except InputError as error:
        raise DamagedCorpus(path, str(error)) from None
    if table.num_rows != entry["rows"]:
        raise DamagedCorpus(path, f"it has {table.num_rows} rows, but the manifest says {entry['rows']}")
    return table


def is_schema(schema: pa.Schema) -> bool:
    """Whether the columns have the names and types of a shard."""
    also = kept_in(schema)
    plain = PLACES | dict.fromkeys(also, pa.string())
    if schema.names != [*COLUMNS, *also] or any(schema.field(name).type != kind for name, kind in plain.items()):
        return False
    lists = [field.type for field in schema if field.name not in plain]
    if not all(map(pa.types.is_list, lists)):
        return False
    names = [schema.field(name).type.value_type for name in NAMES]
    numbers = {schema.field(name).type.value_type for name in NUMBERS}
    return numbers in ({pa.uint8()}, {pa.uint16()}) and all(
        pa.types.is_dictionary(kind) and kind.value_type == pa.string() for kind in names
    )


def kept_in(schema: pa.Schema) -> list[str]:
    """Which of the columns ``KEPT`` there are."""
    return [name for name in KEPT if name in schema.names]


def has_nulls(array: pa.Array) -> bool:
    """Whether an array has nulls, in its lists or in their dictionary included."""
    nulls: int = array.null_count
    if pa.types.is_list(array.type):
        return nulls > 0 or has_nulls(array.values)
    if pa.types.is_dictionary(array.type):
        return nulls > 0 or has_nulls(array.dictionary)
    return nulls > 0


def misplaced(table: pa.Table, last: Place) -> Array:
    """Whether ``(B,)`` each sentence fails to follow the previous one; ``last`` is the place before the shard."""
    document, position = (
        np.diff(table[name].to_numpy(), prepend=np.int32(before))
        for name, before in zip(("document", "position"), last, strict=True)
    )
    negative = (table["position"].to_numpy() < 0) | (table["line"].to_numpy() < 1)
    wrong: Array = negative | (document < 0) | ((document == 0) & (position <= 0))
    return wrong


def malformed(table: pa.Table) -> Array:
    """Whether ``(B,)`` each sentence is not a valid ParsedSentence or has wrong heights."""
    shard = Flat(table)
    bad = wrong_sizes(shard)
    for column, checks in CHECKS.items():
        there = shard.sizes(column) > 0
        for check in checks:
            # Each check assumes that all previous ones passed.
            rows = np.flatnonzero(there & ~bad)
            bad[rows] = check(shard if len(rows) == len(bad) else Flat(table.take(rows)))
    return bad


def wrong_sizes(shard: Flat) -> Array:
    """Lists whose length does not match the number of words."""
    n = shard.sizes("tokens")
    wrong: Array = n == 0
    for columns in (
        {"tags": n},
        {"heads": n, "relations": n, "dep_height": n},
        {"left": n - 1, "right": n - 1, "labels": 2 * n - 1, "const_height": 2 * n - 1},
    ):
        sizes = {name: shard.sizes(name) for name in columns}
        there = np.logical_or.reduce([size > 0 for size in sizes.values()])
        for name, expected in columns.items():
            wrong |= sizes[name] != np.where(there, expected, 0)
    return wrong


def wrong_words(shard: Flat) -> Array:
    """Tokens that are empty or contain white space."""
    words = shard.strings("tokens")
    bad = pc.or_(pc.equal(words.dictionary, ""), pc.match_substring_regex(words.dictionary, WHITE_SPACE))
    return any_of(bad.to_numpy(zero_copy_only=False)[words.indices.to_numpy()], shard.words_of, len(shard))


def heads_out_of_range(shard: Flat) -> Array:
    """Heads that are neither 0 nor a word of the sentence."""
    wrong = (shard.heads < 0) | (shard.heads > shard.lengths[shard.words_of])
    return any_of(wrong, shard.words_of, len(shard))


def wrong_roots(shard: Flat) -> Array:
    """Not exactly one root."""
    wrong: Array = np.bincount(shard.words_of[shard.heads == 0], minlength=len(shard)) != 1
    return wrong


def cycles(shard: Flat) -> Array:
    """Words from which no root can be reached."""
    above = shard.head_words
    # Pointer doubling makes more steps than the longest path to a root; on a cycle, the root is never reached.
    for _ in range(int(shard.lengths.max(initial=1)).bit_length()):
        above = above[above]
    return any_of(shard.heads[above] != 0, shard.words_of, len(shard))


def wrong_dependency_heights(shard: Flat) -> Array:
    """Heights of words that are not one more than the largest height of their dependents."""
    heights, dependents = shard.numbers("dep_height"), np.flatnonzero(shard.heads)
    expected = np.zeros_like(heights)
    np.maximum.at(expected, shard.head_words[dependents], heights[dependents] + 1)
    return any_of(heights != expected, shard.words_of, len(shard))


def children_out_of_range(shard: Flat) -> Array:
    """Children that do not precede their parent."""
    parent = shard.numbers_of_nodes[shard.inner]
    wrong = [(child < 0) | (child >= parent) for child in (shard.numbers("left"), shard.numbers("right"))]
    return any_of(wrong[0] | wrong[1], shard.inner_of, len(shard))


def no_binary_tree(shard: Flat) -> Array:
    """Nodes without exactly one parent, children that are not adjacent, or an order other than post-order."""
    left, right = shard.children
    times = np.bincount(np.concatenate([left, right]), minlength=len(shard.nodes_of))
    is_root = shard.numbers_of_nodes == 2 * shard.lengths[shard.nodes_of] - 2
    orphans = any_of((times != 1) & ~is_root, shard.nodes_of, len(shard))
    # A node begins with the leaf reached by following left children only, and ends with that of right children.
    bounds = []
    for child in (left, right):
        step = np.arange(len(shard.nodes_of))
        step[shard.inner] = child
        bounds.append(shard.numbers_of_nodes[end_of_chains(step)])
    start, end = bounds[0], bounds[1] + 1
    apart = end[left] != start[right]
    # In post-order each node ends further right than the previous one, or ends at the same place and is wider.
    end, width = end[shard.inner], (end - start)[shard.inner]
    behind = (np.diff(end) < 0) | ((np.diff(end) == 0) & (np.diff(width) <= 0))
    unordered = np.zeros(len(shard.inner), dtype=bool)
    unordered[1:] = behind & (np.diff(shard.inner_of) == 0)
    wrong: Array = orphans | any_of(apart | unordered, shard.inner_of, len(shard))
    return wrong


def wrong_constituency_heights(shard: Flat) -> Array:
    """Heights of nodes that are not one more than the larger height of their children."""
    heights = shard.numbers("const_height")
    expected = np.zeros_like(heights)
    left, right = shard.children
    expected[shard.inner] = np.maximum(heights[left], heights[right]) + 1
    return any_of(heights != expected, shard.nodes_of, len(shard))


def any_of(wrong: Array, of: Array, n: int) -> Array:
    """Whether ``(n,)`` each sentence has a wrong item; ``of`` is the sentence index of each item."""
    return np.bincount(of[wrong], minlength=n) > 0


CHECKS: dict[str, tuple[Callable[[Flat], Array], ...]] = {
    "tokens": (wrong_words,),
    "heads": (heads_out_of_range, wrong_roots, cycles, wrong_dependency_heights),
    "labels": (children_out_of_range, no_binary_tree, wrong_constituency_heights),
}
