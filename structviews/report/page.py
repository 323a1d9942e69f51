"""The report page on one or more runs, section by section."""

import platform
from collections.abc import Callable, Mapping, Sequence
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
from structviews.evaluation.retrieval.candidates import Pool, open_pool
from structviews.evaluation.retrieval.neighbours import nearest
from structviews.evaluation.retrieval.next_sentence import corpus_of
from structviews.evaluation.scores import heatmap
from structviews.evaluation.scores.rendering import MARKS, has_marks, html_table, side_by_side
from structviews.evaluation.scores.results import all_results
from structviews.evaluation.scores.tables import ScoreTable, score_table
from structviews.parsing import svg
from structviews.report import curves, html
from structviews.report.projection import (
    Classes,
    Projection,
    Sample,
    cloud,
    prepared,
    project,
    read_labels,
    sample_vectors,
)
from structviews.runs.folder import model_checksum, read_log, run_names
from structviews.runs.settings_file import PARSED, Parsed, read_settings, run_kind, run_views
from structviews.runtime import pictures

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
Tell = Callable[[str], None]


@dataclass(frozen=True)
class EncodedSample:
    """A run's vectors and attention weights for the sentences of a report.

    Attributes:
        run: name of the run.
        sample: ``(n, d)`` vectors of the sample.
        queries: ``(q, d)`` vectors of the example sentences.
        attention: weights for the example sentences, see ``Embedder.attention``.
    """

    run: str
    sample: np.ndarray
    queries: np.ndarray
    attention: dict[str, list[np.ndarray]]


@dataclass(frozen=True)
class Shown:
    """The sentences of a report.

    Attributes:
        pool: the sentences' source.
        sample: the sentences to project and search.
        classes: the labels of the sample, if any.
        texts: the example sentences, as text comparable with the pool's.
        headings: the same as readers write them.
        examples: the example sentences with trees, if they could be parsed.
        runs: the runs' vectors of both.
        missing: why runs are missing.
        no_trees: why the example sentences have no trees.
    """

    pool: Pool
    sample: Sample
    classes: Classes | None
    texts: list[str]
    headings: list[str]
    examples: Sequence[Sentence]
    runs: list[EncodedSample]
    missing: list[str]
    no_trees: list[str]


def write_report(
    runs: Sequence[Path],
    out: Path,
    *,
    corpus: Path | None = None,
    labels: Path | None = None,
    queries: Sequence[str] = (),
    tokenised: bool = False,
    precision: str = "auto",
    tell: Tell = lambda _: None,
) -> None:
    """Write a report page on runs, atomically.

    Args:
        runs: run folders.
        out: file to write.
        corpus: a text with one sentence per line, or a parsed corpus; by default the runs' own, if it exists.
        labels: file with one label per line of the corpus's text.
        queries: example sentences; by default a few from the corpus.
        tokenised: whether the text and the queries are already tokenised (separated by white space).
        precision: see ``Embedder.load``.
        tell: called with a description of each step.

    Raises:
        InputError: if a folder is not a run, there is nothing to report, an input file cannot be read, or the page
            cannot be written.
    """
    html.check_page(out, "a report")
    names = run_names(runs)
    for run in runs:
        run_views(run)
    tell("reading scores and logs")
    logs = {name: read_log(run) for name, run in zip(names, runs, strict=True)}
    weights = [has_weights(run) for run in runs]
    if not any(weights) and not any(logs.values()) and not any(map(all_results, runs)):
        raise InputError(
            f"{', '.join(map(str, runs))}: nothing to report: no scores, log or weights: finish training first"
        )
    shown = show_sentences(runs, names, corpus, labels, queries, tokenised, precision, tell)
    tell("drawing")
    content = {
        "title": f"Report on {names[0]}" if len(runs) == 1 else f"Report on {len(runs)} runs",
        "scores": scores(runs),
        "curves": training(logs, runs),
        "pairs": pairs_of_views(runs),
        "projection": projections(shown),
        "neighbours": neighbours(shown),
        "trees": trees(shown),
        "published": published(runs),
        "settings": settings(runs, names),
    }
    html.write_page(out, "report.html", content)


def has_weights(run: Path) -> bool:
    """Whether a run has weights."""
    try:
        return bool(model_checksum(run))
    except InputError:
        return False


def scores(runs: Sequence[Path]) -> dict[str, Any]:
    """The table of the runs."""
    every = score_table(runs, intervals=True)
    tasks = every.scored_tasks
    if not tasks:
        return {"tables": [], "missing": every.notes}
    own = score_table(runs, tasks=tasks, intervals=True)
    return {
        "tables": drawn(own),
        "marks": MARKS if has_marks(own) else "",
        "notes": own.legend,
        "unscored": every.notes,
        "missing": [],
    }


def published(runs: Sequence[Path]) -> dict[str, Any]:
    """The papers' scores on the tasks of the runs."""
    own = score_table(runs)
    tasks = own.scored_tasks
    papers = score_table([], tasks=tasks, published=True)
    if not tasks or not papers.published:
        return {"tables": [], "missing": ["no paper has a score on the tasks of these runs"]}
    table = replace(papers, header=["model", "paper, table", *papers.header[2:]])
    return {"tables": drawn(table), "notes": [note for note in papers.legend if note not in own.legend], "missing": []}


