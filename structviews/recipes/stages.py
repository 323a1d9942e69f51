"""Making a row of a paper's table from a text, in stages that each skip what is done.

A stage says what it is about to do, does it, and keeps the result, so that a call that is stopped goes on there.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from structviews.corpus.layout import MANIFEST, MODELS
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.writer import write_subset
from structviews.encoding.expansion import RunVectors, expand
from structviews.encoding.kinds.joined import Member, holds_joined, join_runs
from structviews.encoding.sentence_vectors import write_sentences
from structviews.errors import InputError
from structviews.evaluation.scores.results import load_results
from structviews.evaluation.senteval.suite import score_with_bar, scored_vectors
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.parsing.backends import for_text
from structviews.parsing.parser import Options
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import MOST_TOKENS, TextSource, open_source
from structviews.parsing.text import RawSentence
from structviews.recipes.outcome import Outcome
from structviews.recipes.recipe import Recipe
from structviews.recipes.reproduction import Material, Reproduction, text_source
from structviews.runs.config import TrainConfig
from structviews.runs.folder import model_checksum, weight_files
from structviews.runtime.files import clear_below, new_folder, write_whole, writing
from structviews.runtime.terminal import Bar, say
from structviews.training.checkpoint import check_same
from structviews.training.data import Inputs
from structviews.training.loop import train
from structviews.words.learning import learn_file, require_gensim
from structviews.words.vector_files import WordVectors
from structviews.words.word_settings import Word2VecConfig

Stage = Iterator[str]  # what a stage is about to do; the stage does it when it is asked for the next


def reproduce(job: Reproduction, console: Console) -> Outcome:
    """Make the row, continuing where an earlier call with the same folder was stopped, and save the outcome.

    Raises InputError if the folder has another run of the same name, before anything is made, or if a stage cannot be
    done, where what is finished is kept; Interrupted on SIGINT or SIGTERM in training, once its state is saved.
    """
    check(job, console)
    clear_below(job.out)
    for stage in stages_of(job, console):
        for title in stage:
            say(console, title)
    results = stored_results(job)
    if results is None:
        raise InputError(f"{job.folder}: has no scores of this model: it has changed meanwhile; run the command again")
    outcome = Outcome.of(job, results)
    outcome.save(job.out)
    return outcome


def plan(job: Reproduction, console: Console) -> list[str]:
    """What is left to do, a line for each stage; nothing is written."""
    check(job, console)
    return [title for stage in stages_of(job, console) for title in islice(stage, 1)] or ["nothing left to do"]


def check(job: Reproduction, console: Console) -> None:
    """Read all word vectors, so that bad ones show, and compare the runs that there are with those to make."""
    if job.vectors:
        with Bar(console, f"reading {job.vectors}", "MB", 10**6) as progress:
            WordVectors.open(job.vectors, progress)
    if any(each.word_file and not each.word_file.is_file() for each in job.distinct):
        require_gensim(", or give --vectors FILE")
    to_expand = False
    for folder, config in job.configs.items():
        if job.materials[folder].is_prepared:
            check_same(config, Inputs(config).parsed)
        else:
            check_same(config)
        expansion, file = RunVectors.of_expansion(folder), job.expanded.get(folder)
        # One without maps only says where the fixed vectors are.
        if expansion and expansion.maps and not is_expanded(folder, file):
            raise InputError(
                f"{folder}: expanded from the vectors of {expansion.path}: give them with --vectors, or another "
                "folder with --out"
            )
        to_expand |= bool(file) and not is_expanded(folder, file)
    if job.recipe.members:
        is_joined(job.recipe, job.folder, to_expand)


def stages_of(job: Reproduction, console: Console) -> Iterator[Stage]:
    """The stages of a reproduction, in order."""
    for material in job.distinct:
        yield take_beginning(job, material)
        yield parse(material, console)
        yield learn_vectors(material, console)
    yield parse_tasks(job, console)
    for folder, config in job.configs.items():
        yield train_run(job, config, console)
        yield expand_vocabulary(job, folder)
    yield join(job)
    yield score(job, console)


def take_beginning(job: Reproduction, material: Material) -> Stage:
    """Take the first documents of a corpus, if not all of it is used."""
    target = material.parsed / MANIFEST if material.is_parsed else material.text
    if not material.sentences or target.is_file():
        return
    yield f"taking the first {material.sentences:,} sentences of {material.corpus}"
    if material.is_parsed:
        write_first_rows(ParsedCorpus.open(material.corpus), material.sentences, material.parsed)
    else:
        job.make_folder()
        write_first_lines(text_source(material.corpus, material.parser), material.sentences, material.text)


def parse(material: Material, console: Console) -> Stage:
    """Parse the text."""
    if not material.is_parsed and not (material.parsed / MANIFEST).is_file():
        yield f"parsing {material.text}"
        source = text_source(material.text, material.parser, lines=bool(material.sentences))
        parse_corpus(source, material.parsed, console=console)


def learn_vectors(material: Material, console: Console) -> Stage:
    """Learn word vectors from the corpus, if the recipe reads some and none were given."""
    file = material.word_file
    if file and not file.is_file():
        yield f"learning word vectors from {material.parsed}"
        with writing(file), Bar(console, "learning", "sentences") as progress:
            learn_file(file, ParsedCorpus.open(material.parsed), Word2VecConfig(dim=material.word_dim), progress)


def parse_tasks(job: Reproduction, console: Console) -> Stage:
    """Parse the sentences of the tasks with the parser of the corpus, if a view reads trees."""
    is_prepared = all(material.is_prepared for material in job.distinct)
    if not job.reads_trees or (is_prepared and (job.trees / MANIFEST).is_file()):
        return
    yield "parsing the sentences of the tasks"
    corpus = ParsedCorpus.open(job.distinct[0].parsed)
    name, models = corpus.parser["name"], corpus.manifest.get(MODELS)
    text = job.trees.with_suffix(".txt")
    job.make_folder()
    write_sentences(text, job.task_sentences)
    options = Options(corpus.parser.get("language", "en"), Path(models) if models else None)
    how: dict[str, Any] = {"layout": "lines", "tokenised": True, "max_tokens": MOST_TOKENS, "options": options}
    source = open_source([str(text)], parser=for_text(name), **how)
    parse_corpus(source, job.trees, console=console)


def train_run(job: Reproduction, config: TrainConfig, console: Console) -> Stage:
    """Train one of the runs."""
    is_prepared = job.materials[Path(config.data.out)].is_prepared
    progress = check_same(config, Inputs(config).parsed) if is_prepared else None
    if not (progress and progress.finished):
        yield f"training {config.data.out}"
        train(config, console)


def expand_vocabulary(job: Reproduction, folder: Path) -> Stage:
    """Expand the vocabulary of a run, if its recipe does and word vectors were given."""
    file = job.expanded.get(folder)
    if file and not is_expanded(folder, file):
        yield f"expanding the vocabulary of {folder}"
        expand(folder, file)


def join(job: Reproduction) -> Stage:
    """Join the runs of a recipe of several."""
    if job.recipe.members and not is_joined(job.recipe, job.folder):
        yield f"joining {job.folder}"
        join_members(job.recipe, job.folder)


def score(job: Reproduction, console: Console) -> Stage:
    """Score the run on the tasks that have no score of this very model, on these very files."""
    stored = stored_results(job)
    scored: dict[str, Any] = stored["tasks"] if stored else {}
    left = [task for task in job.tasks[0] if scored.get(task.name, {}).get("data") != task.checksums]
    if left:
        yield f"scoring {job.folder}"
        trees = TaskTrees(job.trees) if job.reads_trees else None
        how = {"scored": job.scored, "protocol": job.protocol, "ensemble": job.recipe.evaluation.ensemble}
        score_with_bar(job.folder, left, job.tasks[1], console, trees=trees, **how)


def stored_results(job: Reproduction) -> dict[str, Any] | None:
    """The scores of the run as it is now; None if there are none."""
    # Training that was killed early leaves a folder without weights.
    if not weight_files(job.folder):
        return None
    _, description, file = scored_vectors(job.folder, job.scored, job.protocol, job.recipe.evaluation.ensemble)
    found = load_results(job.folder, file)
    own = {"model": model_checksum(job.folder), "protocol": job.protocol.describe(), **description}
    return found if found and all(found.get(key) == value for key, value in own.items()) else None


def is_expanded(folder: Path, file: Path | None) -> bool:
    """Whether the vocabulary of a run is expanded from this file."""
    expansion = RunVectors.of_expansion(folder)
    return bool(file and expansion and expansion.fingerprint == WordVectors.open(file).fingerprint)


def join_members(recipe: Recipe, out: Path) -> Path:
    """The joined run of a recipe, whose members lie beside it; created unless it exists, see ``is_joined``."""
    if not is_joined(recipe, out):
        join_runs(_members(recipe, out), out, recipe.join, recipe.similarity_join)
    return out


def is_joined(recipe: Recipe, out: Path, changing: bool = False) -> bool:
    """Whether a folder holds the joined run of a recipe.

    Raises InputError if it holds another join, or an older one, which any is if the members are ``changing``.
    """
    joined = holds_joined(out, _members(recipe, out)) and not changing
    if weight_files(out) and not joined:
        raise InputError(
            f"{out}: a join of other members, or of earlier versions: delete it, or give another folder with --out"
        )
    return joined


def _members(recipe: Recipe, out: Path) -> list[Member]:
    return [Member(out.parent / each.folder, each.view) for each in recipe.members]


def first_documents(sentences: Iterable[RawSentence], n: int) -> Iterator[list[RawSentence]]:
    """The first documents that have at most ``n`` sentences together; of a longer first one, its first ``n``."""
    left = n
    for _, document in groupby(sentences, attrgetter("document")):
        beginning = list(islice(document, left + 1))
        if len(beginning) <= left:
            yield beginning
        elif left == n:
            yield beginning[:n]
        if len(beginning) >= left:
            return
        left -= len(beginning)


def write_first_lines(source: TextSource, n: int, out: Path) -> None:
    """Write the beginning of a text, see ``first_documents``: a sentence a line, a blank line between documents."""
    documents = ("".join(f"{sentence.text}\n" for sentence in each) for each in first_documents(source.sentences(), n))
    content = (("\n" * (number > 0) + lines).encode() for number, lines in enumerate(documents))
    write_whole(out, methodcaller("writelines", content))


def write_first_rows(corpus: ParsedCorpus, n: int, out: Path) -> None:
    """Write the beginning of a parsed corpus, as ``first_documents`` has it, as one of its own."""
    of_rows = chain.from_iterable(table["document"].to_pylist() for table in corpus.tables())
    documents = np.fromiter(islice(of_rows, n + 1), np.int32)
    if len(documents) > n:
        documents = documents[: int(np.searchsorted(documents, documents[n])) or n]
    with new_folder(out) as folder:
        folder.rmdir()  # which is made with what is in it
        write_subset(corpus, np.arange(len(documents)), folder)
