"""The effect of matching two views: variants of the consensus and generative objectives in one table.

    python scripts/consensus_study.py corpus.parsed --senteval senteval -o study

Every variant is trained with every seed, on fixed word vectors learnt on the corpus itself. Each view alone (f, the
recurrent one, and g, the average of words) and their ensembles are scored on similarity (mean Pearson correlation,
views averaged) and on classification (views pooled and concatenated). The rows are those of table 6 of Multi-view
sentence representation learning, plus a skip connection and the generative objective of the two papers. If it is
stopped, run the same command again to resume; several processes, each with `--only`, can share the work.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from smoke import command, log, study_parser

from structviews.encoding.embedder import Embedder
from structviews.encoding.representation import join_views
from structviews.evaluation.senteval.suite import evaluate
from structviews.evaluation.senteval.tasks.reading import Tokens
from structviews.runs.folder import CONFIG, model_checksum
from structviews.runs.settings_file import load_config
from structviews.runtime.documents import write_json

# Tasks, with the score of each and its unit in papers.
PEARSON, ACCURACY = ("pearson mean", 100), ("accuracy", 1)
TASKS = {"STS14": PEARSON, "SICK14": PEARSON, "MR": ACCURACY, "SUBJ": ACCURACY}


class Row(NamedTuple):
    """One representation.

    Attributes:
        name: as the paper calls it.
        views: recipe and number of each view that is joined in it.
        beside: name of the same part in the two-view model; empty where there is none.
    """

    name: str
    views: tuple[tuple[str, int], ...]
    beside: str


def rows_of(recipe: str, first: str = "f", second: str = "g") -> list[Row]:
    """Both views of a run, and their ensemble."""
    f, g = (recipe, 0), (recipe, 1)
    return [Row(first, (f,), "f"), Row(second, (g,), "g"), Row(f"en({first}, {second})", (f, g), "en(f, g)")]


# Groups of rows by what they share. Two views of the same kind differ only in their random initialisation.
TWO_F, TWO_G = "multi-view-d-f1f2", "multi-view-d-g1g2"
ONE_F, ONE_G = "single-view-f", "single-view-g"
VARIANTS = {
    "f and g, each against the other (multi)": rows_of("multi-view-d"),
    "f1 and f2; g1 and g2": [
        Row("f1", ((TWO_F, 0),), "f"),
        Row("en(f1, f2)", ((TWO_F, 0), (TWO_F, 1)), "en(f, g)"),
        Row("g1", ((TWO_G, 0),), "g"),
        Row("en(g1, g2)", ((TWO_G, 0), (TWO_G, 1)), "en(f, g)"),
        Row("en(f1, g1)", ((TWO_F, 0), (TWO_G, 0)), "en(f, g)"),
    ],
    "f alone; g alone (single)": [
        Row("f", ((ONE_F, 0),), "f"),
        Row("g", ((ONE_G, 0),), "g"),
        Row("en(f, g)", ((ONE_F, 0), (ONE_G, 0)), "en(f, g)"),
    ],
    "f and g, all four cosines (multi+single)": rows_of("multi-and-single-view"),
    "f and g, each against itself (within)": rows_of("within-views"),
    "f and g, skip connection (skip)": rows_of("skip-connection"),
    "generative, orthonormal decoder": rows_of("generative-g"),
    "generative, unconstrained": rows_of("generative-g-unconstrained"),
}


def main() -> None:
    """Train, score, print."""
    parser = study_parser(__doc__)
    parser.add_argument("--vectors", type=Path, help="word vectors; by default learnt on the corpus")
    parser.add_argument(
        "--hidden", type=int, default=512, help="dimension of a view's vector, both directions together"
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seeds", default="1,2,3", help="comma-separated")
    parser.add_argument("--only", default="", help="comma-separated numbers of the variants to run, from 1")
    parser.add_argument("--table", action="store_true", help="only print the existing results")
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    names = list(VARIANTS)
    chosen = [names[int(number) - 1] for number in options.only.split(",")] if options.only else names
    if not options.table:
        options.out.mkdir(parents=True, exist_ok=True)
        if not options.vectors:
            options.vectors = options.out / "words.vec"
            if not options.vectors.exists():
                command("vectors", options.corpus, "-o", options.vectors)
        for seed in seeds:
            for name in chosen:
                train(VARIANTS[name], seed, options)
                score(VARIANTS[name], seed, options)
    print("\n".join(table(options.out, seeds)))


def train(rows: Sequence[Row], seed: int, options: argparse.Namespace) -> None:
    """Train or finish the runs that the rows need."""
    for recipe in recipes_of(rows):
        settings = ("--corpus", options.corpus, "--vectors", options.vectors, "--hidden", options.hidden)
        run = folder(options.out, recipe, seed)
        command("train", "--recipe", recipe, *settings, "--epochs", options.epochs, "--seed", seed, "--out", run)


def recipes_of(rows: Sequence[Row]) -> list[str]:
    """Names of the recipes that rows need, each once."""
    return list(dict.fromkeys(recipe for row in rows for recipe, _ in row.views))


def folder(out: Path, recipe: str, seed: int) -> Path:
    """Of a run."""
    return out / f"{recipe}-seed{seed}"


def scores_file(out: Path, row: Row, seed: int) -> Path:
    """Of a row's scores by task."""
    views = "-".join(f"{recipe}.{view}" for recipe, view in row.views)
    return out / "scores" / f"{views}-seed{seed}.json"


