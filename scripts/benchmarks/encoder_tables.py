"""Ratios and tables of a race of encoders, in Markdown."""

from collections.abc import Iterable, Sequence
from typing import Any

from bench import figure, table

from benchmarks.encoders import REFERENCE

Row = dict[str, Any]
RATES = (
    f"Sentences/s by wall / by processor time, and times the best rate of {REFERENCE} in the same precision. Where the "
    "share of the ceiling is largest: millions of operations of the products that a sentence needs, how many billions "
    "of them a second, and the share."
)
SINGLE = "Milliseconds of a call with one sentence, by wall time, and the median by processor time."


def compare(rows: Sequence[Row]) -> list[Row]:
    """The rows with ratios to the reference's best rate in the same precision, whatever the size of its batches.

    Large batches make a transformer slower, since its layers' outputs leave the processor's caches, and others faster.
    """
    best: dict[tuple[Any, ...], float] = {}
    for row in filter(has_rate, rows):
        if row["encoder"] == REFERENCE:
            best[kind(row)] = max(best.get(kind(row), 0.0), speed(row))
    return [
        row | {"times_reference": speed(row) / best[kind(row)]} if has_rate(row) and kind(row) in best else row
        for row in rows
    ]


def has_rate(row: Row) -> bool:
    """Whether the row has a rate: not one of single calls, nor of an encoder that was left out."""
    return "sentences_per_second" in row


def kind(row: Row) -> tuple[Any, ...]:
    """What rows have in common that are compared."""
    return row["words"], row["threads"], row["precision"]


def speed(row: Row) -> float:
    """The rate that counts: of a single thread by processor time, which other jobs disturb less."""
    return float(row["sentences_per_cpu_second" if row["threads"] == 1 else "sentences_per_second"])


def tables(rows: Sequence[Row]) -> str:
    """For each length and number of threads the rates, and the times of one sentence."""
    parts = []
    for words, threads in dict.fromkeys((row["words"], row["threads"]) for row in rows):
        here = [row for row in rows if (row["words"], row["threads"]) == (words, threads)]
        parts.append(f"## {words} words, {threads} thread{'s' * (threads != 1)}")
        several = [row for row in here if row["batch"] != 1]
        single = [row for row in here if row["batch"] == 1]
        parts += [rates(several)] * bool(several) + [latencies(single)] * bool(single)
    return "\n\n".join(parts)


def rates(rows: Sequence[Row]) -> str:
    """A row for each encoder, a column for each size of batches."""
    sizes = list(dict.fromkeys(row["batch"] for row in rows))
    encoders: dict[tuple[str, ...], dict[int, Row]] = {}
    for row in rows:
        encoders.setdefault(who(row), {})[row["batch"]] = row
    joules = any(row.get("joules_per_1000_sentences") for row in rows)
    head = ["encoder", "from", "precision", *(f"batches of {size:,}" for size in sizes), "MFLOP", "GFLOP/s", "share"]
    body = [
        [*name, *(rate(found[size]) for size in sizes), *best(found.values()), *[energy(found.values())] * joules]
        for name, found in encoders.items()
    ]
    shown = table(head + ["J a 1,000"] * joules, body)
    return "\n\n".join([RATES, shown, *([peaks(rows)] if any(map(has_rate, rows)) else []), *left_out(rows)])


def latencies(rows: Sequence[Row]) -> str:
    """The times of one sentence."""
    columns = {"wall_p50_ms": "p50", "wall_p99_ms": "p99", "cpu_p50_ms": "p50 by processor"}
    body = ([*who(row), *(f"{row[name]:.1f}" for name in columns)] for row in rows)
    return f"{SINGLE}\n\n{table(['encoder', 'from', 'precision', *columns.values()], body)}"


def who(row: Row) -> tuple[str, ...]:
    """The encoder of a row."""
    return row["encoder"], row["given"], row["precision"]


def rate(row: Row) -> str:
    """Rates and ratio of a row."""
    if not has_rate(row):
        return "-"
    ratio = f", {row['times_reference']:.2f} x" if "times_reference" in row else ""
    by_processor = row["sentences_per_cpu_second"]
    return f"{figure(row['sentences_per_second'])} / {figure(by_processor) if by_processor else '-'}{ratio}"


def best(rows: Iterable[Row]) -> list[str]:
    """Work and share of the row with the largest share of the ceiling."""
    found = max(rows, key=lambda row: row.get("share_of_ceiling", 0.0))
    if "share_of_ceiling" not in found:
        return [""] * 3
    return [figure(found["mflop_per_sentence"]), figure(found["gflops"]), f"{found['share_of_ceiling']:.0%}"]


def energy(rows: Iterable[Row]) -> str:
    """Energy of the row that needs least."""
    known = [row["joules_per_1000_sentences"] for row in rows if row.get("joules_per_1000_sentences")]
    return figure(min(known)) if known else ""


def peaks(rows: Sequence[Row]) -> str:
    """The large product's speed in each precision, in the fastest of the races."""
    found: dict[str, float] = {}
    for row in filter(has_rate, rows):
        found[row["precision"]] = max(found.get(row["precision"], 0.0), row["ceiling_gflops"])
    return f"One large product: {', '.join(f'{name} {figure(speed)}' for name, speed in found.items())} GFLOP/s."


def left_out(rows: Sequence[Row]) -> list[str]:
    """Who was left out, and why."""
    found: dict[tuple[int, str], list[str]] = {}
    for row in rows:
        if not has_rate(row):
            found.setdefault((row["batch"], row["left_out"]), []).append(" ".join(who(row)))
    return [f"No batches of {size:,} of {', '.join(names)}: {why}." for (size, why), names in found.items()]
