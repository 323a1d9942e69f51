"""Checkpoints, and what a run must share with the one in its folder, or with the one that it starts from.

Reading a checkpoint cannot execute code.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn

from structviews.errors import InputError
from structviews.pretrained.loading import Blueprint
from structviews.runs.config import TrainConfig
from structviews.runs.folder import COMPONENTS, CONFIG, ENCODER, EXPANSION, STATE
from structviews.runs.settings_file import Parsed, load_run, save_config
from structviews.runs.weights import save_vocabularies
from structviews.runtime.documents import checked
from structviews.runtime.files import writing
from structviews.runtime.seals import damaged, read_head, read_tensors, write_arrays
from structviews.runtime.wording import reason
from structviews.settings import MOST_EPOCHS, MOST_STEPS, settings_of
from structviews.words.vocabulary import Vocabulary

MOST_RANKS = 2**16
REMEDY = "delete it and train again, or give another --out"
# Settings that a run must share with the run it starts from; the last two if both have skip-thought's decoders.
IN_COMMON = ("views", "channels", "hidden", "word_dim", "word_pooling", "conditioning", "output_layers")


@dataclass(frozen=True)
class Progress:
    """The progress of a training run: steps taken, each rank's next epoch and batch, whether it ended, and ranks."""

    step: Annotated[int, Meta(ge=0, le=MOST_STEPS)] = 0
    epoch: Annotated[int, Meta(ge=0, le=MOST_EPOCHS)] = 0
    batch: Annotated[int, Meta(ge=0, le=MOST_STEPS)] = 0
    finished: bool = False
    ranks: Annotated[int, Meta(ge=1, le=MOST_RANKS)] = 1


def random_state() -> np.ndarray:
    """State of this process' random number generators, as bytes ``(n,)``, uint8: the CPU's, then the GPU's."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_available():
        states.append(torch.cuda.get_rng_state())
    return torch.cat(states).numpy()


def save_state(
    run: Path, model: nn.Module, optimiser: torch.optim.Optimizer, progress: Progress, random: np.ndarray
) -> None:
    """Write everything needed to resume to one file, then delete the previous one: one remains after a kill.

    ``random (ranks, n)`` are the ``random_state`` of all ranks.
    """
    folder = run / STATE
    folder.mkdir(exist_ok=True)
    tensors: dict[str, Tensor] = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{key}": value for key, value in state.items()}
    states, n_cpu = torch.from_numpy(random), len(torch.get_rng_state())
    tensors |= {"rng.cpu": states[:, :n_cpu], "rng.cuda": states[:, n_cpu:]}
    path = folder / f"step-{progress.step:09d}.safetensors"
    write_arrays(path, tensors, asdict(progress))
    for old in folder.glob("step-*.safetensors"):
        if old != path:
            old.unlink()


def read_progress(run: Path) -> Progress | None:
    """The progress in a run's latest checkpoint; None if there is none."""
    path = _newest(run)
    return checked(read_head(path, REMEDY).notes, Progress, path, REMEDY) if path else None


def mark(run: Path, finished: bool) -> None:
    """Record in a run's latest checkpoint, if there is one, whether training has finished."""
    if path := _newest(run):
        tensors, notes = read_tensors(path, REMEDY)
        if notes.get("finished", False) != finished:
            write_arrays(path, tensors, notes | {"finished": finished})


