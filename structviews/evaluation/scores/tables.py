"""The score table: one row per run, one column per task; and the rows of papers."""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from os.path import commonprefix
from pathlib import Path
from statistics import fmean, mean, stdev
from typing import Any

from structviews.evaluation.scores.published import MEANS, Mean, Published, papers, published
from structviews.evaluation.scores.results import CAPTION_TASK, HALF, all_results, shown_scores, signature
from structviews.evaluation.senteval.protocols.builtin_protocols import SENTEVAL, SIMCSE
from structviews.evaluation.senteval.tasks import TASKS
from structviews.evaluation.senteval.tasks.downstream import SMT, STS_SETS
from structviews.evaluation.senteval.tasks.finding import PROBING, task_names
from structviews.runs.bundled import typed
from structviews.runs.config import TrainConfig
from structviews.runs.settings_file import read_settings, run_kind, run_views

MISSING = "-"
PARTIAL = "*"
# Marks of a score: the best of its column, and within the interval of the best.
BEST, TIE = "best", "tie"
# Marks of published means that are not quite those of SentEval's data sets.
WEIGHTED, WITH_SMT, ALL_PAIRS = "†", "‡", "§"
SMT_NOTE = f"{WITH_SMT}: with the SMT set of 2013, which SentEval lacks"
SEEDS = "runs that differ only in their seed share a row: mean ± sample standard deviation over n runs"
INTERVALS = "[low, high]: 95 % bootstrap interval over the test examples; for several runs, the mean of their intervals"
Scored = tuple[Path, dict[str, Any] | None]
# What the numbers of some tasks are; those of all others are accuracies.
MEANINGS = {
    ("MRPC",): "accuracy/F1",
    ("SICK-R", "STS-B"): "Pearson x 100, supervised",
    tuple(STS_SETS): "Pearson x 100 of cosines, unweighted mean over the year's data sets",
    ("SICK14", "STS-B-cos"): "Pearson x 100 of the test pairs' cosines",
    (CAPTION_TASK,): "R@1 of captions by image/of images by caption",
    ("PAWS-X",): "average precision x 100 of the cosine",
}
# What the numbers of similarity tasks are by a protocol that learns nothing.
COSINES = "rows by simcse: Spearman x 100 of cosines over all pairs of a year, and of STS-B's and SICK-R's test pairs"


@dataclass(frozen=True)
class Figure:
    """One score, or the mean over several runs, in the units of the table."""

    value: float
    text: str  # as printed
    interval: tuple[float, float] | None = None  # 95 %, over the test examples
    mark: str = ""  # ``BEST`` or ``TIE``


@dataclass(frozen=True)
class Cell:
    """One table cell: no figure, one, or two as for MRPC, followed by a suffix."""

    figures: tuple[Figure, ...] = ()
    suffix: str = ""

    def __str__(self) -> str:
        """As plain text."""
        return "/".join(figure.text for figure in self.figures) + self.suffix if self.figures else MISSING


@dataclass(frozen=True)
class Row:
    """The labels of a row, and one cell per task."""

    labels: tuple[str, ...]
    cells: tuple[Cell, ...]

    @property
    def texts(self) -> list[str]:
        """All columns as plain text."""
        return [*self.labels, *map(str, self.cells)]


@dataclass(frozen=True)
class ScoreTable:
    """Scores of several runs, ready to print; ``-`` for a missing score, ``*`` after one on part of a task."""

    labels: list[str]  # run, views, dimensions, and number of runs if any row has several
    tasks: list[str]  # names of the columns of scores: tasks, then means of tasks
    runs: list[Row]  # one per run and representation, or per group of runs that differ only in their seed
    published: list[Row]  # from papers
    legend: list[str]  # explanation of the numbers
    notes: list[str]  # the reason for each missing score

    @property
    def header(self) -> list[str]:
        """Names of all columns."""
        return [*self.labels, *self.tasks]

    @property
    def scored_tasks(self) -> list[str]:
        """The tasks that a run has a score for."""
        return [task for i, task in enumerate(self.tasks) if any(row.cells[i].figures for row in self.runs)]


