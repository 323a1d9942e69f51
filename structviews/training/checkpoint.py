"""Checkpoints for resuming a run. Reading them cannot execute code."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn

from structviews.errors import InputError
from structviews.runs.folder import STATE
from structviews.runtime.documents import converted
from structviews.runtime.seals import damaged, read_head, read_tensors, write_arrays
from structviews.settings import MOST_EPOCHS, MOST_STEPS

MOST_RANKS = 2**16
REMEDY = "delete it and train again, or give another --out"


@dataclass(frozen=True)
class Place:
    """The progress of a training run.

    Attributes:
        step: number of steps taken.
        epoch, batch: the next batch of each rank.
        finished: whether training has ended.
        ranks: number of processes that train.
    """

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
    run: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    progress: Place,
    random: np.ndarray | None = None,
) -> None:
    """Write everything needed to resume to one file, then delete the previous one.

    If the process is killed, one complete file remains.

    Args:
        run: its folder.
        model, optimiser: their states are saved.
        progress: the place to resume from.
        random: ``(ranks, n)`` the ``random_state`` of all ranks; this process' own by default.
    """
    folder = run / STATE
    folder.mkdir(exist_ok=True)
    tensors: dict[str, Tensor] = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for index, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{index}.{key}": value for key, value in state.items()}
    states = torch.from_numpy(random_state()[None] if random is None else random)
    n_cpu = len(torch.get_rng_state())
    tensors |= {"rng.cpu": states[:, :n_cpu], "rng.cuda": states[:, n_cpu:]}
    path = folder / f"step-{progress.step:09d}.safetensors"
    write_arrays(path, tensors, asdict(progress))
    for old in folder.glob("step-*.safetensors"):
        if old != path:
            old.unlink()


def read_progress(run: Path) -> Place | None:
    """The progress in a run's latest checkpoint; None if there is none."""
    path = _newest(run)
    return _place(path, read_head(path, REMEDY).notes) if path else None


def mark(run: Path, finished: bool) -> None:
    """Record in a run's latest checkpoint, if there is one, whether training has finished."""
    progress, path = read_progress(run), _newest(run)
    if path and progress and progress.finished != finished:
        tensors, _ = read_tensors(path, REMEDY)
        write_arrays(path, tensors, asdict(replace(progress, finished=finished)))


def load_state(run: Path, model: nn.Module, optimiser: torch.optim.Optimizer, rank: int = 0) -> Place:
    """Restore model, optimiser and random number generators from a run's latest checkpoint.

    Args:
        run: its folder.
        model, optimiser: restored in place.
        rank: whose random state to restore; a rank without a saved one keeps its current state.

    Raises:
        InputError: if the checkpoint is damaged, or of another model.
    """
    path = _newest(run)
    if path is None:
        return Place()
    tensors, notes = read_tensors(path, REMEDY)
    progress = _place(path, notes)
    try:
        model.load_state_dict({n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")})
    except RuntimeError as error:
        raise InputError(f"{path}: of another model: {' '.join(str(error).split())[:200]}") from None
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


def _place(path: Path, notes: dict[str, Any]) -> Place:
    return converted(notes, Place, path, REMEDY)
