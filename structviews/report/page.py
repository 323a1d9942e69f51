"""The report page on one or more runs, section by section."""

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import Preparer, Sentence
from structviews.errors import InputError
from structviews.evaluation.retrieval.candidates import Pool
from structviews.evaluation.retrieval.neighbours import nearest
from structviews.evaluation.retrieval.next_sentence import corpus_of
from structviews.evaluation.scores import heatmap
from structviews.evaluation.scores.rendering import MARKS, has_marks, html_table, side_by_side
from structviews.evaluation.scores.results import all_results
from structviews.evaluation.scores.tables import ScoreTable, score_table
from structviews.parsing import svg
from structviews.report import curves, projection
from structviews.runs.folder import model_checksum, read_log, run_names, weight_files
from structviews.runs.settings_file import PARSED, Parsed, read_settings, run_kind, run_views
from structviews.runtime import pictures
from structviews.runtime.machine import require

SENTENCES = 2000
"""Number of corpus sentences to project and to search for neighbours."""
EXAMPLES = 3
"""Number of example sentences taken from the corpus if none are given."""
# Preferred length of these examples in tokens, so that their trees fit on a page.
SHORT = range(6, 15)
NEAREST = 3
# The fewest pairs of views that a heat map compares.
PAIRS = 2
TREES = frozenset({"dependency", "constituency"})


@dataclass(frozen=True)
class EncodedSample:
    """What a run makes of the n sentences of the sample and the q example sentences."""

    run: str
    sample: np.ndarray  # (n, d)
    queries: np.ndarray  # (q, d)
    attention: dict[str, list[np.ndarray]]  # on the example sentences, see Embedder.attention


@dataclass(frozen=True)
class Shown:
    """The sentences of a report."""

    pool: Pool
    sample: projection.Sample  # of the pool, which is projected and searched
    classes: projection.Classes | None
    texts: list[str]  # the example sentences, comparable with the pool's
    examples: Sequence[Sentence]  # the same, with trees unless no_trees says why they have none
    no_trees: list[str]
    runs: list[EncodedSample]
    missing: list[str]  # why some runs are not there

    @property
    def headings(self) -> list[str]:
        """The example sentences as readers write them."""
        rows = dict(zip(self.sample.texts, self.sample.rows.tolist(), strict=True))
        return [self.pool.shown(rows[text]) if text in rows else text for text in self.texts]

    @property
    def source(self) -> str:
        """How many sentences of which corpus, for the notes; how they are chosen if they are not all of them."""
        of_all = f", evenly spaced over its {len(self.pool):,} distinct sentences" if len(self.pool) > SENTENCES else ""
        return f"{len(self.sample.texts):,} sentences of {self.pool.path}{of_all}"


def write_report(
    runs: Sequence[Path],
    out: Path,
    *,
    corpus: Path | None = None,
    labels: Path | None = None,
    queries: Sequence[str] = (),
    tokenised: bool = False,
    precision: str = "auto",
    progress: Callable[[str], None] = lambda stage: None,
) -> None:
    """Write a report page on runs, atomically; the arguments are those of the command.

    The ``corpus`` is by default the runs' own, if it exists, the ``queries`` a few of its sentences. ``progress`` is
    called with a description of each step. Raises InputError if a folder is not a run, there is nothing to report, or a
    file cannot be read or written.
    """
    pictures.check_file(out, (".html", ".htm"), "pages")
    for package in ("matplotlib", "jinja2"):
        require(package, "a report", "report")
    names = run_names(runs)
    for run in runs:
        run_views(run)
    progress("reading scores and logs")
    logs = {name: read_log(run) for name, run in zip(names, runs, strict=True)}
    if not any(map(weight_files, runs)) and not any(logs.values()) and not any(map(all_results, runs)):
        raise InputError(
            f"{', '.join(map(str, runs))}: nothing to report: no scores, log or weights: finish training first"
        )
    shown, reason = None, ""
    try:
        source = corpus or corpus_of(runs)
        if not (corpus or source.exists()):
            raise InputError(f"the corpus {source} does not exist: give one with --corpus")
    except InputError as error:
        if labels:
            raise InputError(f"--labels {labels}: {error}") from None
        reason = str(error)
    else:
        pool = Pool(source, tokenised)
        shown = show_sentences(dict(zip(names, runs, strict=True)), pool, labels, queries, precision, progress)
    progress("drawing")
    table = score_table(runs)
    tasks = table.scored_tasks
    content = {
        "title": f"Report on {names[0]}" if len(runs) == 1 else f"Report on {len(runs)} runs",
        "scores": scores(runs, tasks),
        "curves": training(logs, runs),
        "pairs": pairs_of_views(runs, tasks),
        "projection": projections(shown) if shown else {"clouds": [], "missing": [reason]},
        "neighbours": neighbours(shown) if shown else {"queries": [], "missing": [reason]},
        "trees": trees(shown) if shown else {"sentences": [], "missing": [reason]},
        "published": published(table, tasks),
        "settings": settings(runs, names),
    }
    projection.write_page(out, "report.html", content)