def score_table(
    runs: Sequence[Path], *, tasks: Collection[str] = (), intervals: bool = False, published: bool | str = False
) -> ScoreTable:
    """Read the runs' settings and scores into a table of some tasks, or of all that any run was evaluated on.

    Means of several tasks follow if any run has them. ``intervals`` appends the 95 % interval to each score.
    ``published`` adds rows from papers with a score for one of the tasks, or only those of the model with this name.
    """
    for run in runs:
        run_views(run)  # names a folder that is no run before anything else
    scored: list[Scored] = []
    for run in runs:
        scored += [(run, result) for result in all_results(run)] or [(run, None)]
    scored = _without_common_precision(scored)
    results = [result for _, result in scored if result]
    tasks = in_order(tasks or {name for result in results for name in (*result["tasks"], *result["unavailable"])})
    tasks = [name for name in tasks if name not in {each.name for each in MEANS}]
    groups = _by_settings(scored)
    counted = any(len(group) > 1 for group in groups)
    means = [mean for mean in MEANS if not runs or any(_mean_entry(mean, result) for result in results)]
    means = [mean for mean in means if mean.parts.keys() <= set(tasks)]
    rows = [_row(group, tasks, means, intervals, counted) for group in groups]
    wanted = published_rows(tasks, means) if published else {}
    from_papers = {key: row for key, row in wanted.items() if published in (True, key[1])}
    learnt = [result for result in results if _protocol(result) != SIMCSE.name]
    legend = meanings([name for name in tasks if any(name in result["tasks"] for result in learnt)])
    legend += [COSINES] if len(learnt) < len(results) else []
    found = [(name, result["tasks"].get(name, {}).get("chance")) for name in tasks for result in results]
    if by_chance := [f"{name} {chance:.1f}" for name, chance in found if chance is not None]:
        legend.append(f"an arbitrary choice has {', '.join(dict.fromkeys(by_chance))}")
    legend += [f"{mean.name}: {mean.meaning}" for mean in means]
    legend += [SMT_NOTE] if any(WITH_SMT in cell.suffix for row in rows for cell in row.cells) else []
    legend += [SEEDS] if counted and tasks else []
    shown = [figure for row in rows for cell in row.cells for figure in cell.figures]
    legend += [INTERVALS] if intervals and any(figure.interval for figure in shown) else []
    legend += partial_notes(results, tasks)
    legend += [*grid_end_notes(results, tasks), *_published_legend([paper for paper, _ in from_papers])]
    legend += [f"signature of {', '.join(names)}: {line}" for line, names in _signatures(scored, tasks).items()]
    notes = dict.fromkeys(note for each in scored for note in _notes(each, results, tasks))
    labels, columns = ["run", "views", "dim", *["n"] * counted], [*tasks, *(mean.name for mean in means)]
    published_runs = [Row((*row.labels, *[""] * counted), row.cells) for row in from_papers.values()]
    return ScoreTable(labels, columns, _marked(rows), published_runs, list(dict.fromkeys(legend)), list(notes))


def in_order(tasks: Collection[str]) -> list[str]:
    """The tasks in table order: SentEval's first, then others by name."""
    first = [name for name in (*task_names(), *PROBING) if name in tasks]
    return first + sorted(set(tasks) - set(first))


def factor(score: str) -> int:
    """Factor for a score in the table: correlations are shown times 100."""
    return 100 if score.startswith(("pearson", "spearman")) else 1


def meanings(tasks: Sequence[str]) -> list[str]:
    """What the numbers of some tasks are, as one line; none if there are no tasks."""
    special = {name for names in MEANINGS for name in names}
    found = [] if special.issuperset(tasks) else ["accuracy in percent"]
    for names, meaning in MEANINGS.items():
        if there := [name for name in names if name in tasks]:
            found.append(f"{', '.join(there)} {meaning}")
    return ["; ".join(found)] if found else []


def _protocol(result: dict[str, Any]) -> str:
    return str(result.get("protocol", {}).get("name", SENTEVAL.name))


def _variant(result: dict[str, Any] | None) -> list[str]:
    """The representation and the protocol of a result, if they are not the default ones."""
    named = ((result.get("representation", "vector"), "vector"), (_protocol(result), SENTEVAL.name)) if result else ()
    return [name for name, usual in named if name != usual]


