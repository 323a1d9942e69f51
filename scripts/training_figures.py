"""Two of the papers' figures: what changes in the course of training.

    python scripts/training_figures.py corpus.parsed --senteval senteval --vectors corpus.vec -o figures

Draws `figures/training-cosines.svg`, figure 1 of Multi-view sentence representation learning (M): the cosines of
adjacent sentences in all pairs of views, without the first principal component, divided by the temperature; and
`figures/training-scores.svg`, figure 1 of Improving sentence representations with consensus maximisation (C): f, g and
their ensemble in the mean over six similarity tasks, with two views (MV) and with each view trained alone (SV). What
is drawn is kept in `figures/training-figures.json`. Models are trained up to a point, scored, and trained on. If it is
stopped, run the same command again to resume.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import count, product
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np
from consensus_study import Row, recipes_of, rows_of
from smoke import command, log, study_parser

from structviews.encoding.embedder import Embedder
from structviews.encoding.representation import join_views
from structviews.errors import InputError
from structviews.evaluation.senteval.suite import TaskEncoder, read_tasks, task_vectors
from structviews.evaluation.senteval.task_scores import score_task
from structviews.evaluation.senteval.tasks.reading import Task, Tokens
from structviews.recipes.recipe import Recipe
from structviews.runtime.documents import write_json
from structviews.runtime.pictures import COLOURS, inline_svg, require_matplotlib
from structviews.training.checkpoint import read_progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# C's figure 1 averages Pearson's correlation over these; the mean here is over those that the folder has.
TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "SICK14")
BOTH, ALONE = "multi-view-d", ("single-view-f", "single-view-g")
# What is scored, and what C calls it.
ROWS = {
    "MV": rows_of(BOTH),
    "SV": [
        Row("f", ((ALONE[0], 0),), ""),
        Row("g", ((ALONE[1], 0),), ""),
        Row("en(f, g)", ((ALONE[0], 0), (ALONE[1], 0)), ""),
    ],
}
SCORED = recipes_of([row for rows in ROWS.values() for row in rows])
# The recipes whose cosines M draws, with the equations of their agreement.
COSINES = {BOTH: "f-g and g-f in the loss (eq. 2)", "multi-and-single-view": "all four in the loss (eq. 3)"}
PAIRS = ["".join(pair) for pair in product("fg", repeat=2)]
# The colours of these pages' other pictures, on a light and on a dark page.
STYLE = """<style>
svg { color-scheme: light dark; font-family: sans-serif; --ink: #1f2328; --faint: #818b98; --paper: #ffffff;
  --c0: #0072b2; --c1: #b87400; --c2: #007d5b; --c3: #d55e00; --c4: #3a9bd6; --c5: #b3568c }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e6edf3; --faint: #7d8590; --paper: #0d1117;
    --c0: #4da6e0; --c1: #f0b429; --c2: #2fc79a; --c3: #ff8a4c; --c4: #9ad6f7; --c5: #e6a3cb }
}
</style>
<rect width="100%" height="100%" style="fill: var(--paper)"/>
"""
# Of each pair; f-g and g-f nearly coincide, and show through one another.
DASHES = ("--", "-", ":", "--")
SCORES, CURVES = "scores.json", "training-figures.json"


def main() -> None:
    """Train, score, draw, and print the ends of the curves."""
    parser = study_parser(__doc__)
    parser.add_argument("--vectors", required=True, type=Path, help="word vectors")
    parser.add_argument("--hidden", type=int, default=300, help="dimension of each view's vector")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--every", type=int, default=50, help="steps from one point of a curve to the next")
    options = parser.parse_args()
    try:
        require_matplotlib("drawing the figures")
    except InputError as error:
        sys.exit(f"error: {error}")
    options.out.mkdir(parents=True, exist_ok=True)
    tasks, missing = read_tasks(TASKS, options.senteval, None)
    if not tasks:
        sys.exit(next(iter(missing.values())))
    for recipe in COSINES.keys() - set(SCORED):
        train(recipe, options)
    for step in points(options):
        score(step, tasks, options.out)
    found = curves(options.out)
    write_json(options.out / CURVES, found, sealed=False)
    draw(options.out, found)
    print("\n".join(table(found)))


def points(options: argparse.Namespace) -> Iterator[int]:
    """The steps at which all models to be scored stand, one after the other, up to the end of training."""
    done = scores_of(options.out)
    for step in count(options.every, options.every):
        if step not in done:
            for recipe in SCORED:
                train(recipe, options, step)
            reached = {progress.step for run in runs(options.out) if (progress := read_progress(run))}
            if reached != {step}:
                return
            yield step


def train(recipe: str, options: argparse.Namespace, steps: int = 0) -> None:
    """Train a run, or train it on, up to a step; to the end by default."""
    run = options.out / recipe
    if (run / "config.toml").exists():
        command("train", "--resume", run, "--steps", steps)
        return
    data = ("--corpus", options.corpus, "--vectors", options.vectors, "--out", run)
    length = ("--epochs", options.epochs, "--steps", steps, "--validate-every", options.every)
    command("train", "--recipe", recipe, *data, "--hidden", options.hidden, *length)


def runs(out: Path) -> list[Path]:
    """The runs that are scored."""
    return [out / recipe for recipe in SCORED]


def scores_of(out: Path) -> dict[int, Any]:
    """Scores by step, ascending; of each by model (MV or SV), row and task."""
    file = out / SCORES
    found = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return {step: found[str(step)] for step in sorted(map(int, found))}


def score(step: int, tasks: Sequence[Task], out: Path) -> None:
    """Score all rows, and keep what they reach at this step."""
    embedders = {}
    for recipe in SCORED:
        embedder = Embedder.load(out / recipe).for_similarity()
        embedders[recipe] = embedder.with_representation(transductive=Recipe.load(recipe).evaluation.transductive)

    @cache
    def views(recipe: str, sentences: tuple[Tokens, ...]) -> list[np.ndarray]:
        return embedders[recipe].encode_views([list(sentence) for sentence in sentences])

    def reached(row: Row, task: Task) -> float:
        def joined(sentences: list[Tokens]) -> np.ndarray:
            vectors = [views(recipe, tuple(sentences))[number] for recipe, number in row.views]
            return join_views(vectors, [row.name] * len(vectors), "average")

        vectors = next(task_vectors(TaskEncoder(partial(map, joined), transductive=True), [task]))
        return score_task(task, vectors)["scores"]["pearson mean"]

    found = {
        model: {row.name: {task.name: reached(row, task) for task in tasks} for row in rows}
        for model, rows in ROWS.items()
    }
    reached_so_far = scores_of(out) | {step: found}
    write_json(out / SCORES, {str(step): each for step, each in reached_so_far.items()}, sealed=False)


def curves(out: Path) -> dict[str, Any]:
    """All that is drawn: cosines by recipe and pair of views, scores by model and row, each with its steps."""
    scores = scores_of(out)
    cosines = {recipe: cosine_curves(list(log(out / recipe, "validation"))) for recipe in COSINES}
    by_model = {
        model: {row.name: [mean(each[model][row.name].values()) for each in scores.values()] for row in rows}
        for model, rows in ROWS.items()
    }
    scored = next(iter(scores.values()))["MV"]["f"]
    tasks = [task for task in TASKS if task in scored]
    return {"cosines": cosines, "scores": {"tasks": tasks, "steps": list(scores)} | by_model}


def cosine_curves(lines: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Cosines of adjacent sentences divided by the temperature, by pair of views, of a log's validation lines."""
    found = {pair: [line[f"adjacent_{pair}"] / line["temperature"] for line in lines] for pair in PAIRS}
    return {"steps": [line["step"] for line in lines]} | found