def drawn(table: ScoreTable) -> list[Any]:
    """A table as HTML, in parts that fit the page's width."""
    return [html.markup(html_table(table, part)) for part in side_by_side(table)]


def pairs_of_views(runs: Sequence[Path]) -> dict[str, Any]:
    """A heat map for each task that several pairs of views are scored on."""
    matrices = []
    why_not: dict[str, None] = {}
    for task in score_table(runs).scored_tasks:
        try:
            matrix = heatmap.view_matrix(runs, task)
        except InputError as error:
            why_not[str(error).removeprefix(f"--matrix {task}: ")] = None
            continue
        if matrix.n_pairs >= PAIRS:
            matrices.append(html.markup(pictures.inline_svg(partial(heatmap.picture, matrix), f"{task} by views")))
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
            trained = run_kind(run) == "trained"
            remedy = (
                f"create one with structviews train --resume {run}" if trained else "only runs made by train have one"
            )
            missing.append(f"{name}: no training log; {remedy}")
    series = curves.series_of(found)
    drawn = [
        pictures.inline_svg(partial(curves.draw_panel, found, metric, title, series), f"{title} by step")
        for metric, title in curves.panels(found).items()
    ]
    return {
        "panels": list(map(html.markup, drawn)),
        "series": [
            {"name": each.name, "colour": each.colour, "dashes": curves.SVG_DASHES[each.dash]} for each in series
        ],
        "note": "Lines: training, per batch. Lines with dots: held-out documents. Dotted lines: chance. Point at a "
        f"name to highlight its curves. Logs with more than {curves.POINTS} lines are averaged down to at most "
        f"{curves.POINTS} points.",
        "missing": missing,
    }


def show_sentences(
    runs: Sequence[Path],
    names: Sequence[str],
    corpus: Path | None,
    labels: Path | None,
    queries: Sequence[str],
    tokenised: bool,
    precision: str,
    tell: Tell,
) -> Shown | list[str]:
    """Encode the sentences with all runs; if there is no corpus, return the reason instead."""
    if corpus is None:
        try:
            corpus = corpus_of(runs)
        except InputError as error:
            corpus, why = None, str(error)
        if corpus is not None and not corpus.exists():
            corpus, why = None, f"the corpus {corpus} does not exist: give one with --corpus"
        if corpus is None:
            if labels:
                raise InputError(f"--labels {labels}: {why}")
            return [why]
    pool = open_pool(corpus, tokenised)
    sample = Sample.of(pool, SENTENCES)
    classes = Classes.of_labels(read_labels(labels, pool, sample.rows)) if labels else None
    embedders, missing = {}, []
    for name, run in zip(names, runs, strict=True):
        tell(f"{name}: loading")
        try:
            embedders[name] = Embedder.load(run, precision=precision)
        except InputError as error:
            missing.append(f"{name}: {error}")
    texts, inputs = examples(pool, sample, queries)
    rows = dict(zip(sample.texts, sample.rows.tolist(), strict=True))
    headings = [pool.shown(rows[text]) if text in rows else text for text in texts]
    tell("parsing")
    sample = sample._replace(sentences=list(prepared(sample.sentences, list(embedders.values()))))
    parsed, no_trees = with_trees(inputs, list(embedders.values()))
    encoded = []
    for name, embedder in embedders.items():
        tell(f"{name}: encoding")
        try:
            vectors = sample_vectors(embedder, pool, sample), embedder.encode(parsed)
            encoded.append(EncodedSample(name, *vectors, embedder.attention(parsed)))
        except InputError as error:
            missing.append(f"{name}: {error}")
    return Shown(pool, sample, classes, texts, headings, parsed, encoded, missing, no_trees)


def examples(pool: Pool, sample: Sample, queries: Sequence[str]) -> tuple[list[str], list[Sentence]]:
    """The example sentences, as text and as input: ``queries``, or a few short sentences of the sample."""
    if queries:
        texts, sentences = zip(*map(pool.read, queries), strict=True)
        return list(texts), list(sentences)
    short = [i for i, text in enumerate(sample.texts) if len(text.split()) in SHORT] or range(len(sample.texts))
    positions = np.linspace(0, len(short) - 1, min(EXAMPLES, len(short)) + 2)[1:-1].round().astype(int)
    chosen = [short[position] for position in dict.fromkeys(positions.tolist())]
    return [sample.texts[i] for i in chosen], [sample.sentences[i] for i in chosen]


def with_trees(sentences: Sequence[Sentence], embedders: Sequence[Embedder]) -> tuple[Sequence[Sentence], list[str]]:
    """The example sentences with trees; if they cannot be parsed, unchanged and with the reason."""
    reading = next((embedder for embedder in embedders if embedder.parsers), None)
    preparer = reading.preparer if reading else Preparer(embedders[0].preparer.parsed if embedders else Parsed())
    needs = frozenset().union(*reading.reads) if reading else TREES  # also of views that it leaves out
    try:
        return preparer.prepare(sentences, needs), []
    except InputError as error:
        return sentences, [f"no trees: {error}"]


