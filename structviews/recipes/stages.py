"""The stages from a text to the scores of a row; each keeps its result, and goes on where it was stopped."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from structviews.corpus.format import MANIFEST, MODELS
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding.expansion import Expansion, expand
from structviews.encoding.sentence_vectors import write_sentences
from structviews.evaluation.scores.results import load_results
from structviews.evaluation.senteval.scoring import place_of, score_with_bar
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks.reading import Task
from structviews.parsing.backends import TREEBANK
from structviews.parsing.parser import Options
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import MOST_TOKENS, open_source
from structviews.recipes.beginning import write_first_lines, write_first_rows
from structviews.recipes.joining import is_joined, join_members
from structviews.recipes.rates import Rates
from structviews.recipes.reproduction import Reproduction, text_source
from structviews.runs.config import TrainConfig
from structviews.runs.folder import model_checksum, weight_files
from structviews.runtime.files import writing
from structviews.runtime.terminal import rate_bar
from structviews.training.loop import train
from structviews.training.resuming import is_finished
from structviews.words.learning import learn_file
from structviews.words.learning_settings import Word2VecConfig
from structviews.words.vector_files import WordVectors


@dataclass(frozen=True)
class Stage(ABC):
    """A stage of a reproduction."""

    job: Reproduction

    @property
    @abstractmethod
    def title(self) -> str:
        """What it does, for people."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether its result is there."""

    @abstractmethod
    def run(self, console: Console) -> None:
        """Do it, or what is left of it."""

    def seconds(self, rates: Rates) -> float:
        """What it takes as a whole, by rates measured before."""
        return 0.0


class TakeBeginning(Stage):
    """Takes the first sentences of the corpus."""

    @property
    def title(self) -> str:
        return f"taking the first {self.job.sentences:,} sentences of {self.job.corpus}"

    @property
    def finished(self) -> bool:
        return (self.job.parsed / MANIFEST).is_file() if self.job.is_parsed else self.job.text.is_file()

    def run(self, console: Console) -> None:
        n = self.job.sentences or 0
        if self.job.is_parsed:
            write_first_rows(ParsedCorpus.open(self.job.corpus), n, self.job.parsed)
        else:
            self.job.make_folder()
            write_first_lines(text_source(self.job.corpus), n, self.job.text)


class Parse(Stage):
    """Parses the text with the built-in parser."""

    @property
    def title(self) -> str:
        return f"parsing {self.job.text}"

    @property
    def finished(self) -> bool:
        return (self.job.parsed / MANIFEST).is_file()

    def run(self, console: Console) -> None:
        parse_corpus(text_source(self.job.text, lines=bool(self.job.sentences)), self.job.parsed, console=console)

    def seconds(self, rates: Rates) -> float:
        return rates.sentences * rates.parsing


@dataclass(frozen=True)
class LearnVectors(Stage):
    """Learns word vectors from the corpus, and keeps them in a file."""

    file: Path

    @property
    def title(self) -> str:
        return f"learning word vectors from {self.job.parsed}"

    @property
    def finished(self) -> bool:
        return self.file.is_file()

    @property
    def settings(self) -> Word2VecConfig:
        """How they are learnt."""
        return Word2VecConfig(dim=self.job.word_dim)

    def run(self, console: Console) -> None:
        with writing(self.file), rate_bar(console, "learning", "sentences") as progress:
            learn_file(self.file, ParsedCorpus.open(self.job.parsed), self.settings, progress)

    def seconds(self, rates: Rates) -> float:
        return self.settings.epochs * rates.sentences * rates.learning


class ParseTasks(Stage):
    """Parses the sentences of the tasks, with the parser of the corpus."""

    @property
    def title(self) -> str:
        return "parsing the sentences of the tasks"

    @property
    def finished(self) -> bool:
        return self.job.is_prepared and (self.job.trees / MANIFEST).is_file()

    def run(self, console: Console) -> None:
        corpus = ParsedCorpus.open(self.job.parsed)
        name, models = corpus.parser["name"], corpus.manifest.get(MODELS)
        options = Options(corpus.parser.get("language", "en"), Path(models) if models else None)
        text = self.job.trees.with_suffix(".txt")
        self.job.make_folder()
        write_sentences(text, self.job.task_sentences)
        source = open_source(
            [str(text)],
            parser="builtin" if name == TREEBANK else name,
            layout="lines",
            tokenised=True,
            max_tokens=MOST_TOKENS,
            options=options,
        )
        parse_corpus(source, self.job.trees, console=console)

    def seconds(self, rates: Rates) -> float:
        return len(self.job.task_sentences) * rates.parsing