def table(found: Mapping[str, Any]) -> Iterator[str]:
    """Lines of Markdown: each curve at its first, middle and last step."""
    yield "| figure | curve | first | middle | last |"
    yield "|---|---|--:|--:|--:|"
    for recipe, pair in product(COSINES, PAIRS):
        values = ends(found["cosines"][recipe][pair])
        yield f"| M 1, {recipe} | {'-'.join(pair)} | {' | '.join(f'{value:.2f}' for value in values)} |"
    for model, rows in ROWS.items():
        for row in rows:
            values = ends(found["scores"][model][row.name])
            yield f"| C 1, {model} | {row.name} | {' | '.join(f'{100 * value:.1f}' for value in values)} |"


def ends(values: Sequence[float]) -> list[float]:
    """The first, the middle and the last."""
    return [values[0], values[len(values) // 2], values[-1]]


def draw(out: Path, found: Mapping[str, Any]) -> None:
    """Write both figures."""
    cosines = inline_svg(lambda: draw_cosines(found["cosines"]), "Cosines of adjacent sentences by step")
    scores = inline_svg(lambda: draw_scores(found["scores"]), "Scores by step, of views trained together and alone")
    for name, picture in (("cosines", cosines), ("scores", scores)):
        start, rest = picture.split("\n", 1)
        (out / f"training-{name}.svg").write_text(f"{start}\n{STYLE}{rest}", encoding="utf-8")


def draw_cosines(cosines: Mapping[str, Mapping[str, list[float]]]) -> "Figure":
    """A panel for each recipe: a line for each pair of views."""
    figure, panels = panels_of(len(COSINES))
    for axes, (recipe, loss) in zip(panels, COSINES.items(), strict=True):
        axes.set_title(f"{recipe}:\n{loss}", fontsize=10)
        curve = cosines[recipe]
        for number, (pair, dash) in enumerate(zip(PAIRS, DASHES, strict=True)):
            axes.plot(curve["steps"], curve[pair], dash, color=COLOURS[number], label="-".join(pair))
    panels[0].set_ylabel("cosine of adjacent sentences / τ")
    panels[0].legend(frameon=False)
    return figure


def draw_scores(scores: Mapping[str, Any]) -> "Figure":
    """A line for each row: solid with two views, dashed with each view trained alone."""
    figure, (axes,) = panels_of(1)
    for (model, rows), dash in zip(ROWS.items(), ("-", "--"), strict=True):
        for number, row in enumerate(rows):
            percent = [100 * value for value in scores[model][row.name]]
            axes.plot(scores["steps"], percent, dash, color=COLOURS[number], label=f"{model}: {row.name}")
    axes.set_title(f"Mean of {', '.join(scores['tasks'])}", fontsize=10)
    axes.set_ylabel("Pearson's r x 100")
    axes.legend(frameon=False, ncols=2)
    return figure


def panels_of(n: int) -> "tuple[Figure, Sequence[Axes]]":
    """A figure with ``n`` panels beside one another, over the same steps."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra

    figure = Figure(figsize=(7.6, 3.6), layout="constrained")
    panels = figure.subplots(1, n, sharey=True, squeeze=False)[0]
    for axes in panels:
        axes.set_xlabel("step")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
    return figure, panels


if __name__ == "__main__":
    main()