def _signatures(scored: Sequence[Scored], tasks: Sequence[str]) -> dict[str, list[str]]:
    """The names of rows by the signature of their scores: rows of one signature can be compared."""
    found: dict[str, list[str]] = {}
    for run, result in scored:
        if result and (own := [task for task in tasks if task in result["tasks"]]):
            found.setdefault(signature(result, own), []).append(run.resolve().name)
    return {line: list(dict.fromkeys(names)) for line, names in found.items()}


def _row_name(name: str, result: dict[str, Any] | None) -> str:
    """The run's name, with what is not the default."""
    variant = ", ".join(_variant(result))
    return f"{name} ({variant})" if variant else name


def _without_common_precision(scored: Sequence[Scored]) -> list[Scored]:
    """The scores without a word on the precision of their vectors, if it is the same for all."""
    words = [result.get("representation", "vector").split(", ") if result else [HALF] for _, result in scored]
    if not all(HALF in each for each in words):
        return list(scored)
    names = [", ".join(word for word in each if word != HALF) for each in words]
    renamed = zip(scored, names, strict=True)
    return [(run, result and result | {"representation": name}) for (run, result), name in renamed]


def _by_settings(scored: Sequence[Scored]) -> list[list[Scored]]:
    """Groups of runs that differ only in their seed, in the order of their first members."""
    groups: dict[Any, list[Scored]] = {}
    seeds: dict[Any, list[Any]] = {}
    variants: dict[str, list[str]] = {}  # the representation and protocol to assume for a run without scores
    for run, result in sorted(scored, key=lambda each: each[1] is None):
        settings = read_settings(run)
        tables = {name: table for name, table in settings.items() if isinstance(table, dict)}
        seed = tables.get("optimisation", {}).pop("seed", None)
        for table, each in TrainConfig.settings():
            if not each.compare:
                tables.get(table, {}).pop(each.name, None)
        text = json.dumps(settings, sort_keys=True, default=str)
        if result:
            variants.setdefault(text, _variant(result))
        key: tuple[Any, ...] = (text, *(_variant(result) if result else variants.get(text, ())))
        if seed is None or seed in seeds.get(key, ()):  # no seed, or a repeated one: a row of its own
            key = (run, len(groups))
        seeds.setdefault(key, []).append(seed)
        groups.setdefault(key, []).append((run, result))
    order = {run: number for number, (run, _) in reversed(list(enumerate(scored)))}
    ordered = [sorted(group, key=lambda each: order[each[0]]) for group in groups.values()]
    return sorted(ordered, key=lambda group: order[group[0][0]])


def _row(group: Sequence[Scored], tasks: Sequence[str], means: Sequence[Mean], intervals: bool, counted: bool) -> Row:
    """The row of some runs that differ only in their seed: the name is what theirs begin with."""
    run, first = group[0]
    name = run.resolve().name
    if len(group) > 1:
        stem = commonprefix([run.resolve().name for run, _ in group])  # noqa: RUF071 - of names, not of paths
        name = stem.removesuffix("seed").rstrip("-_. ") or name
    result: dict[str, Any] = next((result for _, result in group if result), {"tasks": {}})
    # Two numbers if the vectors for similarity tasks have others.
    dims = [str(entry.get("dim", result.get("dim", MISSING))) for entry in result["tasks"].values()]
    views = ",".join(run_views(run)) + " (random)" * (run_kind(run) == "random")
    size = [str(len(group))] if counted else []
    labels = (_row_name(name, first), views, "/".join(dict.fromkeys(dims)) or MISSING, *size)
    results = [result or {"tasks": {}} for _, result in group]
    columns = [[result["tasks"].get(task) for result in results] for task in tasks]
    columns += [[_mean_entry(mean, result) for result in results] for mean in means]
    return Row(labels, tuple(_cell(entries, intervals) for entries in columns))