def scores(runs: Sequence[Path], tasks: list[str]) -> dict[str, Any]:
    """The table of the runs, with the tasks that one of them has a score for."""
    unscored = score_table(runs, intervals=True).notes
    if not tasks:
        return {"tables": [], "missing": unscored}
    table = score_table(runs, tasks=tasks, intervals=True)
    tables, marks = [html_table(table, part) for part in side_by_side(table)], MARKS if has_marks(table) else ""
    return {"tables": tables, "marks": marks, "notes": table.legend, "unscored": unscored, "missing": []}


def published(own: ScoreTable, tasks: list[str]) -> dict[str, Any]:
    """The papers' scores on the tasks of the runs, whose ``own`` table explains some marks already."""
    papers = score_table([], tasks=tasks, published=True)
    if not tasks or not papers.published:
        return {"tables": [], "missing": ["no paper has a score on the tasks of these runs"]}
    table = replace(papers, labels=["model", "paper, table", *papers.labels[2:]])
    notes = [note for note in papers.legend if note not in own.legend]
    return {"tables": [html_table(table, part) for part in side_by_side(table)], "notes": notes, "missing": []}


def pairs_of_views(runs: Sequence[Path], tasks: list[str]) -> dict[str, Any]:
    """A heat map for each task that several pairs of views are scored on."""
    matrices = []
    why_not: dict[str, None] = {}
    for task in tasks:
        try:
            matrix = heatmap.view_matrix(runs, task)
        except InputError as error:
            why_not[str(error).removeprefix(f"--matrix {task}: ")] = None
            continue
        if matrix.n_pairs >= PAIRS:
            matrices.append(pictures.inline_svg(partial(heatmap.picture, matrix), f"{task} by views"))
    if not matrices and not why_not:
        why_not["give the runs of several pairs of views, with scores"] = None
    missing = [f"no heat map: {why}" for why in why_not]
    return {"matrices": matrices, "note": heatmap.SCALE_NOTE, "missing": missing}


def training(logs: Mapping[str, list[dict[str, Any]]], runs: Sequence[Path]) -> dict[str, Any]:
    """Training curves of all runs, one plot per metric."""
    found = [curve for name, entries in logs.items() for curve in curves.curves(name, entries)]
    missing = []
    for (name, entries), run in zip(logs.items(), runs, strict=True):
        if not entries:
            remedy = "only runs made by train have one"
            if run_kind(run) == "trained":
                remedy = f"create one with structviews train --resume {run}"
            missing.append(f"{name}: no training log; {remedy}")
    series = curves.series_of(found)
    legend = [{"name": each.name, "colour": each.colour, "dashes": curves.SVG_DASHES[each.dash]} for each in series]
    panels = [
        pictures.inline_svg(partial(curves.draw_panel, found, metric, title, series), f"{title} by step")
        for metric, title in curves.panels(found).items()
    ]
    note = (
        "Lines: training, per batch. Lines with dots: held-out documents. Dotted lines: chance. Point at a name to "
        f"highlight its curves. Logs with more than {curves.POINTS} lines are averaged down to at most {curves.POINTS} "
        "points."
    )
    return {"panels": panels, "series": legend, "note": note, "missing": missing}


