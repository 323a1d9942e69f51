"""A run's weights and everything that resuming it needs; no file here can execute code."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from structviews.cache import write_whole
from structviews.errors import InputError

WEIGHTS = "model.safetensors"
STATE_FOLDER = "state"

T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """Where training stands.

    Attributes:
        step: how many steps were taken.
        epoch, batch: the next batch of each rank.
        finished: whether that was all.
        ranks: how many processes trained.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    finished: bool = False
    ranks: int = 1


def save_weights(run: Path, model: nn.Module) -> None:
    """Write ``model.safetensors``, whole or not at all."""
    write_weights(run, model.state_dict())


def write_weights(run: Path, weights: Mapping[str, Tensor]) -> None:
    """Write ``model.safetensors`` from weights by name, whole or not at all."""
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()})
    write_whole(run / WEIGHTS, lambda file: file.write(content))


def check_weights(run: Path, model: nn.Module) -> None:
    """Look whether a run's weights are of a model, which may be on the device ``meta``, by names and shapes alone.

    Raises:
        InputError: if they are missing, damaged, or of another model.
    """
    shapes = _read(run, _shapes)
    for name, tensor in model.state_dict().items():
        _check_shape(run, name, shapes.get(name), tuple(tensor.shape))


def load_weights(run: Path, model: nn.Module) -> None:
    """Read ``model.safetensors`` into a model.

    Raises:
        InputError: if it is missing, damaged, or of another model.
    """
    try:
        model.load_state_dict(read_weights(run))
    except RuntimeError as error:
        raise _other_weights(run, error) from None


@torch.no_grad()
def start_from(run: Path, model: nn.Module, n_words: int, fresh: Collection[str] = ()) -> None:
    """Copy a run's weights into another model, whose word tables may have more rows behind the run's.

    Args:
        run: where the weights are.
        model: of the same encoders.
        n_words: rows of the run's word tables.
        fresh: parts of names, such as ``.objective.``, whose weights stay as they are in the model.

    Raises:
        InputError: if the weights are missing, damaged, or of another model.
    """
    weights = read_weights(run)
    for name, tensor in model.state_dict().items():
        if any(part in name for part in fresh):
            continue
        target = tensor[:n_words] if ".words." in name else tensor
        _check_shape(run, name, tuple(weights[name].shape) if name in weights else None, tuple(target.shape))
        target.copy_(weights[name])


def read_weights(run: Path) -> dict[str, Tensor]:
    """The weights of a run by name.

    Raises:
        InputError: if they are missing or damaged.
    """
    return _read(run, _tensors)


def _read(run: Path, read: Callable[[safe_open], T]) -> T:
    """What is read in ``model.safetensors``."""
    path = run / WEIGHTS
    if not path.is_file():
        raise InputError(f"{path}: no such file: the run has not been trained to a first checkpoint yet")
    try:
        with safe_open(path, "pt") as file:
            return read(file)
    except SafetensorError as error:
        raise _other_weights(run, error) from None


def _shapes(file: safe_open) -> dict[str, tuple[int, ...]]:
    return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - not a dict


def _check_shape(run: Path, name: str, found: tuple[int, ...] | None, wanted: tuple[int, ...]) -> None:
    if found != wanted:
        there = "missing" if found is None else f"of shape {found}"
        raise _other_weights(run, f"{name} is {there}, not of shape {wanted}")


def _other_weights(run: Path, what: object) -> InputError:
    reason = " ".join(str(what).split())[:200]
    return InputError(f"{run / WEIGHTS}: not the weights of this run's model: {reason}; train it again with --out")


def random_state() -> np.ndarray:
    """Where this process' random numbers stand, as bytes ``(n,)``, uint8: the CPU's, then the GPU's."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_available():
        states.append(torch.cuda.get_rng_state())
    return torch.cat(states).numpy()


def save_state(
    run: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    random: np.ndarray | None = None,
) -> None:
    """Write all that resuming needs as one file, then drop the one before; a kill leaves one whole.

    Args:
        run: its folder.
        model, optimiser: what is trained.
        progress: where training stands.
        random: ``(ranks, n)`` the ``random_state`` of all ranks; this process' own by default.
    """
    folder = run / STATE_FOLDER
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


def read_progress(run: Path) -> Progress | None:
    """Where a run's newest state stands; None if there is none."""
    path = _newest(run)
    if path is None:
        return None
    with _open(path) as file:
        return _progress(path, file)


def mark(run: Path, finished: bool) -> None:
    """Say in a run's newest state, if there is one, whether it is the last."""
    path = _newest(run)
    if path is None:
        return
    with _open(path) as file:
        progress = _progress(path, file)
        if progress.finished != finished:
            _write_state(path, _tensors(file), replace(progress, finished=finished))


def load_state(run: Path, model: nn.Module, optimiser: torch.optim.Optimizer, rank: int = 0) -> Progress:
    """Put model, optimiser and random numbers back where ``save_state`` found them.

    Args:
        run: its folder.
        model, optimiser: what is trained.
        rank: whose random numbers; one that was not there keeps those that it has.

    Raises:
        InputError: if the newest state is damaged, or of another model.
    """
    path = _newest(run)
    if path is None:
        return Progress()
    with _open(path) as file:
        tensors = _tensors(file)
        progress = _progress(path, file)
    if "rng.cpu" not in tensors:
        raise _damaged(path, "it holds no random numbers")
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
    return max((run / STATE_FOLDER).glob("step-*.safetensors"), default=None)


def _open(path: Path) -> safe_open:
    try:
        return safe_open(path, "pt")
    except (SafetensorError, OSError) as error:
        raise _damaged(path, str(error)) from None


def _tensors(file: safe_open) -> dict[str, Tensor]:
    return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict


def _write_state(path: Path, tensors: dict[str, Tensor], progress: Progress) -> None:
    notes = {"progress": json.dumps(asdict(progress))}
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, metadata=notes)
    write_whole(path, lambda file: file.write(content))


def _progress(path: Path, file: safe_open) -> Progress:
    try:
        return Progress(**json.loads((file.metadata() or {})["progress"]))
    except (KeyError, ValueError, TypeError) as error:
        raise _damaged(path, f"no progress: {error}") from None


def _damaged(path: Path, what: str) -> InputError:
    return InputError(f"{path}: damaged ({what}): delete it and train again, or give another --out")
