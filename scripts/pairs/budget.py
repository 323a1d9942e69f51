"""What the whole plan will take, from a few steps of each kind of run."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace

from pairs.kept import score
from pairs.plan import Row, Run
from pairs.work import Work, rate
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.runtime.documents import write_json

# Steps of 400 sentences; smaller batches take more, larger ones fewer.
STEPS = 40


def budget(work: Work) -> Iterator[str]:
    """Lines of Markdown: measured rates, and hours of one thread for each kind of run."""
    work.prepare()
    rates = measured(work)
    yield "| runs | sentences/s | runs | sentences a run | hours |"
    yield "|---|--:|--:|--:|--:|"
    training = 0.0
    counts: dict[Row, int] = {}
    for run in work.plan.runs():
        if run.row.trained:
            counts[run.row] = counts.get(run.row, 0) + 1
    for row, count in counts.items():
        sentences = len(ParsedCorpus.open(work.corpus(row.sentences)))
        hours = count * sentences / rates[kind(work, row).name] / 3600
        training += hours
        title = f"{row.title}, batches of {row.batch}"
        yield f"| {title} | {rates[kind(work, row).name]:,.0f} | {count} | {sentences:,} | {hours:.2f} |"
    runs = len(work.plan.runs())
    scoring = runs * rates["scoring minutes"] / 60
    yield f"| scoring, {rates['scoring minutes']:.1f} minutes a run | | {runs} | | {scoring:.2f} |"
    yield f"| all, on one thread | | | | {training + scoring:.1f} |"
    yield f"| all, on two | | | | {(training + scoring) / 2:.1f} |"


def measured(work: Work) -> dict[str, float]:
    """Sentences a second of each kind of run, and minutes to score one; kept in ``budget.json``."""
    file = work.kept / "budget.json"
    for row in dict.fromkeys(kind(work, row) for row in work.plan.rows if row.trained):
        known: dict[str, float] = json.loads(file.read_text("utf-8")) if file.exists() else {}
        wanted = row.name not in known, "scoring minutes" not in known and row == kind(work, work.plan.quality[0])
        if any(wanted):
            steps = max(10, STEPS * work.plan.sizes.batch // row.batch)
            run = Run(row, 0)
            folder = work.train(run, steps=steps)
            known[row.name] = round(rate(folder), 1)
            write_json(file, known, sealed=False)
        if wanted[1]:
            known["scoring minutes"] = score(work, run, folder)["scoring minutes"]
            write_json(file, known, sealed=False)
        if any(wanted):
            shutil.rmtree(folder)
    return json.loads(file.read_text("utf-8"))


def kind(work: Work, row: Row) -> Row:
    """The row on the corpus of the studies: one of another size is as fast."""
    return replace(row, sentences=work.plan.sizes.studied)