def load_state(run: Path, model: nn.Module, optimiser: torch.optim.Optimizer, rank: int = 0) -> Progress:
    """Restore model, optimiser and random number generators, of one ``rank``, from a run's latest checkpoint.

    A rank without a saved random state keeps its own. Raises InputError for a checkpoint that is damaged, or another's.
    """
    path = _newest(run)
    if path is None:
        return Progress()
    tensors, notes = read_tensors(path, REMEDY)
    progress: Progress = checked(notes, Progress, path, REMEDY)
    try:
        model.load_state_dict({n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")})
    except RuntimeError as error:
        raise InputError(f"{path}: of another model: {reason(error)}") from None
    states: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimiser."):
            _, index, key = name.split(".", 2)
            states.setdefault(int(index), {})[key] = tensor
    if "rng.cpu" not in tensors or "rng.cuda" not in tensors:
        raise damaged(path, "it has no random state", REMEDY)
    optimiser.load_state_dict(optimiser.state_dict() | {"state": states})
    if rank < len(tensors["rng.cpu"]):
        torch.set_rng_state(tensors["rng.cpu"][rank].clone())
        if torch.cuda.is_available() and tensors["rng.cuda"].numel():
            torch.cuda.set_rng_state(tensors["rng.cuda"][rank].clone())
    return progress


def _newest(run: Path) -> Path | None:
    return max((run / STATE).glob("step-*.safetensors"), default=None)


def open_run(config: TrainConfig, parsed: Parsed, words: Mapping[str, Vocabulary], blueprint: Blueprint | None) -> None:
    """Create a run's folder, unless it holds this same run, see ``check_same``, and write all but its weights.

    Raises InputError if the folder is there but is not a run, or cannot be made.
    """
    run = Path(config.data.out)
    there = run.exists() and not (run / CONFIG).is_file()
    if there and (not run.is_dir() or any(path.name[0] != "." for path in run.iterdir())):
        raise InputError(f"{run}: already exists and is not a run: give another folder with --out")
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{run}: {error.strerror}: give another folder with --out") from None
    save_config(run, config, parsed)  # first, as it makes the folder a run
    for name in (COMPONENTS, EXPANSION):  # derived from weights that training will change
        (run / name).unlink(missing_ok=True)
    save_vocabularies(run, words)
    if blueprint:
        blueprint.write(run / ENCODER)


def check_same(config: TrainConfig, parsed: Parsed | None = None) -> Progress | None:
    """The progress of the run in the folder, if there is one and it has a checkpoint.

    Raises InputError if it has other settings, or was trained on something else than ``parsed``: another corpus, other
    perturbed sentences or word vectors, another encoder or teacher; None looks at the settings alone.
    """
    run = Path(config.data.out)
    if not (run / CONFIG).is_file():
        return None
    stored, of_stored = load_run(run)
    difference = ""
    if name := config.difference(stored):
        old, new = (each.flat().get(name, "none") for each in (stored, config))
        difference = f"already has a run with {name} = {old!r} (you asked for {new!r}): give"
    elif parsed and of_stored.fingerprint != parsed.fingerprint:
        difference = f"was trained on another version of {config.data.corpus}: give"
    elif parsed and of_stored.perturbed != parsed.perturbed:
        difference = f"was trained on another version of {config.data.perturbed}: give"
    elif parsed and (others := other_files(config, of_stored, parsed, parsed.vectors == of_stored.vectors)):
        difference = f"was trained with {others}, or"
    if difference:
        raise InputError(f"{run}: {difference} another folder with --out")
    return read_progress(run)


def other_files(config: TrainConfig, stored: Parsed, parsed: Parsed, same_vectors: bool) -> str:
    """What a run reads beside its corpus that differs, and what to give; empty if nothing does."""
    words = config.words
    if not same_vectors:
        return f"other vectors than {words.vectors}: give those"
    if parsed.encoder and stored.encoder != parsed.encoder:
        return f"another encoder, or other layers of it, than {words.encoder}: give that"
    # A teacher's name, and what its card says, may differ.
    if parsed.teacher and stored.teacher and stored.teacher["files"] != parsed.teacher["files"]:
        return f"another teacher than {parsed.teacher['name']}: give that"
    return ""


def check_source(config: TrainConfig, parsed: Parsed) -> TrainConfig:
    """The settings of the run that ``config``, on the data that ``parsed`` identifies, starts from.

    Raises InputError if it is not a run, or has other encoders or decoders, another teacher, or other data.
    """
    source = config.data.init_from
    fault = f"{source}: cannot start from its weights"
    stored, of_stored = load_run(Path(source))
    old, new = stored.flat(), config.flat()
    options = config.views.options.values()
    of_views = (each.flat for own in options for each in settings_of(type(own)) if not each.training)
    for name in (*IN_COMMON, *of_views):
        if name in old.keys() & new.keys() and old[name] != new[name]:
            was, now = (",".join(v) if isinstance(v, tuple) else str(v) for v in (old[name], new[name]))
            remedy = f"give --{name.replace('_', '-')} {was}, or another run with --init-from"
            raise InputError(f"{fault}: it has {name} = {was}, not {now}: {remedy}")
    same_vectors = not parsed.vectors or of_stored.vectors.get("fingerprint") == parsed.vectors["fingerprint"]
    if other := other_files(config, of_stored, parsed, same_vectors):
        raise InputError(f"{fault}: it was trained with {other}, or another run with --init-from")
    return stored


def extended(run: Path, epochs: int | None, steps: int | None) -> TrainConfig:
    """The configuration of a run, with another number of epochs or steps if given."""
    changes: dict[str, Any] = {"out": str(run), "epochs": epochs, "steps": steps}
    return load_run(run)[0].replaced(**{name: value for name, value in changes.items() if value is not None})


def extend(config: TrainConfig) -> None:
    """Write an ``extended`` configuration to its run, and mark the run as unfinished."""
    run = Path(config.data.out)
    with writing(run):
        stored, parsed = load_run(run)
        if config.difference(stored):
            mark(run, finished=False)
            save_config(run, config, parsed)