def scores_of(out: Path, row: Row, seed: int) -> dict:
    """A row's scores by ``tasks``, and the checksums of the ``models`` that they are of."""
    file = scores_file(out, row, seed)
    return json.loads(file.read_text("utf-8")) if file.exists() else {"models": [], "tasks": {}}


def score(rows: Sequence[Row], seed: int, options: argparse.Namespace) -> None:
    """Score the rows that have no scores yet."""
    embedders: dict[str, Embedder] = {}

    @lru_cache(maxsize=2)
    def views(recipe: str, similarity: bool, sentences: tuple[Tokens, ...]) -> list[np.ndarray]:
        if recipe not in embedders:
            embedders[recipe] = Embedder.load(folder(options.out, recipe, seed))
        embedder = embedders[recipe]
        return (embedder.for_similarity() if similarity else embedder).encode_views([list(s) for s in sentences])

    def joined(row: Row, similarity: bool, sentences: Sequence[Tokens]) -> np.ndarray:
        vectors = [views(recipe, similarity, tuple(sentences))[view] for recipe, view in row.views]
        return join_views(
            list(map(torch.from_numpy, vectors)),
            [row.name] * len(vectors),
            "average" if similarity else "concatenation",
        ).numpy()

    for task in TASKS:
        for row in rows:
            models = [model_checksum(folder(options.out, recipe, seed)) for recipe in recipes_of([row])]
            known = scores_of(options.out, row, seed)
            tasks = known["tasks"] if known["models"] == models else {}
            if task in tasks:
                continue
            print(f"{task}: {row.name}, {', '.join(recipes_of([row]))}, seed {seed}", file=sys.stderr, flush=True)
            plain, similar = partial(joined, row, False), partial(joined, row, True)
            found = evaluate(plain, [task], options.senteval, similarity=similar)
            file = scores_file(options.out, row, seed)
            file.parent.mkdir(exist_ok=True)
            write_json(file, {"models": models, "tasks": tasks | found["tasks"]})


def table(out: Path, seeds: Sequence[int]) -> Iterator[str]:
    """Lines of Markdown: mean and standard deviation over the seeds, and a row's mean difference."""
    head = ["trained", "vectors", "minutes a run", "seeds", *TASKS]
    yield f"| {' | '.join(head)} |"
    yield "|---|---" + "|--:" * (len(head) - 2) + "|"
    ours = {row.name: row for row in VARIANTS[next(iter(VARIANTS))]}
    for variant, rows in VARIANTS.items():
        for row in rows:
            done = [seed for seed in seeds if scores_file(out, row, seed).exists()]
            figures = [cell(out, row, ours[row.beside], task, done) for task in TASKS]
            took = minutes([folder(out, recipe, seed) for seed in done for recipe in recipes_of([row])], len(done))
            yield f"| {' | '.join([variant, row.name, took, str(len(done)), *figures])} |"


def cell(out: Path, row: Row, ours: Row, task: str, seeds: Sequence[int]) -> str:
    """Such as ``66.1 ± 0.3 (-1.2)``."""
    found = {seed: value(out, row, task, seed) for seed in seeds}
    values = [each for each in found.values() if each is not None]
    if not values:
        return ""
    text = f"{statistics.mean(values):.1f}" + (f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "")
    pairs = [(each, value(out, ours, task, seed)) for seed, each in found.items()]
    differences = [own - other for own, other in pairs if own is not None and other is not None]
    return f"{text} ({statistics.mean(differences):+.1f})" if row != ours and differences else text


def value(out: Path, row: Row, task: str, seed: int) -> float | None:
    """A score in the papers' unit; None if there is none yet."""
    tasks, (name, unit) = scores_of(out, row, seed)["tasks"], TASKS[task]
    return unit * tasks[task]["scores"][name] if task in tasks else None


def minutes(runs: Sequence[Path], seeds: int) -> str:
    """Training time per seed, at the median rate of its steps."""
    seconds = 0.0
    for run in runs:
        lines = list(log(run, "train"))
        rate = statistics.median(line["sentences_per_second"] for line in lines)
        seconds += lines[-1]["step"] * load_config(run / CONFIG)[0].optimisation.batch_size / rate
    return f"{seconds / 60 / seeds:.1f}" if seeds else ""


if __name__ == "__main__":
    main()
