"""Statistics of a parsed corpus: sizes, frequencies and bytes per token on disk."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.text import Text

from structviews.corpus.format import Form, reasons
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.tree_arrays import Flat, constituency_parents, dependency_parents
from structviews.runtime.arrays import Array
from structviews.runtime.terminal import Table
from structviews.runtime.wording import counted

MOST_FREQUENT = 20
QUANTILES = {"min": 0.0, "median": 0.5, "95 %": 0.95, "max": 1.0}
# Columns of names and their titles; an empty label marks a node that is not a constituent.
NAMED = {"tags": "tags", "relations": "relations", "labels": "constituents"}


class Histogram:
    """Counts of small integers."""

    def __init__(self) -> None:
        self.counts = np.zeros(0, np.int64)

    def add(self, values: Array) -> None:
        """Count non-negative values ``(k,)``."""
        found = np.bincount(values, minlength=len(self.counts))
        found[: len(self.counts)] += self.counts
        self.counts = found

    @property
    def mean(self) -> float:
        return float(self.counts @ np.arange(len(self.counts)) / self.counts.sum())

    def quantile(self, share: float) -> float:
        """Quantile with linear interpolation, as ``numpy.quantile``."""
        ends = np.cumsum(self.counts)
        rank = share * (ends[-1] - 1)
        low, high = np.searchsorted(ends, [np.floor(rank), np.ceil(rank)], side="right")
        return float(low + (high - low) * (rank % 1))


@dataclass
class Statistics:
    """Statistics of a corpus.

    Attributes:
        sizes: sentence lengths, tree depths (longest path from the root, in edges) and numbers of children.
        names: frequencies of tags, relations and labels, by column.
        column_bytes: size of each column in the files.
        bytes: total size of the files.
    """

    sizes: dict[str, Histogram] = field(default_factory=dict)
    names: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in NAMED})
    column_bytes: Counter[str] = field(default_factory=Counter)
    bytes: int = 0

    @classmethod
    def of(cls, corpus: ParsedCorpus) -> "Statistics":
        """Collect the statistics of a corpus, shard by shard."""
        statistics = cls(bytes=sum(shard["bytes"] for shard in corpus.manifest["shards"]))
        for table in corpus.tables():
            for name, values in sizes_of(table, corpus).items():
                statistics.sizes.setdefault(name, Histogram()).add(values)
            for name, counts in statistics.names.items():
                counts.update(count_strings(table, name))
            codec = Form.of(corpus.manifest).compression
            statistics.column_bytes.update({name: bytes_of(table[name].chunk(0), codec) for name in table.column_names})
        return statistics


def sizes_of(table: pa.Table, corpus: ParsedCorpus) -> dict[str, Array]:
    """Lengths, depths and numbers of children in one shard, for the kinds of trees that the corpus has."""
    shard = Flat(table)
    sizes = {"tokens": shard.lengths}
    if corpus.has_dependencies:
        sizes["dependency depth"] = shard.numbers("dep_height")[shard.heads == 0]
        parents = dependency_parents(shard.heads, shard.lengths)
        dependents = np.bincount(parents[parents >= 0])
        sizes["dependents of a head"] = dependents[dependents > 0]
    if corpus.has_constituents:
        roots = np.cumsum(2 * shard.lengths - 1) - 1
        sizes["binary constituency depth"] = shard.numbers("const_height")[roots]
        sizes["children of a constituent"] = constituents_children(shard)
    return sizes


def constituents_children(shard: Flat) -> Array:
    """Number of children of each constituent before binarisation, leaves excluded; a unary chain is one node."""
    parent = constituency_parents(*shard.children, shard.lengths)
    labels = shard.strings("labels")
    named = pc.not_equal(labels.dictionary, "").to_numpy(zero_copy_only=False)[labels.indices.to_numpy()]
    is_root = parent < 0
    stays = named | is_root | (shard.numbers("const_height") == 0)
    # For each node its closest ancestor that stays, itself included.
    closest = np.where(stays, np.arange(len(stays)), parent)
    while not np.array_equal(further := closest[closest], closest):
        closest = further
    children = np.bincount(closest[parent[stays & ~is_root]])
    return children[children > 0]


def count_strings(table: pa.Table, column: str) -> dict[str, int]:
    """Frequency of each non-empty string in the lists of a column."""
    found = pc.list_flatten(table[column]).value_counts().to_pylist()
    return {each["values"]: each["counts"] for each in found if each["values"]}


def bytes_of(array: pa.Array, codec: str | None) -> int:
    """Size of an array's buffers in a file, without metadata."""
    values = array.values if pa.types.is_list(array.type) else array
    buffers = array.buffers() + (values.dictionary.buffers() if pa.types.is_dictionary(values.type) else [])
    return sum(len(pa.compress(each, codec, asbytes=True)) if codec else each.size for each in buffers if each)