def projections(shown: Shown | list[str]) -> dict[str, Any]:
    """A projection of the sample for each run."""
    if isinstance(shown, list):
        return {"clouds": [], "missing": shown}
    drawn: list[tuple[str, Projection]] = []
    missing = list(shown.missing)
    for each in shown.runs:
        try:
            drawn.append((each.run, project(each.sample)))
        except InputError as error:
            missing.append(f"{each.run}: {error}")
    if not shown.classes:
        missing.append("no labels: give --labels FILE to colour the sentences by label")
    note = f"{len(shown.sample.texts):,} sentences of {shown.pool.path}{spread(shown)}."
    return {**cloud(drawn, shown.sample, shown.classes), "note": note, "missing": missing}


def spread(shown: Shown) -> str:
    """A remark for the notes if the sample is not the whole corpus."""
    return f", evenly spaced over its {len(shown.pool):,} distinct sentences" if len(shown.pool) > SENTENCES else ""


def neighbours(shown: Shown | list[str]) -> dict[str, Any]:
    """Nearest neighbours of the example sentences, one column per run."""
    if isinstance(shown, list) or not shown.runs:
        return {"queries": [], "missing": shown if isinstance(shown, list) else shown.missing}
    row_of = {text: row for row, text in enumerate(shown.sample.texts)}
    itself = np.array([row_of.get(text, -1) for text in shown.texts])
    found = [nearest(each.queries, each.sample, NEAREST, itself) for each in shown.runs]

    def cells(query: int) -> list[list[dict[str, str]]]:
        """The neighbours that each run finds, nearest first."""
        return [
            [
                {"cosine": f"{cosine:.3f}", "text": shown.pool.shown(shown.sample.rows[row])}
                for cosine, row in zip(each.scores[query], each.rows[query], strict=True)
                if row >= 0
            ]
            for each in found
        ]

    return {
        "runs": [each.run for each in shown.runs],
        "queries": [
            {"text": text, "rows": list(zip_longest(*cells(query)))} for query, text in enumerate(shown.headings)
        ],
        "note": f"Nearest neighbours by cosine among {len(shown.sample.texts):,} sentences of "
        f"{shown.pool.path}{spread(shown)}.",
        "missing": shown.missing,
    }


def trees(shown: Shown | list[str]) -> dict[str, Any]:
    """Trees of the example sentences, with the attention weights of each attentive view on the dependencies."""
    if isinstance(shown, list):
        return {"sentences": [], "missing": shown}
    attentive = [(each, view) for each in shown.runs for view in each.attention]
    missing = [] if attentive else ["no attention to draw: give a run of structviews train --views dep,const"]
    drawn = [
        {"text": text, "pictures": tree_pictures(sentence, i, attentive)}
        for i, (text, sentence) in enumerate(zip(shown.headings, shown.examples, strict=True))
        if isinstance(sentence, ParsedSentence)
    ]
    return {"sentences": drawn, "missing": shown.no_trees + missing}


def tree_pictures(
    sentence: ParsedSentence, number: int, attentive: Sequence[tuple[EncodedSample, str]]
) -> list[dict[str, Any]]:
    """The trees of the example sentence of a number, each with a caption."""
    text = " ".join(sentence.tokens)
    drawn = []
    if sentence.has_dependencies:
        for each, view in attentive:
            weights = each.attention[view][number].tolist()
            drawn.append((f"{each.run}: attention of {view}", svg.dependency_tree(sentence, weights)))
        drawn = drawn or [("dependency tree", svg.dependency_tree(sentence))]
    if sentence.has_constituents:
        drawn += [("", tree) for tree in svg.constituency_trees(sentence)]
    return [{"caption": caption, "svg": html.markup(svg.element(tree, text))} for caption, tree in drawn]


def settings(runs: Sequence[Path], names: Sequence[str]) -> dict[str, Any]:
    """Settings and environment of the runs, separated into differing and common ones."""
    columns = [flat(read_settings(run)) | {"kind": run_kind(run)} | environment(run) for run in runs]
    rows = [
        {"name": name, "cells": [column.get(name, "–") for column in columns]}
        for name in dict.fromkeys(name for column in columns for name in column)
    ]
    common = [row for row in rows if len(runs) > 1 and len(set(row["cells"])) == 1]
    packages = ", ".join(f"{name} {version(name)}" for name in ("structviews", "torch", "numpy", "matplotlib"))
    return {
        "runs": names,
        "different": [row for row in rows if row not in common],
        "common": common,
        "note": f"Made with {packages}, Python {platform.python_version()}, {platform.system()} on "
        f"{platform.machine()}.",
    }


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
    found = {"SHA-256 of the weights": model_checksum(run)} if has_weights(run) else {}
    versions: dict[str, dict[str, None]] = {}
    for results in all_results(run):
        for entry in results["tasks"].values():
            for name, each in entry.get("versions", {}).items():
                versions.setdefault(name, {})[str(each)] = None
    return found | {f"scored with {name}": ", ".join(each) for name, each in versions.items()}
