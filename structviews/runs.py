"""The folder of a run: made, recognised, gone on with."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

from structviews.cache import ParsedCorpus, sync_folder
from structviews.channels import open_vectors
from structviews.checkpoint import mark, read_progress
from structviews.config import CONFIG, Parsed, TrainConfig, load_run, save_config
from structviews.errors import InputError
from structviews.evaluation.results import EXPANSION
from structviews.representation import COMPONENTS


def run_names(runs: Sequence[Path]) -> list[str]:
    """What runs are called where several are shown: their folders' names, or paths where these are the same.

    Raises:
        InputError: if a run is named twice.
    """
    folders = [run.resolve() for run in runs]
    for i, folder in enumerate(folders):
        if folder in folders[:i]:
            raise InputError(f"{runs[i]}: named twice: name each run once")
    names = [folder.name for folder in folders]
    return [name if names.count(name) == 1 else str(run) for run, name in zip(runs, names, strict=True)]


def is_finished(config: TrainConfig) -> bool:
    """Whether the run's folder holds this very run on this very corpus, trained to its end."""
    run = Path(config.out)
    progress = read_progress(run) if (run / CONFIG).is_file() else None
    if progress is None or not progress.finished:
        return False
    there, parsed = load_run(run)
    if there != config:
        return False
    now = Parsed.of(ParsedCorpus.open(config.corpus), open_vectors(config))
    return (parsed.fingerprint, parsed.vectors) == (now.fingerprint, now.vectors)


def open_run(config: TrainConfig, parsed: Parsed) -> Path:
    """Make a run's folder, or check that it holds this very run.

    Args:
        config: the settings.
        parsed: what the corpus and the word vectors are.

    Raises:
        InputError: if the folder is something else, or the run has other settings, another corpus or other word
            vectors.
    """
    run = Path(config.out)
    if (run / CONFIG).is_file():
        there, there_parsed = load_run(run)
        if there != config:
            compared = [setting.name for setting in fields(config) if setting.compare]
            name = next(n for n in compared if getattr(config, n) != getattr(there, n))
            raise InputError(
                f"{run}: holds a run with {name} = {getattr(there, name)!r}, not {getattr(config, name)!r}: "
                "give another folder with --out"
            )
        if there_parsed.fingerprint != parsed.fingerprint:
            raise InputError(f"{run}: was trained on another state of {config.corpus}: give another folder with --out")
        if there_parsed.vectors != parsed.vectors:
            raise InputError(
                f"{run}: was trained with other vectors than {config.vectors}: give those, or another folder with --out"
            )
    elif run.exists() and (not run.is_dir() or any(run.iterdir())):
        raise InputError(f"{run}: is there already and is not a run: give another folder with --out")
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{run}: {error.strerror}: give another folder with --out") from None
    save_config(run, config, parsed)  # first: it is what makes the folder a run
    for name in (COMPONENTS, EXPANSION):  # of weights that training will change
        (run / name).unlink(missing_ok=True)
    return run


# What a run and the one whose weights it begins with must have in common.
IN_COMMON = ("views", "channels", "hidden", "words_dim")


def check_source(config: TrainConfig) -> TrainConfig:
    """The settings of the run that ``config`` begins from.

    Raises:
        InputError: if it is not a run, or has other encoders.
    """
    source = Path(config.init_from)
    there, parsed = load_run(source)
    for name in IN_COMMON:
        if getattr(there, name) != getattr(config, name):
            old, new = (_shown(getattr(c, name)) for c in (there, config))
            raise InputError(
                f"{source}: cannot begin with its weights: it has {name} = {old}, not {new}: "
                f"give --{name.replace('_', '-')} {old}, or another run with --init-from"
            )
    vectors = open_vectors(config)
    if vectors and parsed.vectors["fingerprint"] != vectors.fingerprint:
        raise InputError(
            f"{source}: cannot begin with its weights: it was trained with other vectors than {config.vectors}: "
            "give those, or another run with --init-from"
        )
    return there


def _shown(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


@contextmanager
def new_run(out: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``out`` at the end, whole or not at all.

    Raises:
        InputError: if ``out`` is there already, or cannot be made.
    """
    if out.exists():
        raise InputError(f"{out}: is there already: give another folder with --out")
    partial = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        try:
            partial.mkdir(parents=True)
        except OSError as error:
            raise InputError(f"{out}: {error.strerror}: give another folder with --out") from None
        yield partial
        partial.replace(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(out.parent)


def extended(run: Path, epochs: int | None, steps: int | None) -> TrainConfig:
    """The configuration of a run, with a longer or shorter training if asked for.

    Raises:
        InputError: if ``run`` is not one.
    """
    config, _ = load_run(run)
    return replace(
        config,
        out=str(run),
        epochs=config.epochs if epochs is None else epochs,
        steps=config.steps if steps is None else steps,
    )


def extend(config: TrainConfig) -> None:
    """Write an ``extended`` configuration to its run, which is then not finished any more."""
    run = Path(config.out)
    there, parsed = load_run(run)
    if config == there:
        return
    mark(run, finished=False)
    save_config(run, config, parsed)
