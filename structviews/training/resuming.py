"""Check whether a folder holds the run to be trained, and resume or extend it."""

from pathlib import Path
from typing import Any

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.runs.config import TrainConfig
from structviews.runs.folder import COMPONENTS, CONFIG, EXPANSION, GATE
from structviews.runs.settings_file import Parsed, load_run, save_config
from structviews.runs.vocabularies import identified, open_encoder, open_vectors
from structviews.runtime.files import writing
from structviews.settings import settings_of
from structviews.training.checkpoint import mark, read_progress


def is_finished(config: TrainConfig) -> bool:
    """Whether the run's folder holds this same run on the same corpus, fully trained."""
    run = Path(config.data.out)
    progress = read_progress(run) if (run / CONFIG).is_file() else None
    if progress is None or not progress.finished:
        return False
    there, parsed = load_run(run)
    if config.difference(there):
        return False
    now = identified(config, ParsedCorpus.open(config.data.corpus))
    return (parsed.fingerprint, parsed.vectors, parsed.encoder) == (now.fingerprint, now.vectors, now.encoder)


def open_run(config: TrainConfig, parsed: Parsed) -> Path:
    """Create a run's folder, or check that it holds this same run.

    Args:
        config: the settings.
        parsed: identifies the corpus, the word vectors and the encoder.

    Raises:
        InputError: as ``check_same``; if the folder is there but is not a run, or cannot be made.
    """
    run = Path(config.data.out)
    there = check_same(config, parsed)
    if not there and run.exists() and (not run.is_dir() or any(path.name[0] != "." for path in run.iterdir())):
        raise InputError(f"{run}: already exists and is not a run: give another folder with --out")
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{run}: {error.strerror}: give another folder with --out") from None
    save_config(run, config, parsed)  # first, as it makes the folder a run
    for name in (COMPONENTS, GATE, EXPANSION):  # derived from weights that training will change
        (run / name).unlink(missing_ok=True)
    return run


def check_same(config: TrainConfig, parsed: Parsed) -> bool:
    """Whether there is a run in the folder.

    Raises:
        InputError: if it has other settings, another corpus, other word vectors or another encoder.
    """
    there = check_settings(config)
    if there and there.fingerprint != parsed.fingerprint:
        raise InputError(
            f"{config.data.out}: was trained on another version of {config.data.corpus}: give another folder with --out"
        )
    if there and there.vectors != parsed.vectors:
        raise InputError(
            f"{config.data.out}: was trained with other vectors than {config.words.vectors}: "
            "give those, or another folder with --out"
        )
    if there and there.encoder != parsed.encoder:
        raise InputError(
            f"{config.data.out}: was trained with another encoder, or other layers of it, than {config.words.encoder}: "
            "give that, or another folder with --out"
        )
    return there is not None


def check_settings(config: TrainConfig) -> Parsed | None:
    """What the run in the folder was trained on; None if there is none.

    Raises:
        InputError: if it has other settings.
    """
    run = Path(config.data.out)
    if not (run / CONFIG).is_file():
        return None
    there, parsed = load_run(run)
    if name := config.difference(there):
        old, new = (each.flat().get(name, "none") for each in (there, config))
        raise InputError(f"{run}: holds a run with {name} = {old!r}, not {new!r}: give another folder with --out")
    return parsed


# Settings that a run must share with the run it starts from; the last two if both have skip-thought's decoders.
IN_COMMON = ("views", "channels", "hidden", "word_dim", "word_pooling", "conditioning", "output_layers")


def check_source(config: TrainConfig) -> TrainConfig:
    """The settings of the run that ``config`` starts from.

    Raises:
        InputError: if it is not a run, or has other encoders or decoders.
    """
    source = Path(config.data.init_from)
    there, parsed = load_run(source)
    theirs, ours = there.flat(), config.flat()
    options = config.views.options.values()
    of_views = (each.flat for own in options for each in settings_of(type(own)) if not each.about.training)
    for name in (*IN_COMMON, *of_views):
        if name in theirs.keys() & ours.keys() and theirs[name] != ours[name]:
            old, new = (_shown(flat[name]) for flat in (theirs, ours))
            raise InputError(
                f"{source}: cannot start from its weights: it has {name} = {old}, not {new}: "
                f"give --{name.replace('_', '-')} {old}, or another run with --init-from"
            )
    vectors = open_vectors(config)
    if vectors and parsed.vectors.get("fingerprint") != vectors.fingerprint:
        raise InputError(
            f"{source}: cannot start from its weights: it was trained with other vectors than {config.words.vectors}: "
            "give those, or another run with --init-from"
        )
    encoder = open_encoder(config)
    if encoder and parsed.encoder != Parsed.of_encoder(encoder.identity):
        raise InputError(
            f"{source}: cannot start from its weights: it was trained with another encoder, or other layers of it, "
            f"than {config.words.encoder}: give that, or another run with --init-from"
        )
    return there


def _shown(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def extended(run: Path, epochs: int | None, steps: int | None) -> TrainConfig:
    """The configuration of a run, with another number of epochs or steps if given.

    Raises:
        InputError: if ``run`` is not a run's folder.
    """
    config, _ = load_run(run)
    changes: dict[str, Any] = {"out": str(run)}
    changes |= {name: value for name, value in (("epochs", epochs), ("steps", steps)) if value is not None}
    return config.replaced(**changes)


def extend(config: TrainConfig) -> None:
    """Write an ``extended`` configuration to its run, and mark the run as unfinished."""
    run = Path(config.data.out)
    with writing(run):
        there, parsed = load_run(run)
        if config.difference(there):
            mark(run, finished=False)
            save_config(run, config, parsed)