def _cell(of_runs: Sequence[dict[str, Any] | None], intervals: bool) -> Cell:
    """The score, or mean and deviation over several runs, with the number of runs if some have no score."""
    entries = [entry for entry in of_runs if entry]
    if not entries:
        return Cell()
    figures = []
    for score in shown_scores(entries[0]["scores"]):
        by = factor(score)
        values = [by * entry["scores"][score] for entry in entries]
        found = [entry["intervals"][score] for entry in entries if score in entry.get("intervals", ())]
        ends = [by * fmean(each) for each in zip(*found, strict=True)] if len(found) == len(entries) else []
        text = f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")
        text += f" [{ends[0]:.1f}, {ends[1]:.1f}]" if intervals and ends else ""
        figures.append(Figure(fmean(values), text, (ends[0], ends[1]) if ends else None))
    few = f" ({len(entries)})" if len(entries) < len(of_runs) else ""
    smt = WITH_SMT * all(SMT in entry.get("sets", ()) for entry in entries)
    return Cell(tuple(figures), PARTIAL * any(entry["partial"] for entry in entries) + smt + few)


def _mean_entry(mean: Mean, result: dict[str, Any]) -> dict[str, Any] | None:
    """A run's mean of several tasks, as the entry of one; None if it lacks a score."""
    scores = {
        f"{task} {name}": value if name in ("accuracy", "f1") else 100 * value
        for task, entry in result["tasks"].items()
        for name, value in entry["scores"].items()
    }
    value = mean.of(scores)
    if value is None:
        return None
    return {"scores": {"accuracy": value}, "partial": any(result["tasks"][task]["partial"] for task in mean.parts)}


def _marked(rows: Sequence[Row]) -> list[Row]:
    """Mark the best score of each task, and those within its interval; never scores on part of a task."""
    columns = [_marked_column(column) for column in zip(*(row.cells for row in rows), strict=True)]
    return [Row(row.labels, tuple(column[i] for column in columns)) for i, row in enumerate(rows)]


def _marked_column(cells: Sequence[Cell]) -> list[Cell]:
    whole = [cell for cell in cells if cell.figures and PARTIAL not in cell.suffix]
    if len(whole) < 2:
        return list(cells)
    by_score = zip(*(cell.figures for cell in whole), strict=True)
    best = [max(figures, key=lambda figure: figure.value) for figures in by_score]

    def marked(figure: Figure, best: Figure) -> Figure:
        if round(figure.value, 1) == round(best.value, 1):  # scores that print the same are ties
            return replace(figure, mark=BEST)
        return replace(figure, mark=TIE if best.interval and figure.value >= best.interval[0] else "")

    return [Cell(tuple(map(marked, cell.figures, best)), cell.suffix) if cell in whole else cell for cell in cells]


def _notes(scored: Scored, results: Sequence[dict[str, Any]], tasks: Sequence[str]) -> list[str]:
    """Reasons why one run lacks scores that some result by the same protocol has, or says why not."""
    run, result = scored
    name = run.resolve().name
    if not result:
        return [f"{name}: this model has not been evaluated; run: structviews eval {typed(run)} --senteval DIR"]
    same = [each for each in results if _protocol(each) == _protocol(result)]
    reasons: dict[str, list[str]] = {}
    left = []
    for task in tasks:
        if task in result["tasks"] or not any(task in each["tasks"] or task in each["unavailable"] for each in same):
            continue
        if task in result["unavailable"]:
            reasons.setdefault(result["unavailable"][task], []).append(task)
        elif task != CAPTION_TASK:
            left.append(task)
    notes = [f"{', '.join(names)} unavailable: {reason}" for reason, names in reasons.items()]
    if left:
        folders = " --senteval DIR" * any(task in TASKS for task in left)
        folders += " --probing DIR" * any(task not in TASKS for task in left)
        command = f"structviews eval {typed(run)}{folders} --tasks {','.join(left)}{result.get('flags', '')}"
        notes.append(f"{_row_name(name, result)}: {', '.join(left)} not evaluated; run: {command}")
    return notes


def partial_notes(results: Sequence[dict[str, Any]], tasks: Sequence[str]) -> list[str]:
    """A note on the tasks of which only a part was scored, if there are any."""
    names = [name for name in tasks if any(result["tasks"].get(name, {}).get("partial") for result in results)]
    return [f"{PARTIAL}: scored on part of the task, as results.json counts: {', '.join(names)}"] if names else []


