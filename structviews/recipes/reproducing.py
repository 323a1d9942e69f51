"""Making a row of a paper's table: say what it takes, go through the stages, compare."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding.expansion import Expansion
from structviews.errors import InputError
from structviews.recipes.joining import no_longer_joined
from structviews.recipes.outcome import Outcome
from structviews.recipes.rates import Rates
from structviews.recipes.reproduction import Reproduction
from structviews.recipes.stages import Evaluate, Expand, JoinRuns, LearnVectors, stages_of
from structviews.runs.folder import weight_files
from structviews.runs.vocabularies import identified
from structviews.runtime.files import clear_below
from structviews.runtime.machine import available_bytes
from structviews.runtime.terminal import rate_bar, say
from structviews.runtime.wording import counted, duration
from structviews.training.resuming import check_same, check_settings
from structviews.words.learning import require_gensim
from structviews.words.vector_files import WordVectors


def reproduce(job: Reproduction, console: Console) -> Outcome:
    """Make the row, continuing where an earlier call with the same folder was stopped, and save the outcome.

    Args:
        job: what to make.
        console: for progress.

    Raises:
        InputError: if a stage cannot be done; what is finished is kept.
        Interrupted: on SIGINT or SIGTERM in training, once its state is saved.
    """
    clear_below(job.out)
    stages = list(stages_of(job))
    for number, stage in enumerate(stages, 1):
        if stage.finished:
            say(console, f"{number}/{len(stages)} {stage.title}: already done")
            continue
        say(console, f"{number}/{len(stages)} {stage.title}")
        began = time.monotonic()
        stage.run(console)
        say(console, f"{number}/{len(stages)} done in {duration(time.monotonic() - began)}")
    results = Evaluate(job).results
    if results is None:
        raise InputError(f"{job.folder}: has no scores of this model: it has changed meanwhile; run the command again")
    outcome = Outcome.of(job, results)
    outcome.save(job.out)
    return outcome


def plan(job: Reproduction, console: Console, keep: bool = True) -> list[str]:
    """What is left to do and what it takes on this machine, in lines. It reads all word vectors, so that bad ones show.

    Args:
        job: what to make.
        console: for progress.
        keep: whether to keep what is measured for it, so that the next call need not measure again.

    Raises:
        InputError: if the folder has another run of the same name, or if the file of word vectors is no such file.
    """
    if job.vectors:
        with rate_bar(console, f"reading {job.vectors}", "MB", 10**6) as progress:
            WordVectors.open(job.vectors, progress)
    _check_runs(job)
    left = [stage for stage in stages_of(job) if not stage.finished]
    if not left:
        return ["nothing left to do"]
    if any(isinstance(stage, LearnVectors) for stage in left):
        require_gensim(", or give --vectors FILE")
    rates = Rates.of_job(job, keep)
    found, _ = job.tasks
    lines = [
        f"{counted(rates.sentences, 'sentence')} to train on, {counted(len(job.task_sentences), 'sentence')} of "
        f"{counted(len(found), 'task')}"
    ]
    seconds = {stage.title: stage.seconds(rates) for stage in left}
    lines += [f"{title}: about {duration(max(1, each))}" for title, each in seconds.items() if each]
    lines.append(f"in all about {duration(max(1, sum(seconds.values())))}, and the tasks' classifiers")
    return [*lines, *_room(job, rates)]


def _check_runs(job: Reproduction) -> None:
    """Raise InputError if the folder has another run of the same name than the one to make, before any is made."""
    for folder, config in job.configs.items():
        if job.is_prepared:
            check_same(config, identified(config, ParsedCorpus.open(job.parsed)))
        else:
            check_settings(config)
        expansion, file = Expansion.load(folder), job.expanded.get(folder)
        wanted = WordVectors.open(file).fingerprint if file else ""
        # One without maps only says where the fixed vectors are.
        if expansion and expansion.maps and expansion.fingerprint != wanted:
            raise InputError(
                f"{folder}: expanded from the vectors of {expansion.vectors}: give them with --vectors, or another "
                "folder with --out"
            )
    to_change = (stage for stage in stages_of(job) if isinstance(stage, Expand | JoinRuns) and not stage.finished)
    if job.recipe.members and weight_files(job.folder) and any(to_change):
        raise no_longer_joined(job.folder)


def _room(job: Reproduction, rates: Rates) -> Sequence[str]:
    """Memory and disk that are needed, and that there are."""
    largest = max(rates.training.values(), key=lambda rate: rate.parameters)
    available = available_bytes()
    free = f" of {available / 1e9:,.1f} GB free" if available else ""
    disk = shutil.disk_usage(_existing(job.out)).free
    return [
        f"memory: {largest.bytes / 1e9:,.2f} GB{free} for {largest.parameters:,} parameters with gradients and Adam's "
        "moments, and what a batch takes",
        f"disk: at most about {rates.disk(job) / 1e9:,.2f} GB of {disk / 1e9:,.1f} GB free",
    ]


def _existing(folder: Path) -> Path:
    """The folder, or the next one above it that exists."""
    return next(each for each in (folder.resolve(), *folder.resolve().parents) if each.is_dir())