@dataclass(frozen=True)
class Train(Stage):
    """Trains a run."""

    config: TrainConfig

    @property
    def title(self) -> str:
        return f"training {self.config.data.out}"

    @property
    def finished(self) -> bool:
        return self.job.is_prepared and is_finished(self.config)

    def run(self, console: Console) -> None:
        train(self.config, console)

    def seconds(self, rates: Rates) -> float:
        return rates.passes(self.config) * rates.training[Path(self.config.data.out).name].seconds


@dataclass(frozen=True)
class Expand(Stage):
    """Expands the vocabulary of a run from a file of word vectors."""

    folder: Path
    file: Path

    @property
    def title(self) -> str:
        return f"expanding the vocabulary of {self.folder}"

    @property
    def finished(self) -> bool:
        expansion = Expansion.load(self.folder)
        return bool(expansion and expansion.fingerprint == WordVectors.open(self.file).fingerprint)

    def run(self, console: Console) -> None:
        expand(self.folder, self.file)


class JoinRuns(Stage):
    """Joins the members."""

    @property
    def title(self) -> str:
        return f"joining {self.job.folder}"

    @property
    def finished(self) -> bool:
        return is_joined(self.job.recipe, self.job.folder)

    def run(self, console: Console) -> None:
        join_members(self.job.recipe, self.job.folder)


class Evaluate(Stage):
    """Scores the run on the tasks that have no score yet."""

    @property
    def title(self) -> str:
        return f"scoring {self.job.folder}"

    @property
    def finished(self) -> bool:
        return not self.left

    @property
    def left(self) -> list[Task]:
        """The tasks that have no score of this very model, on these very files."""
        there: dict[str, Any] = self.results["tasks"] if self.results else {}
        return [task for task in self.job.tasks[0] if there.get(task.name, {}).get("data") != task.checksums]

    @property
    def results(self) -> dict[str, Any] | None:
        """The scores that there are."""
        # Training that was killed early leaves a folder without weights.
        if not weight_files(self.job.folder):
            return None
        description, file = place_of(self.job.folder, self.job.scored, self.job.protocol, self.ensemble)
        found = load_results(self.job.folder, file)
        own = {"model": model_checksum(self.job.folder), "protocol": self.job.protocol.describe(), **description}
        return found if found and all(found.get(key) == value for key, value in own.items()) else None

    @property
    def ensemble(self) -> bool:
        """Whether the predictions of members are averaged."""
        return self.job.recipe.evaluation.ensemble

    def run(self, console: Console) -> None:
        trees = TaskTrees(self.job.trees) if self.job.reads_trees else None
        how = {"scored": self.job.scored, "protocol": self.job.protocol, "ensemble": self.ensemble, "trees": trees}
        score_with_bar(self.job.folder, self.left, self.job.tasks[1], console, **how)

    def seconds(self, rates: Rates) -> float:
        # Encoding is part of a training step; the classifiers are not counted.
        return len(self.job.task_sentences) * sum(rate.seconds for rate in rates.training.values())


def stages_of(job: Reproduction) -> Iterator[Stage]:
    """The stages that a reproduction takes."""
    if job.sentences:
        yield TakeBeginning(job)
    if not job.is_parsed:
        yield Parse(job)
    if job.word_file and not job.vectors:
        yield LearnVectors(job, job.word_file)
    if job.reads_trees:
        yield ParseTasks(job)
    for folder, config in job.configs.items():
        yield Train(job, config)
        if file := job.expanded.get(folder):
            yield Expand(job, folder, file)
    if job.recipe.members:
        yield JoinRuns(job)
    yield Evaluate(job)