def grid_end_notes(results: Sequence[dict[str, Any]], tasks: Sequence[str]) -> list[str]:
    """For each protocol, a note on classifiers whose strength is the first or last of the grid, if there are any."""
    notes = []
    for protocol in dict.fromkeys(map(_protocol, results)):
        where = []
        for name in tasks:
            entries = [result["tasks"].get(name, {}) for result in results if _protocol(result) == protocol]
            ends = sum((Counter(entry.get("at_grid_end")) for entry in entries), Counter[str]())
            counts = [(end, ends[end]) for end in ("first", "last") if ends[end]]
            where += [f"{name} the {end} in {count:,} of {ends['choices']:,}" for end, count in counts]
        if where:
            about = "strength chosen at an end of its grid, beyond which it may be better"
            notes.append(f"{protocol}: {about}: {', '.join(where)}")
    return notes


def published_rows(tasks: Sequence[str], means: Sequence[Mean] = ()) -> dict[tuple[str, str], Row]:
    """By paper and model, its corpus in brackets: the row of each that has a score for one of the tasks or means.

    The labels are the model, the paper with its tables, and the dimensions of the vectors if it states them. Variants
    of a study have no row.
    """
    found: dict[tuple[str, str], dict[str, Published]] = {}
    for each in published():
        if not each.study:
            name = f"{each.model} ({each.corpus})" if each.corpus else each.model
            found.setdefault((each.paper, name), {}).setdefault(each.measure, each)
    rows = {}
    for (paper, name), figures in found.items():
        used = [_published_cell(figures, task) for task in tasks]
        scores = {measure: float(figure.score) for measure, figure in figures.items()}
        values = [scores.get(mean.name, mean.of(scores)) for mean in means]  # as printed, or of the printed scores
        averages = [Cell() if value is None else Cell((Figure(value, f"{value:.1f}"),)) for value in values]
        cells = (*(cell for cell, _ in used), *averages)
        if any(cell.figures for cell in cells):
            printed = [figure for _, numbers in used for figure in numbers]
            printed += [figures[mean.name] for mean in means if mean.name in figures]
            tables = dict.fromkeys(figure.table for figure in printed)
            dim = figures["dim"].text if "dim" in figures else ""
            rows[paper, name] = Row((name, f"{paper} {', '.join(tables)}", dim), cells)
    return rows


def _published_cell(figures: dict[str, Published], task: str) -> tuple[Cell, list[Published]]:
    """A task's cell, and the numbers in it: those of the best set of measures that the paper has.

    For a year of STS, it has the mean over SentEval's data sets or, marked, the paper's aggregate.
    """
    if task in STS_SETS:
        alternatives = [
            ([f"{task}/{name}" for name in STS_SETS[task]], ""),
            ([f"{task} mean"], WITH_SMT * (task == "STS13")),
            ([f"{task} weighted mean"], WEIGHTED),
            ([f"{task} spearman all"], ALL_PAIRS),
        ]
    else:
        kinds = (("accuracy", "f1"), ("accuracy",), ("pearson",), ("spearman all",))
        alternatives = [([f"{task} {kind}" for kind in each], "") for each in kinds]
    for measures, mark in alternatives:
        if all(measure in figures for measure in measures):
            used = [figures[measure] for measure in measures]
            scores = [figure.score for figure in used]
            scores = [mean(scores)] if task in STS_SETS else scores
            # Round half up, as papers do: 87.85 becomes 87.9.
            rounded = [score.quantize(Decimal("0.1"), ROUND_HALF_UP) for score in scores]
            return Cell(tuple(Figure(float(score), str(score)) for score in rounded), mark), used
    return Cell(), []


def _published_legend(of: Sequence[str]) -> list[str]:
    """What the published numbers are, and their sources."""
    if not of:
        return []
    sources = "; ".join(f"{key}: {papers()[key]['title']}" for key in dict.fromkeys(of))
    return [
        f"published: by the papers' own protocols, with paper and tables (S1: table 1 of the supplement): {sources}",
        "published STS: unweighted mean of the scores for SentEval's data sets, or the published mean "
        f"({WITH_SMT} with the SMT set of 2013, {WEIGHTED} weighted by numbers of pairs, {ALL_PAIRS} Spearman's "
        "correlation over all pairs)",
    ]
