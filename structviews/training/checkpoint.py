"""Checkpoints for resuming a run. Reading them cannot execute code."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from structviews.errors import InputError
from structviews.runs.folder import STATE
from structviews.runs.weights import tensors_of
from structviews.runtime.files import write_whole


@dataclass(frozen=True)
class Place:
    """The progress of a training run.

    Attributes:
        step: number of steps taken.
        epoch, batch: the next batch of each rank.
        finished: whether training has ended.
        ranks: number of processes that train.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    finished: bool = False
    ranks: int = 1


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
    _write_state(path, tensors, progress)
    for old in folder.glob("step-*.safetensors"):
        if old != path:
            old.unlink()


def read_progress(run: Path) -> Place | None:
    """The progress in a run's latest checkpoint; None if there is none."""
    path = _newest(run)
    if path is None:
        return None
    with _open(path) as file:
        return _progress(path, file)


def mark(run: Path, finished: bool) -> None:
    """Record in a run's latest checkpoint, if there is one, whether training has finished."""
    path = _newest(run)
    if path is None:
        return
    with _open(path) as file:
        progress = _progress(path, file)
        if progress.finished != finished:
            _write_state(path, tensors_of(file), replace(progress, finished=finished))


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
    with _open(path) as file:
        tensors = tensors_of(file)
        progress = _progress(path, file)
    if "rng.cpu" not in tensors:
        raise _damaged(path, "no random state")
    try:
        model.load_state_dict({n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")})
    except RuntimeError as error:
        raise InputError(f"{path}: of another model: {' '.join(str(error).split())[:200]}") from None
    states: dict[int, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimiser."):
            _, index, key = name.split(".", 2)
            states.setdefault(int(index), {})[key] = tensor
    optimiser.load_state_dict(optimiser.state_dict() | {"state": states})
    if rank < len(tensors["rng.cpu"]):
        torch.set_rng_state(tensors["rng.cpu"][rank].clone())
        if torch.cuda.is_available() and tensors["rng.cuda"].numel():
            torch.cuda.set_rng_state(tensors["rng.cuda"][rank].clone())
    return progress


def _newest(run: Path) -> Path | None:
    return max((run / STATE).glob("step-*.safetensors"), default=None)


def _open(path: Path) -> safe_open:
    try:
        return safe_open(path, "pt")
    except (SafetensorError, OSError) as error:
        raise _damaged(path, str(error)) from None


def _write_state(path: Path, tensors: dict[str, Tensor], progress: Place) -> None:
    notes = {"progress": json.dumps(asdict(progress))}
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, metadata=notes)
    write_whole(path, lambda file: file.write(content))


def _progress(path: Path, file: safe_open) -> Place:
    try:
        return Place(**json.loads((file.metadata() or {})["progress"]))
    except (KeyError, ValueError, TypeError) as error:
        raise _damaged(path, f"no progress: {error}") from None


def _damaged(path: Path, what: str) -> InputError:
    return InputError(f"{path}: damaged ({what}): delete it and train again, or give another --out")
