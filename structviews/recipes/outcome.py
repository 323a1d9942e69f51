"""The row that was made beside the published one, and what differs: for the terminal, as Markdown and as JSON."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding.embedder import Embedder
from structviews.evaluation.retrieval.neighbours import nearest
from structviews.evaluation.scores.published import MEANS
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks.downstream import SMT
from structviews.evaluation.senteval.tasks.reading import Tokens
from structviews.recipes.reproduction import QUERIES, Reproduction
from structviews.runs.folder import read_log
from structviews.runtime.documents import write_json
from structviews.runtime.files import write_whole
from structviews.runtime.terminal import Table, number_table
from structviews.runtime.wording import counted
from structviews.words import FIXED
from structviews.words.vector_files import WordVectors

LEGEND = (
    "accuracy, F1 and recall (R@) in per cent; correlations, mean squared errors (mse), analogies and distances of "
    "neighbours times 100; *: with incomplete task files, so not to be compared"
)
NONE = "-"
DIM = "dim"
HEADER = ("measure", "ours", "published", "difference")
PERCENT = ("accuracy", "f1")
MAIN = ("mean", "accuracy", "pearson")  # the score of a task that goes into a mean of several tasks


@dataclass(frozen=True)
class Line:
    """One measure, with scores as papers print them; ``partial`` if ours is of incomplete task files."""

    measure: str
    ours: float | None
    published: float | None
    partial: bool = False

    @property
    def difference(self) -> float | None:
        """Ours less the published one; none of dimensions, which are no score."""
        if self.ours is None or self.published is None or self.measure == DIM:
            return None
        return self.ours - self.published

    @property
    def texts(self) -> tuple[str, str, str, str]:
        """The cells of a table."""
        decimals = 0 if self.measure == DIM else 1
        ours, published = (NONE if x is None else f"{x:.{decimals}f}" for x in (self.ours, self.published))
        difference = NONE if self.difference is None else f"{self.difference:+.{decimals}f}"
        return self.measure, ours + "*" * self.partial, published, difference


@dataclass(frozen=True)
class Outcome:
    """What a reproduction ends with: the row's place in its paper, a line for each measure, in what our row differs
    from the paper's, and what the paper leaves open and the recipe chose.
    """

    recipe: str
    row: str
    lines: list[Line]
    differences: list[str]
    open: str

    @classmethod
    def of(cls, job: Reproduction, results: Mapping[str, Any]) -> "Outcome":
        """The outcome of a reproduction whose run has these results."""
        recipe = job.recipe
        stated = (line for each in (recipe, *job.recipes.values()) for line in each.differs)
        differences = list(dict.fromkeys([*_of_data(job), *_of_choices(job, results), *stated]))
        row = f"{recipe.credit}, {recipe.source.place}"
        return cls(recipe.name, row, list(_lines(job, results)), differences, recipe.source.open)

    def table(self) -> Table:
        """As a table for the terminal."""
        table = number_table(HEADER[:1], HEADER[1:])
        for line in self.lines:
            table.add_row(*line.texts)
        return table

    def save(self, folder: Path) -> None:
        """Write ``NAME.json``, and ``NAME.md``, a page."""
        lines = [asdict(line) | {"difference": line.difference} for line in self.lines]
        write_json(folder / f"{self.recipe}.json", asdict(self) | {"lines": lines}, sealed=False)
        rows = [HEADER, ("---", "---:", "---:", "---:"), *(line.texts for line in self.lines)]
        page = [f"# {self.recipe}", self.row, "\n".join(f"| {' | '.join(row)} |" for row in rows), LEGEND]
        page += ["## What differs from the paper", "\n".join(f"- {line}" for line in self.differences)]
        page += ["## What the paper leaves open", self.open] if self.open else []
        write_whole(folder / f"{self.recipe}.md", ("\n\n".join(page) + "\n").encode())


def _lines(job: Reproduction, results: Mapping[str, Any]) -> Iterator[Line]:
    """The published measures with ours beside them, then those of ours that the paper has not."""
    figures = {name: float(each.text if name == DIM else each.score) for name, each in job.recipe.figures.items()}
    sets = results["tasks"].get("STS13", {}).get("sets", {})
    own = [figures.get(f"STS13/{name}") for name in sets]
    if "STS13 mean" in figures and SMT not in sets and own and all(own):  # the printed mean has that set
        figures["STS13 mean"] = mean(each for each in own if each)
    ours: dict[str, float] = {}
    partial: set[str] = set()
    for task in job.tasks[0]:
        if task.name in results["tasks"]:
            found = measures(task.name, results["tasks"][task.name])
            # What the paper has not is shown without its parts and its other means.
            shown = {name for name in found if name in figures or not ("/" in name or "weighted" in name)}
            ours |= {name: found[name] for name in found if name in shown}
            partial |= shown if task.partial else set()
    of_run = {"hours": hours(job), **(distances(job) if job.queries else {})}
    ours |= {name: value for name, value in of_run.items() if name in job.recipe.figures}
    partial |= {name for name in ours if name.startswith("neighbour") and "SICK-R pearson" in partial}
    dims = {entry["dim"] for entry in results["tasks"].values() if "dim" in entry}
    ours |= {DIM: max(dims)} if dims else {}
    means = _means(figures, ours)
    ours |= {name: mean(ours[measure] for measure in own) for name, own in means.items()}
    partial |= {name for name, own in means.items() if partial.intersection(own)}
    for average in MEANS:
        for scores in (figures, ours):
            if (value := average.of(scores)) is not None:
                scores.setdefault(average.name, value)
        if average.name in ours and any(task.partial for task in job.tasks[0] if task.name in average.parts):
            partial.add(average.name)
    for name in dict.fromkeys([DIM, *figures, *ours]):
        yield Line(name, ours.get(name), figures.get(name), name in partial)


def _means(published: Iterable[str], ours: Mapping[str, float]) -> dict[str, list[str]]:
    """The published measures that are means of several tasks, such as ``MR, CR mean``, each with ours to average."""
    found = {}
    for name in published:
        tasks = name.removesuffix(" mean").split(", ")
        own = [next((f"{task} {kind}" for kind in MAIN if f"{task} {kind}" in ours), "") for task in tasks]
        if len(tasks) > 1 and all(own):
            found[name] = own
    return found


def measures(task: str, entry: Mapping[str, Any]) -> dict[str, float]:
    """The scores of a task's entry in the results, named and scaled as ``published.toml`` has them."""
    scores = entry["scores"]
    if "pearson mean" not in scores:
        return {f"{task} {name}": value if name in PERCENT else 100 * value for name, value in scores.items()}
    if len(entry["sets"]) == 1:
        return {f"{task} pearson": 100 * scores["pearson mean"]}
    found = {f"{task} {name}": 100 * scores[f"pearson {name}"] for name in ("mean", "weighted mean")}
    return found | {f"{task}/{name}": 100 * each["pearson"] for name, each in entry["sets"].items()}


