"""A run's weights. Reading them cannot execute code."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from structviews.errors import InputError
from structviews.runs.folder import REMEDY, WEIGHTS
from structviews.runtime.seals import read_head, read_tensors, write_arrays


def save_weights(run: Path, model: nn.Module) -> None:
    """Write ``model.safetensors`` atomically."""
    write_weights(run, model.state_dict())


def write_weights(run: Path, weights: Mapping[str, Tensor], notes: Mapping[str, Any] | None = None) -> None:
    """Write ``model.safetensors`` from weights by name, atomically; ``notes`` say what else identifies the model."""
    write_arrays(run / WEIGHTS, weights, notes)


def check_weights(run: Path, model: nn.Module) -> None:
    """Check a run's weights against a model by names and shapes; the model may be on the device ``meta``.

    Raises:
        InputError: if the weights are missing, damaged, or of another model.
    """
    shapes = read_head(_weights(run), REMEDY).shapes
    for name, tensor in model.state_dict().items():
        _check_shape(run, name, shapes.get(name), tuple(tensor.shape))


def load_weights(run: Path, model: nn.Module) -> None:
    """Read ``model.safetensors`` into a model.

    Raises:
        InputError: if it is missing, damaged, or of another model.
    """
    # Buffers of bytes are digests of what else the model reads, such as a tokeniser.
    digests = {name: each.clone() for name, each in model.named_buffers() if each.dtype == torch.uint8}
    try:
        model.load_state_dict(read_weights(run))
    except RuntimeError as error:
        raise _other_weights(run, error) from None
    for name, digest in digests.items():
        if not torch.equal(model.get_buffer(name), digest):
            raise InputError(
                f"{run / WEIGHTS}: not trained with this run's {name.rpartition('.')[2]}: one of its files or settings "
                f"is another run's: {REMEDY}"
            )


@torch.no_grad()
def start_from(run: Path, model: nn.Module, n_words: int, fresh: Collection[str] = ()) -> None:
    """Copy a run's weights into another model, whose word tables may have further rows after the run's.

    Args:
        run: the run's folder.
        model: a model with the same encoders.
        n_words: number of rows of the run's word tables.
        fresh: parts of names, such as ``.objective.``, of weights not to copy.

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
    return read_tensors(_weights(run), REMEDY)[0]


def _weights(run: Path) -> Path:
    if not (run / WEIGHTS).is_file():
        raise InputError(f"{run / WEIGHTS}: no such file: the run has no checkpoint yet; train it first")
    return run / WEIGHTS


def _check_shape(run: Path, name: str, found: tuple[int, ...] | None, wanted: tuple[int, ...]) -> None:
    if found != wanted:
        there = "is missing" if found is None else f"has shape {found}"
        raise _other_weights(run, f"{name} {there}, expected {wanted}")


def _other_weights(run: Path, what: object) -> InputError:
    reason = " ".join(str(what).split())[:200]
    return InputError(f"{run / WEIGHTS}: not the weights of this run's model: {reason}: train it again with --out")