def show_sentences(
    runs: Mapping[str, Path],
    pool: Pool,
    labels: Path | None,
    queries: Sequence[str],
    precision: str,
    progress: Callable[[str], None],
) -> Shown:
    """Encode a sample of the pool and the example sentences with all runs, by name."""
    sample = projection.Sample.of(pool, SENTENCES)
    classes = projection.Classes.of_labels(projection.read_labels(labels, pool, sample.rows)) if labels else None
    embedders, missing = {}, []
    for name, run in runs.items():
        progress(f"{name}: loading")
        try:
            embedders[name] = Embedder.load(run, precision=precision)
        except InputError as error:
            missing.append(f"{name}: {error}")
    texts, inputs = examples(pool, sample, queries)
    progress("parsing")
    sample = sample._replace(sentences=list(prepared(sample.sentences, list(embedders.values()))))
    parsed, no_trees = with_trees(inputs, list(embedders.values()))
    encoded = []
    for name, embedder in embedders.items():
        progress(f"{name}: encoding")
        try:
            vectors = pool.encode(embedder, sample.rows, sample.sentences)
            encoded.append(EncodedSample(name, vectors, embedder.encode(parsed), embedder.attention(parsed)))
        except InputError as error:
            missing.append(f"{name}: {error}")
    return Shown(pool, sample, classes, texts, parsed, no_trees, encoded, missing)


def examples(pool: Pool, sample: projection.Sample, queries: Sequence[str]) -> tuple[list[str], list[Sentence]]:
    """The example sentences, as text and as input: ``queries``, or a few short sentences of the sample."""
    if queries:
        texts, sentences = zip(*map(pool.read, queries), strict=True)
        return list(texts), list(sentences)
    short = [i for i, text in enumerate(sample.texts) if len(text.split()) in SHORT] or range(len(sample.texts))
    positions = np.linspace(0, len(short) - 1, min(EXAMPLES, len(short)) + 2)[1:-1].round().astype(int)
    chosen = [short[position] for position in dict.fromkeys(positions.tolist())]
    return [sample.texts[i] for i in chosen], [sample.sentences[i] for i in chosen]


def prepared(sentences: Sequence[Sentence], embedders: Sequence[Embedder]) -> Sequence[Sentence]:
    """Parse the sentences once if all runs share an installed parser; otherwise return them unchanged.

    In that case each run parses them itself, or reports why it cannot.
    """
    reading = [embedder for embedder in embedders if embedder.parsers]
    if len({repr(parser) for embedder in reading for parser in embedder.parsers}) != 1:
        return sentences
    try:
        return reading[0].preparer.prepare(sentences, frozenset().union(*(embedder.needs for embedder in reading)))
    except InputError:
        return sentences


def with_trees(sentences: Sequence[Sentence], embedders: Sequence[Embedder]) -> tuple[Sequence[Sentence], list[str]]:
    """The example sentences with trees; if they cannot be parsed, unchanged and with the reason."""
    reading = next((embedder for embedder in embedders if embedder.parsers), None)
    preparer = reading.preparer if reading else Preparer(embedders[0].preparer.parsed if embedders else Parsed())
    needs = reading.needs_of(range(len(reading.views))) if reading else TREES  # also of views that it leaves out
    try:
        return preparer.prepare(sentences, needs), []
    except InputError as error:
        return sentences, [f"no trees: {error}"]


def projections(shown: Shown) -> dict[str, Any]:
    """A projection of the sample for each run, with the sentences and their labels."""
    clouds, missing, classes = [], list(shown.missing), shown.classes
    for each in shown.runs:
        try:
            draw = partial(projection.scatter, projection.project(each.sample), each.run, by=classes, legend=False)
            clouds.append(pictures.inline_svg(draw, f"projection {each.run}".strip()))
        except InputError as error:
            missing.append(f"{each.run}: {error}")
    if not classes:
        missing.append("no labels: give --labels FILE to colour the sentences by label")
    order = np.concatenate(projection.drawn_rows(len(shown.sample.texts), classes)).tolist()
    labels, legend = ([classes.names[i] for i in classes.of], classes.legend()) if classes else ([], [])
    points = {"order": order, "texts": shown.sample.texts, "labels": labels}
    return {"clouds": clouds, "points": points, "labels": legend, "note": f"{shown.source}.", "missing": missing}