def as_json(corpus: ParsedCorpus, statistics: Statistics) -> dict[str, Any]:
    """All statistics, as a dictionary for JSON."""
    manifest = corpus.manifest
    return {
        "parser": manifest["parser"],
        "tokeniser": manifest["tokeniser"],
        **{name: manifest[name] for name in ("documents", "sentences", "tokens")},
        "shards": corpus.n_shards,
        "skipped": reasons(corpus.skipped),
        "repaired": manifest.get("repaired", {}),
        "sizes": {name: summary(histogram) for name, histogram in statistics.sizes.items()},
        **{name: dict(counts.most_common()) for name, counts in statistics.names.items()},
        "bytes": statistics.bytes,
        "bytes_per_token": bytes_per_token(corpus, statistics),
    }


def summary(histogram: Histogram) -> dict[str, float]:
    """Mean and quantiles; empty if nothing was counted."""
    if not len(histogram.counts):
        return {}
    return {"mean": histogram.mean} | {name: histogram.quantile(share) for name, share in QUANTILES.items()}


def bytes_per_token(corpus: ParsedCorpus, statistics: Statistics) -> dict[str, float]:
    """Bytes per token by column; ``rest`` is file metadata and padding."""
    rest = statistics.bytes - statistics.column_bytes.total()
    by_column = {**statistics.column_bytes, "rest": rest, "total": statistics.bytes}
    return {name: size / max(corpus.manifest["tokens"], 1) for name, size in by_column.items()}


def overview(corpus: ParsedCorpus, with_bytes: bool = False) -> RenderableType:
    """Counts, sizes and frequencies of a corpus, to be printed with rich.

    Args:
        corpus: the corpus.
        with_bytes: also show bytes per token on disk.
    """
    statistics, manifest = Statistics.of(corpus), corpus.manifest
    tools = [
        " ".join([kind, *(str(manifest[kind][key]) for key in ("name", "version") if key in manifest[kind])])
        for kind in ("parser", "tokeniser")
    ]
    heading = (
        f"{corpus.path}: {counted(len(corpus), 'sentence')}, {counted(manifest['tokens'], 'token')}, "
        f"{counted(manifest['documents'], 'document')}, {len(corpus.skipped):,} skipped\n{', '.join(tools)}\n"
    )
    columns = ("min", "median", "mean", "95 %", "max")
    sizes = Table("", *columns, title="sizes", title_justify="left")
    for column in sizes.columns[1:]:
        column.justify = "right"
    for name, histogram in statistics.sizes.items():
        if found := summary(histogram):
            sizes.add_row(name, *(f"{found[key]:.{int(key == 'mean')}f}" for key in columns))
    tables: list[RenderableType] = [sizes]
    if with_bytes:
        on_disk = Table("column", "bytes per token", title="on disk", title_justify="left")
        on_disk.columns[1].justify = "right"
        for name, size in bytes_per_token(corpus, statistics).items():
            on_disk.add_row(name, f"{size:.2f}")
        tables.append(on_disk)
    frequencies: list[RenderableType] = []
    for name, title in NAMED.items():
        if counts := statistics.names[name]:
            shown = dict(counts.most_common(MOST_FREQUENT))
            if rest := len(counts) - len(shown):
                shown[f"{rest} more"] = counts.total() - sum(shown.values())
            frequencies.append(count_table(title, shown))
    rendered: list[RenderableType] = [Text(heading), Columns(tables), Columns(frequencies)]
    if corpus.skipped:
        rendered.append(count_table("skipped sentences", reasons(corpus.skipped)))
    if repaired := manifest.get("repaired"):
        rendered.append(count_table("repaired lines", dict(Counter(repaired).most_common())))
    return Group(*rendered)


def count_table(title: str, counts: dict[str, int]) -> Table:
    """A table of names and counts."""
    table = Table(show_header=False, title=title, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    for name, count in counts.items():
        table.add_row(Text(name), f"{count:,}")
    return table
