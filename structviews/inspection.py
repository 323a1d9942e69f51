"""What a parsed corpus holds, in tables."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from structviews.cache import ParsedCorpus, reasons

MOST_FREQUENT = 20


def overview(corpus: ParsedCorpus) -> RenderableType:
    """Counts, lengths, depths and frequencies of a corpus, to be printed with rich."""
    shards = [corpus.shard(number) for number in range(corpus.n_shards)]
    frequencies = [
        frequency_table("tags", count_strings(shards, "tags")),
        frequency_table("relations", count_strings(shards, "relations")),
        # An empty label marks a node that is no constituent.
        frequency_table("constituents", count_strings(shards, "labels")),
    ]
    parts: list[RenderableType] = [Text(heading(corpus)), sizes_table(corpus, shards)]
    parts.append(Columns([table for table in frequencies if table.row_count]))
    if corpus.skipped:
        parts.append(count_table("skipped sentences", reasons(corpus.skipped)))
    return Group(*parts)


def heading(corpus: ParsedCorpus) -> str:
    """What the corpus is and what made it."""
    manifest = corpus.manifest
    tools = [
        " ".join([kind, *(str(manifest[kind][key]) for key in ("name", "version") if key in manifest[kind])])
        for kind in ("parser", "tokeniser")
    ]
    return (
        f"{corpus.path}: {len(corpus):,} sentences, {manifest['tokens']:,} tokens, "
        f"{manifest['documents']:,} documents, {len(corpus.skipped):,} skipped\n{', '.join(tools)}\n"
    )


def sizes_table(corpus: ParsedCorpus, shards: Sequence[pa.Table]) -> Table:
    """Quantiles of sentence lengths and of the depths of the trees (longest path from the root, in edges)."""
    table = Table("", "min", "median", "mean", "95 %", "max", title="sizes", title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    rows = {"tokens": np.concatenate([lengths(shard, "tokens") for shard in shards])}
    if corpus.has_dependencies:
        rows["dependency depth"] = np.concatenate([maxima(shard, "dep_height") for shard in shards])
    if corpus.has_constituents:
        rows["binary constituency depth"] = np.concatenate([maxima(shard, "const_height") for shard in shards])
    for name, values in rows.items():
        low, median, high, most = np.quantile(values, [0, 0.5, 0.95, 1])
        table.add_row(name, f"{low:.0f}", f"{median:.0f}", f"{values.mean():.1f}", f"{high:.0f}", f"{most:.0f}")
    return table


def lengths(shard: pa.Table, column: str) -> np.ndarray:
    """Length of each row's list, shape ``(rows,)``."""
    return pc.list_value_length(shard[column]).to_numpy()


def maxima(shard: pa.Table, column: str) -> np.ndarray:
    """Maximum of each row's list, none of them empty, shape ``(rows,)``."""
    lists = shard[column].combine_chunks()
    starts = lists.offsets.to_numpy()[:-1]
    return np.maximum.reduceat(lists.values.to_numpy(), starts) if len(starts) else np.empty(0, np.int16)


def count_strings(shards: Sequence[pa.Table], column: str) -> Counter[str]:
    """How often each non-empty string occurs in the lists of a column."""
    counts: Counter[str] = Counter()
    for shard in shards:
        for found in pc.list_flatten(shard[column]).value_counts().to_pylist():
            if found["values"]:
                counts[found["values"]] += found["counts"]
    return counts


def frequency_table(title: str, counts: Counter[str]) -> Table:
    """The most frequent strings with their counts."""
    shown = dict(counts.most_common(MOST_FREQUENT))
    rest = len(counts) - len(shown)
    if rest:
        shown[f"{rest} more"] = counts.total() - sum(shown.values())
    return count_table(title, shown)


def count_table(title: str, counts: dict[str, int]) -> Table:
    """Names with counts."""
    table = Table(show_header=False, title=title, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    for name, count in counts.items():
        table.add_row(Text(name), f"{count:,}")
    return table
