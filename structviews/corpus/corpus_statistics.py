"""Statistics of a parsed corpus: sizes, frequencies and bytes per token on disk."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.text import Text

from structviews.corpus.layout import SURE, Form
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import CONFIDENCE
from structviews.corpus.tree_arrays import constituency_parents, dependency_parents, numbers, sizes, strings
from structviews.runtime.arrays import Array
from structviews.runtime.terminal import Table
from structviews.runtime.wording import counted

MOST_FREQUENT = 20
QUANTILES = {"min": 0.0, "median": 0.5, "95 %": 0.95, "max": 1.0}
# Columns of names and their titles; an empty label marks a node that is not a constituent.
NAMED = {"tags": "tags", "relations": "relations", "labels": "constituents"}


def statistics_of(corpus: ParsedCorpus) -> dict[str, Any]:
    """Statistics of a corpus, collected shard by shard, as a dictionary for JSON.

    ``sizes`` has the mean and quantiles of sentence lengths, tree depths (longest path from the root, in edges) and
    numbers of children; ``tags``, ``relations`` and ``labels`` have frequencies. In ``bytes_per_token``, by column,
    ``rest`` is file metadata and padding.
    """
    manifest = corpus.manifest
    codec = Form.of(manifest).compression
    counted_sizes: dict[str, Counter[int]] = {}
    names = {name: Counter[str]() for name in NAMED}
    in_columns = Counter[str]()
    for table in corpus.tables():
        for name, values in sizes_of(table, corpus).items():
            counts = (each.tolist() for each in np.unique(values, return_counts=True))
            counted_sizes.setdefault(name, Counter()).update(dict(zip(*counts, strict=True)))
        for name, frequencies in names.items():
            found = pc.list_flatten(table[name]).value_counts().to_pylist()
            frequencies.update({each["values"]: each["counts"] for each in found if each["values"]})
        for name in table.column_names:  # the buffers in the file, without metadata
            array = table[name].chunk(0)
            values = array.values if pa.types.is_list(array.type) else array
            buffers = array.buffers() + (values.dictionary.buffers() if pa.types.is_dictionary(values.type) else [])
            in_columns[name] += sum(len(pa.compress(b, codec, asbytes=True)) if codec else b.size for b in buffers if b)
    size = sum(shard["bytes"] for shard in manifest["shards"])
    on_disk = {**in_columns, "rest": size - in_columns.total(), "total": size}
    return {
        **{name: manifest[name] for name in ("parser", "tokeniser", "documents", "sentences", "tokens")},
        "shards": corpus.n_shards,
        "skipped": dict(Counter(skip.reason for skip in corpus.skipped).most_common()),
        "repaired": manifest.get("repaired", {}),
        "sizes": {name: summary(counts) for name, counts in counted_sizes.items()},
        "confidence": confidence_of(corpus),
        **{name: dict(frequencies.most_common()) for name, frequencies in names.items()},
        "bytes": size,
        "bytes_per_token": {name: each / max(manifest["tokens"], 1) for name, each in on_disk.items()},
    }


def sizes_of(table: pa.Table, corpus: ParsedCorpus) -> dict[str, Array]:
    """Lengths, depths and numbers of children in one shard, for the kinds of trees that the corpus has."""
    lengths = sizes(table, "tokens")
    found = {"tokens": lengths}
    if corpus.has_dependencies:
        heads = numbers(table, "heads")
        found["dependency depth"] = numbers(table, "dep_height")[heads == 0]
        parents = dependency_parents(heads, lengths)
        dependents = np.bincount(parents[parents >= 0])
        found["dependents of a head"] = dependents[dependents > 0]
    if corpus.has_constituents:
        roots = np.cumsum(2 * lengths - 1) - 1
        found["binary constituency depth"] = numbers(table, "const_height")[roots]
        # Before binarisation, leaves excluded; a unary chain is one node.
        parent = constituency_parents(numbers(table, "left"), numbers(table, "right"), lengths)
        labels, is_root = strings(table, "labels"), parent < 0
        named = pc.not_equal(labels.dictionary, "").to_numpy(zero_copy_only=False)[labels.indices.to_numpy()]
        stays = named | is_root | (numbers(table, "const_height") == 0)
        # For each node its closest ancestor that stays, itself included.
        closest = np.where(stays, np.arange(len(stays)), parent)
        while not np.array_equal(further := closest[closest], closest):
            closest = further
        children = np.bincount(closest[parent[stays & ~is_root]])
        found["children of a constituent"] = children[children > 0]
    return found


def confidence_of(corpus: ParsedCorpus) -> dict[str, dict[str, float]]:
    """Mean and quantiles, over sentences, of each part of ``sentence.CONFIDENCE`` that the corpus keeps."""
    if SURE not in corpus.kept:
        return {}
    parts = [pc.list_flatten(table[SURE]).to_numpy().reshape(-1, len(CONFIDENCE)) for table in corpus.tables()]
    columns = zip(CONFIDENCE, np.concatenate(parts).T.astype(float), strict=True)
    return {
        name: {"mean": values.mean(), **dict(zip(QUANTILES, np.quantile(values, [*QUANTILES.values()]), strict=True))}
        for name, values in columns
        if len(values) and not np.isnan(values).any()
    }


def summary(counts: Counter[int]) -> dict[str, float]:
    """Mean and quantiles, as ``numpy.quantile``, of what was counted; empty if nothing was."""
    if not counts:
        return {}
    values, times = np.array(sorted(counts.items())).T
    ends = np.cumsum(times)
    ranks = np.array(list(QUANTILES.values())) * (ends[-1] - 1)
    low, high = (values[np.searchsorted(ends, bound, side="right")] for bound in (np.floor(ranks), np.ceil(ranks)))
    quantiles = (low + (high - low) * (ranks % 1)).tolist()
    return {"mean": float(values @ times / ends[-1]), **dict(zip(QUANTILES, quantiles, strict=True))}


def overview(corpus: ParsedCorpus, with_bytes: bool = False) -> RenderableType:
    """Counts, sizes and frequencies of a corpus, to be printed with rich; with bytes per token on disk if wanted."""
    found = statistics_of(corpus)
    tools = [
        " ".join([kind, *(str(found[kind][key]) for key in ("name", "version") if key in found[kind])])
        for kind in ("parser", "tokeniser")
    ]
    heading = (
        f"{corpus.path}: {counted(len(corpus), 'sentence')}, {counted(found['tokens'], 'token')}, "
        f"{counted(found['documents'], 'document')}, {len(corpus.skipped):,} skipped\n{', '.join(tools)}\n"
    )
    columns = ("min", "median", "mean", "95 %", "max")
    table = Table("", *columns, title="sizes", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, size in found["sizes"].items():
        if size:
            table.add_row(name, *(f"{size[key]:.{int(key == 'mean')}f}" for key in columns))
    for name, size in found["confidence"].items():
        table.add_row(f"confidence: {name}", *(f"{size[key]:.3f}" for key in columns))
    tables: list[RenderableType] = [table]
    if with_bytes:
        tables.append(value_table("on disk", found["bytes_per_token"], ".2f", "column", "bytes per token"))
    frequencies: list[RenderableType] = []
    for name, title in NAMED.items():
        if counts := found[name]:
            shown = dict(islice(counts.items(), MOST_FREQUENT))
            if rest := len(counts) - len(shown):
                shown[f"{rest} more"] = sum(counts.values()) - sum(shown.values())
            frequencies.append(value_table(title, shown))
    rendered: list[RenderableType] = [Text(heading), Columns(tables), Columns(frequencies)]
    if found["skipped"]:
        rendered.append(value_table("skipped sentences", found["skipped"]))
    if found["repaired"]:
        rendered.append(value_table("repaired lines", dict(Counter(found["repaired"]).most_common())))
    return Group(*rendered)


def value_table(title: str, values: Mapping[str, float], form: str = ",", *headings: str) -> Table:
    """A table of names and numbers."""
    table = Table(*(headings or ("", "")), show_header=bool(headings), title=title, title_justify="left")
    table.columns[1].justify = "right"
    for name, value in values.items():
        table.add_row(Text(name), f"{value:{form}}")
    return table
