"""A row of a paper's table, to be made from a text: what it is made of, and where its parts lie."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from structviews.corpus.format import MANIFEST
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError, unknown
from structviews.evaluation.senteval.protocols import PROTOCOLS
from structviews.evaluation.senteval.protocols.protocol import Protocol
from structviews.evaluation.senteval.scoring import Scored
from structviews.evaluation.senteval.suite import covered_tasks, read_tasks
from structviews.evaluation.senteval.tasks.finding import known_tasks, none_read, task_names
from structviews.evaluation.senteval.tasks.reading import Task, Tokens
from structviews.objectives import OBJECTIVES
from structviews.parsing.sources import TREEBANK_SUFFIXES, TextSource, output_name
from structviews.parsing.text import Layout
from structviews.recipes.recipe import Recipe
from structviews.runs.config import TrainConfig
from structviews.runs.which_vectors import numbered
from structviews.runtime.documents import checksum
from structviews.runtime.files import creating
from structviews.views import VIEWS
from structviews.words import FIXED

# Longer sentences of a text are skipped, as parse does.
MAX_TOKENS = 120
# Of a digest in the name of what is made.
DIGITS = 8


@dataclass
class Reproduction:
    """A recipe with what it is run on. Recipes with the same folder ``out`` share what they have in common.

    The arguments are those of the command. What is made from another corpus, or a changed one, has another name.

    Attributes:
        text, parsed: the text that is parsed, and the parsed corpus that is trained on.
        word_file, word_dim: the vectors of the fixed channel, None if there are none, and their dimension or 0.
        folder, configs: that of the run that is evaluated; the settings of each run, by its folder.
        expanded: by folder, the file of vectors that a run's vocabulary is expanded from. Vectors that were learnt from
            the corpus have no words that the corpus lacks.
    """

    recipe: Recipe
    corpus: Path
    senteval: Path
    out: Path
    vectors: Path | None = None
    hidden: int | None = None
    epochs: int | None = None
    sentences: int | None = None
    chosen_tasks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        recipe = self.recipe
        if not self.corpus.exists():
            raise InputError(f"{self.corpus}: no such file or folder: give a text or a parsed corpus with --corpus")
        self.is_parsed = self.corpus.is_dir()
        if not self.is_parsed and self.corpus.name.endswith(TREEBANK_SUFFIXES):
            raise InputError(
                f"{self.corpus}: a treebank file: run structviews parse --parser treebank, and give the parsed corpus"
            )
        if self.vectors and not recipe.reads_vectors:
            raise InputError(f"--vectors {self.vectors}: {recipe.name} reads no word vectors: leave it out")
        if self.vectors and not self.vectors.is_file():
            raise InputError(f"{self.vectors}: no such file: give a file of word vectors with --vectors")
        if self.out.exists() and not self.out.is_dir():
            raise InputError(f"{self.out}: is a file: give a folder with --out")
        if self.is_parsed:
            name, content = self.corpus.resolve().name, ParsedCorpus.open(self.corpus).fingerprint
        else:
            name, content = output_name(str(self.corpus)), text_source(self.corpus).file.survey.sha256
        beginning = f"-first-{self.sentences}" if self.sentences else ""
        stem = f"{name.removesuffix('.parsed')}-{content[:DIGITS]}{beginning}"
        self.text = self.out / f"{stem}.txt" if self.sentences else self.corpus
        self.parsed = self.corpus if self.is_parsed and not self.sentences else self.out / f"{stem}.parsed"
        fixed = (run.vectors for run, _ in recipe.runs.values() if run.vectors and FIXED in run.channels)
        self.word_dim = next((vectors.dim for vectors in fixed), 0)
        self.word_file = self.vectors or (self.out / f"{stem}-{self.word_dim}.bin" if self.word_dim else None)
        self.folder = self.out / "runs" / recipe.name
        self.scale = {n: value for n in ("hidden", "epochs") if (value := getattr(self, n)) is not None}
        self.configs: dict[Path, TrainConfig] = {}
        self.expanded: dict[Path, Path] = {}
        for name, (run, seed) in recipe.runs.items():
            folder = self.out / "runs" / name
            words = {"vectors": str(self.word_file)} if FIXED in run.channels else {}
            own: dict[str, Any] = {"corpus": str(self.parsed), "out": str(folder), "seed": seed, **words}
            self.configs[folder] = run.config(**self.scale | own)
            if self.vectors and run.vectors and run.vectors.expand:
                self.expanded[folder] = self.vectors
        views = [view for config in self.configs.values() for view in config.views.names]
        self.reads_trees = any(VIEWS[view].needs != "tokens" for view in views)
        for member in recipe.members:
            config = self.configs[self.out / "runs" / member.folder]
            of_run = numbered((*config.views.names, *OBJECTIVES[config.objective.name].extra_names))
            if member.view and member.view not in of_run:
                raise InputError(f"recipe {recipe.name}: {unknown(f'view of {member.recipe}', member.view, of_run)}")
        self.protocol: Protocol = PROTOCOLS[recipe.evaluation.protocol]
        self.scored = Scored(changes=recipe.representation, flags=f" --recipe {recipe.name}")
        _ = self.tasks  # whatever is wrong with them is told before anything is made

    def make_folder(self) -> None:
        """Create the folder for all that is made, unless it is there."""
        with creating(self.out):
            self.out.mkdir(exist_ok=True)

    @property
    def is_prepared(self) -> bool:
        """Whether there is all that runs are trained on."""
        return (self.parsed / MANIFEST).is_file() and (self.word_file is None or self.word_file.is_file())

    @cached_property
    def tasks(self) -> tuple[list[Task], dict[str, str]]:
        """The tasks that are scored, also incomplete ones; and for each other one that is wanted the reason why not."""
        wanted = self.chosen_tasks or self.recipe.evaluation.tasks or tuple(task_names())
        if strange := [name for name in wanted if name.lower() not in map(str.lower, task_names())]:
            raise unknown("task", strange[0], task_names())
        names = list(dict.fromkeys(known_tasks(wanted, self.senteval)))
        found, unavailable = read_tasks(names, self.senteval, allow_partial=True)
        if not found:
            raise none_read(self.senteval, unavailable)
        return covered_tasks(found, unavailable, self.protocol)

    @cached_property
    def task_sentences(self) -> list[Tokens]:
        """The distinct sentences of all tasks."""
        return list(dict.fromkeys(sentence for task in self.tasks[0] for sentence in task.sentences()))

    @cached_property
    def trees(self) -> Path:
        """The sentences of the tasks, parsed as the corpus is; of other tasks, or by another parser, elsewhere."""
        content = checksum({"sentences": self.task_sentences, "parser": ParsedCorpus.open(self.parsed).parser})
        return self.out / f"tasks-{content[:DIGITS]}.parsed"


def text_source(text: Path, lines: bool = False) -> TextSource:
    """A text for the built-in parser; its layout is guessed unless it has a sentence on each line."""
    layout: Layout | None = "lines" if lines else None
    return TextSource(str(text), parser="builtin", layout=layout, tokenised=False, max_tokens=MAX_TOKENS)