def hours(job: Reproduction) -> float:
    """Hours that the runs' steps took, by their logs: on one machine, one after another."""
    seconds = 0.0
    for folder, config in job.configs.items():
        optimisation, last = config.optimisation, 0
        for line in read_log(folder):
            if line["kind"] == "train":
                sentences = (line["step"] - last) * optimisation.batch_size * optimisation.accumulate
                seconds += sentences / line["sentences_per_second"]
                last = line["step"]
    return seconds / 3600


def distances(job: Reproduction) -> dict[str, float]:
    """Cosine distances x 100 of the nearest two sentences of SICK's test set to the queries of S table 2."""
    sick = next(task for task in job.tasks[0] if task.name == "SICK-R").splits["test"]
    sentences: list[Tokens] = list(dict.fromkeys((*job.queries, *sick.first, *sick.second)))
    embedder = Embedder.load(job.folder)
    trees = TaskTrees(job.trees).find(sentences, "SICK-R") if job.reads_trees else sentences
    vectors = embedder.encode(trees)
    rows = np.array([sentences.index(query) for query in job.queries])
    cosines = nearest(vectors[rows], vectors, 2, itself=rows).scores.tolist()
    return {
        f"neighbour {number} of '{start}'": 100 * (1 - cosine)
        for start, row in zip(QUERIES, cosines, strict=True)
        for number, cosine in enumerate(row, 1)
    }


def _of_data(job: Reproduction) -> Iterator[str]:
    papers = {run.corpus.name: (run.corpus, job.materials[folder]) for folder, run in job.recipes.items()}
    for paper, material in papers.values():
        corpus = ParsedCorpus.open(material.parsed)
        stated = f"{paper.name} ({counted(paper.sentences, 'sentence')})" if paper.sentences else paper.name
        yield f"corpus: {material.corpus.name} ({counted(len(corpus), 'sentence')}), not {stated}"
    if job.sentences:
        yield f"sentences: at most {job.sentences:,}, whole documents from the beginning (--sentences)"
    if job.reads_trees:
        yield f"trees: by the parser {corpus.parser['name']}, not {job.recipe.corpus.parsers}"
    reads = [run.vectors for run in job.recipes.values() if run.vectors]
    names = " and ".join(dict.fromkeys(vectors.name for vectors in reads))
    others = " and ".join(dict.fromkeys(vectors.expand_from or vectors.name for vectors in reads if vectors.expand))
    if job.vectors:
        file = WordVectors.open(job.vectors)
        yield f"word vectors: {job.vectors.name} ({counted(len(file), 'word')}, {file.dim} dimensions), for {names}"
    elif material.word_file:
        yield f"word vectors: learnt from the corpus, {material.word_dim} dimensions, not {names} (--vectors)"
    if not job.vectors and others:
        yield f"vocabulary: not expanded to the words of {others} (--vectors)"
    elif others not in ("", names):
        yield f"vocabulary: expanded from the same file, not from {others}"
    if any(task.name == "STS13" and SMT not in task.splits for task in job.tasks[0]):
        yield "STS13: without the SMT set (STS.input.SMT.txt), nor has the published mean, where its sets are printed"


def _of_choices(job: Reproduction, results: Mapping[str, Any]) -> Iterator[str]:
    for name, value in job.scale.items():
        for folder, config in job.configs.items():
            words = {"vectors": "x"} if FIXED in config.words.channels else {}
            own = job.recipes[folder].config(corpus="", **words).flat()[name]
            if own != value:
                yield f"{name} = {value}, not {own} (--{name})"
    wanted = job.recipe.evaluation.tasks
    found, unavailable = job.tasks
    if left_out := [task for task in wanted if job.chosen_tasks and task not in {each.name for each in found}]:
        yield f"tasks: without {', '.join(left_out)} (--tasks)"
    for task in found:
        for file, counts in task.partial.items():
            yield f"{task.name}: incomplete: {file} has {counts}"
    for name, reason in {**unavailable, **results["unavailable"]}.items():
        yield f"{name}: not scored: {reason}"