def neighbours(shown: Shown) -> dict[str, Any]:
    """Nearest neighbours of the example sentences, one column per run."""
    if not shown.runs:
        return {"queries": [], "missing": shown.missing}
    row_of = {text: row for row, text in enumerate(shown.sample.texts)}
    itself = np.array([row_of.get(text, -1) for text in shown.texts])
    found = [nearest(each.queries, each.sample, NEAREST, itself) for each in shown.runs]
    pool, rows, queries = shown.pool, shown.sample.rows, []
    for number, heading in enumerate(shown.headings):
        columns = [
            [{"cosine": f"{cosine:.3f}", "text": pool.shown(rows[row])} for cosine, row in each.of(number)]
            for each in found
        ]
        queries.append({"text": heading, "rows": list(zip_longest(*columns))})
    runs, note = [each.run for each in shown.runs], f"Nearest neighbours by cosine among {shown.source}."
    return {"runs": runs, "queries": queries, "note": note, "missing": shown.missing}


def trees(shown: Shown) -> dict[str, Any]:
    """Trees of the example sentences, with the attention weights of each attentive view on the dependencies."""
    attentive = [(each, view) for each in shown.runs for view in each.attention]
    missing = [] if attentive else ["no attention to draw: give a run of structviews train --views dep,const"]
    sentences = []
    for i, (heading, sentence) in enumerate(zip(shown.headings, shown.examples, strict=True)):
        if not isinstance(sentence, ParsedSentence):
            continue
        drawn: list[tuple[str, svg.Picture]] = []
        if sentence.has_dependencies:
            for each, view in attentive:
                weights = each.attention[view][i].tolist()
                drawn.append((f"{each.run}: attention of {view}", svg.dependency_tree(sentence, weights)))
            drawn = drawn or [("dependency tree", svg.dependency_tree(sentence))]
        if sentence.has_constituents:
            drawn += [("", tree) for tree in svg.constituency_trees(sentence)]
        text = " ".join(sentence.tokens)
        elements = [{"caption": caption, "svg": svg.element(tree, text)} for caption, tree in drawn]
        sentences.append({"text": heading, "pictures": elements})
    return {"sentences": sentences, "missing": shown.no_trees + missing}


def settings(runs: Sequence[Path], names: Sequence[str]) -> dict[str, Any]:
    """Settings and environment of the runs, separated into differing and common ones."""
    columns = [flat(read_settings(run)) | {"kind": run_kind(run)} | environment(run) for run in runs]
    rows = [
        {"name": name, "cells": [column.get(name, "–") for column in columns]}
        for name in dict.fromkeys(name for column in columns for name in column)
    ]
    common = [row for row in rows if len(runs) > 1 and len(set(row["cells"])) == 1]
    packages = ", ".join(f"{name} {version(name)}" for name in ("structviews", "torch", "numpy", "matplotlib"))
    note = f"Made with {packages}, Python {platform.python_version()}, {platform.system()} on {platform.machine()}."
    return {"runs": names, "different": [row for row in rows if row not in common], "common": common, "note": note}


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Settings as text; names in nested tables are prefixed with the table's name."""
    found: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}." if name != PARSED else "")
        else:
            found[prefix + name] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return found


def environment(run: Path) -> dict[str, str]:
    """Checksum of the weights, and the versions that the run was scored with."""
    found = {}
    with suppress(InputError):  # it has none, or they are damaged
        found["SHA-256 of the weights"] = model_checksum(run)
    versions: dict[str, dict[str, None]] = {}
    for results in all_results(run):
        for entry in results["tasks"].values():
            for name, each in entry.get("versions", {}).items():
                versions.setdefault(name, {})[str(each)] = None
    return found | {f"scored with {name}": ", ".join(each) for name, each in versions.items()}
