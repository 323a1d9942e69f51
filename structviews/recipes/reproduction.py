"""A row of a paper's table, to be made from a text: what it is made of, and where its parts lie."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from structviews.corpus.layout import MANIFEST
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError, unknown
from structviews.evaluation.senteval.protocols import PROTOCOLS
from structviews.evaluation.senteval.protocols.protocol import Protocol
from structviews.evaluation.senteval.suite import Scored, covered_tasks, read_tasks
from structviews.evaluation.senteval.tasks.finding import known_tasks, none_read, task_names
from structviews.evaluation.senteval.tasks.reading import Task, Tokens
from structviews.objectives import OBJECTIVES
from structviews.parsing.backends import BUNDLED
from structviews.parsing.sources import TREEBANK_SUFFIXES, ParseText, TextSource, output_name
from structviews.recipes.recipe import Recipe
from structviews.runs.config import TrainConfig
from structviews.runs.which_vectors import numbered
from structviews.runtime.documents import checksum
from structviews.runtime.files import creating
from structviews.views import VIEWS
from structviews.words import FIXED

MAX_TOKENS = 120  # longer sentences of a text are skipped, as parse does
DIGITS = 8  # of a digest in the name of what is made
# S table 2: the sentences whose neighbours in SICK's test set it prints, by how they begin in the measures' names.
QUERIES: dict[str, Tokens] = {
    "A black bird": ("A", "black", "bird", "is", "sitting", "on", "a", "dead", "tree"),
    "Rugby is": ("Rugby", "is", "being", "played", "by", "some", "men"),
    "A crowd": ("A", "crowd", "of", "people", "is", "near", "the", "water"),
}


class Material:
    """A corpus, and what is made of it below the folder ``out``; of a changed corpus, it has another name.

    Attributes:
        corpus: the given text or parsed corpus, which ``is_parsed``.
        text, parsed: the text that is parsed, and the parsed corpus that is trained on.
        parser: of the text.
        sentences: how many are used at most; None for all.
        word_file, word_dim: the vectors of the fixed channel, None if there are none, and their dimension or 0.
    """

    def __init__(
        self, corpus: Path, out: Path, parser: str, sentences: int | None, vectors: Path | None, word_dim: int
    ) -> None:
        if not corpus.exists():
            raise InputError(f"{corpus}: no such file or folder: give a text or a parsed corpus with --corpus")
        self.corpus, self.parser, self.sentences, self.word_dim = corpus, parser, sentences, word_dim
        self.is_parsed = corpus.is_dir()
        if not self.is_parsed and corpus.name.endswith(TREEBANK_SUFFIXES):
            raise InputError(
                f"{corpus}: a treebank file: run structviews parse --parser treebank, and give the parsed corpus"
            )
        if self.is_parsed:
            name, content = corpus.resolve().name, ParsedCorpus.open(corpus).fingerprint
            if parser != BUNDLED:
                raise InputError(f"--parser {parser}: {corpus} is parsed: leave it out, or give the text")
        else:
            name, content = output_name(str(corpus)), text_source(corpus, parser).files[0].sha256
        stem = f"{name.removesuffix('.parsed')}-{content[:DIGITS]}" + (f"-first-{sentences}" if sentences else "")
        self.text = out / f"{stem}.txt" if sentences else corpus
        by = "" if parser == BUNDLED else "-" + re.sub(r"[^a-z0-9]+", "-", parser.lower())
        self.parsed = corpus if self.is_parsed and not sentences else out / f"{stem}{by}.parsed"
        self.word_file = vectors or (out / f"{stem}{by}-{word_dim}.bin" if word_dim else None)

    @property
    def is_prepared(self) -> bool:
        """Whether there is all that runs are trained on."""
        return (self.parsed / MANIFEST).is_file() and (self.word_file is None or self.word_file.is_file())


@dataclass
class Reproduction:
    """A recipe with what it is run on. Recipes with the same folder ``out`` share what they have in common.

    The arguments are those of the command; ``corpora`` are by name of the recipes' corpora, "" for all others.

    Attributes:
        materials, recipes: what each run is made of, and its recipe, by its folder.
        folder, configs: that of the run that is evaluated; the settings of each run, by its folder.
        expanded: by folder, the file of vectors that a run's vocabulary is expanded from. Vectors that were learnt from
            the corpus have no words that the corpus lacks.
        queries: sentences of which the paper prints neighbours.
    """

    recipe: Recipe
    corpora: Mapping[str, Path]
    senteval: Path
    out: Path
    vectors: Path | None = None
    hidden: int | None = None
    epochs: int | None = None
    sentences: int | None = None
    chosen_tasks: tuple[str, ...] = ()
    parser: str = BUNDLED

    def __post_init__(self) -> None:
        recipe, runs = self.recipe, self.recipe.runs
        if self.vectors and not any(run.vectors for run, _ in runs.values()):
            raise InputError(f"--vectors {self.vectors}: {recipe.name} reads no word vectors: leave it out")
        if self.vectors and not self.vectors.is_file():
            raise InputError(f"{self.vectors}: no such file: give a file of word vectors with --vectors")
        if self.out.exists() and not self.out.is_dir():
            raise InputError(f"{self.out}: is a file: give a folder with --out")
        names = dict.fromkeys(run.corpus.name for run, _ in runs.values())
        if strange := [name for name in self.corpora if name and name not in names]:
            raise unknown("corpus", strange[0], names, "name a corpus of the recipe's runs, as in --corpus NAME=FILE")
        if lacking := [name for name in names if not {"", name} & self.corpora.keys()]:
            raise InputError(f"no corpus for {lacking[0]}: give one for all runs with --corpus FILE")
        fixed = (run.vectors for run, _ in runs.values() if run.vectors and FIXED in run.channels)
        word_dim = next((vectors.dim for vectors in fixed), 0)
        of_corpus: dict[Path, Material] = {}
        self.folder = self.out / "runs" / recipe.name
        self.scale = {n: value for n in ("hidden", "epochs") if (value := getattr(self, n)) is not None}
        self.materials: dict[Path, Material] = {}
        self.recipes: dict[Path, Recipe] = {}
        self.configs: dict[Path, TrainConfig] = {}
        self.expanded: dict[Path, Path] = {}
        for name, (run, seed) in runs.items():
            folder = self.out / "runs" / name
            self.recipes[folder] = run
            corpus = self.corpora.get(run.corpus.name) or self.corpora[""]
            if corpus not in of_corpus:
                of_corpus[corpus] = Material(corpus, self.out, self.parser, self.sentences, self.vectors, word_dim)
            material = self.materials[folder] = of_corpus[corpus]
            words = {"vectors": str(material.word_file)} if FIXED in run.channels else {}
            own: dict[str, Any] = {"corpus": str(material.parsed), "out": str(folder), "seed": seed, **words}
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
        by_part = recipe.evaluation.transductive == "part"
        self.scored = Scored(changes=recipe.representation, flags=f" --recipe {recipe.name}", by_part=by_part)
        scores_sick = "SICK-R" in (task.name for task in self.tasks[0])  # whatever is wrong with tasks is told now
        asked = [name for name in QUERIES if f"neighbour 1 of '{name}'" in recipe.figures]
        self.queries = [QUERIES[name] for name in asked if scores_sick]

    def make_folder(self) -> None:
        """Create the folder for all that is made, unless it is there."""
        with creating(self.out):
            self.out.mkdir(exist_ok=True)

    @property
    def distinct(self) -> list[Material]:
        """What the runs are made of, each once."""
        return list(dict.fromkeys(self.materials.values()))

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
        """The distinct sentences of all tasks, and the queries."""
        of_tasks = (sentence for task in self.tasks[0] for sentence in task.sentences())
        return list(dict.fromkeys((*of_tasks, *self.queries)))

    @cached_property
    def trees(self) -> Path:
        """The sentences of the tasks, parsed as the corpus is; of other tasks, or by another parser, elsewhere."""
        parser = ParsedCorpus.open(self.distinct[0].parsed).parser
        content = checksum({"sentences": self.task_sentences, "parser": parser})
        return self.out / f"tasks-{content[:DIGITS]}.parsed"


def text_source(text: Path, parser: str, lines: bool = False) -> TextSource:
    """A text for a parser; its layout is guessed unless it has a sentence on each line."""
    return TextSource(str(text), ParseText(parser, max_tokens=MAX_TOKENS), "lines" if lines else None)
