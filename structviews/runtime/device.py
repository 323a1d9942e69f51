"""Devices, their numeric precision, and modules whose weights come from elsewhere."""

import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, is_dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from structviews.errors import InputError
from structviews.runtime.machine import check_device

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
# Rows, inputs and outputs of the products that are timed, and how often.
PROBE, TRIALS = (128, 384, 768), 5
# The most that two neighbouring weights of the same sign may have together: 255 times as much fits into 16 bits.
PAIR = 128
# The devices of the blocks of ``using`` that run, the innermost last.
_chosen: list[torch.device] = []


def best_device() -> torch.device:
    """The device of ``using``; else the GPU if there is one (this process's current one of several), else the CPU."""
    if _chosen:
        return _chosen[-1]
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


@contextmanager
def using(name: str) -> Iterator[None]:
    """Within the block, the named device is the best one; an empty name changes nothing; see ``check_device``."""
    if not name:
        yield
        return
    check_device(name)
    device = torch.device(name)
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        _chosen.append(torch.device("cuda", torch.cuda.current_device()) if device.type == "cuda" else device)
        try:
            yield
        finally:
            _chosen.pop()


def move(module: nn.Module, device: str | torch.device) -> None:
    """Move a module's weights to ``device``; raise InputError if it does not exist."""
    try:
        module.to(device)
    except (RuntimeError, AssertionError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"device = {device}: {reason}: use cpu, or cuda:0 if there is a GPU") from None


def to_tensor(array: np.ndarray) -> Tensor:
    """A tensor that shares the array's memory; copies if the array is not contiguous."""
    return torch.from_numpy(np.ascontiguousarray(array))


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to ``device``; to a GPU asynchronously, from pinned memory."""
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def send_fields(fields: T, device: torch.device | str) -> T:
    """A copy of a dataclass with its tensors on ``device``, nested dataclasses included."""
    device = torch.device(device)
    moved: dict[str, Any] = {}
    for name, value in vars(fields).items():
        if isinstance(value, Tensor):
            moved[name] = send(value, device)
        elif is_dataclass(value) and not isinstance(value, type):
            moved[name] = send_fields(value, device)
    return replace(fields, **moved)


@cache
def quick_arithmetic() -> frozenset[str]:
    """What this CPU multiplies faster than fp32, and right: of ``bf16`` and ``int8``. Measured once, in 40 ms.

    Those of ``int8`` are right for weights that obey ``PAIR``. The processor's flags do not say: where it has no
    instructions for bf16, products may be refused or take three times as long, and without those for bytes, sums of two
    products are cut off at 16 bits.
    """
    ops, (n, inputs, outputs) = torch.ops, PROBE
    rows, weight, scales = torch.ones(n, inputs), torch.full((outputs, inputs), PAIR / 2), torch.ones(outputs)
    zeros = torch.zeros(outputs, dtype=torch.int32)
    seconds, threads = {}, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("int8", torch.uint8)):
            with suppress(RuntimeError, AttributeError):  # refused, or not in this build of PyTorch
                if name == "int8":
                    right = ops.onednn.qlinear_prepack(weight.char(), None)
                    left, end = ((255 * rows).byte(), 1 / 255, 0), (1.0, 0, torch.float32, "none", (), "none")
                    product = partial(ops.onednn.qlinear_pointwise.default, *left, right, scales, zeros, None, *end)
                else:
                    right = ops.mkldnn._reorder_linear_weight(weight.to(dtype))
                    product = partial(ops.mkldnn._linear_pointwise.default, rows.to(dtype), right, None, "none", [], "")
                if (product() / (inputs * PAIR / 2) - 1).abs().max() < 0.01:
                    seconds[name] = min(timeit.repeat(product, number=1, repeat=TRIALS))
    finally:
        torch.set_num_threads(threads)
    return frozenset(name for name, time in seconds.items() if time < seconds.get("fp32", 0))


def multiplies_half(device: torch.device) -> bool:
    """Whether the device multiplies bf16 matrices faster than those of fp32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return "bf16" in quick_arithmetic()


def half_precision(precision: str, device: torch.device) -> bool:
    """Whether to train in bf16; ``auto`` does so where the device ``multiplies_half``."""
    return precision == "bf16" or (precision == "auto" and multiplies_half(device))


RANDOM = frozenset({nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_, Tensor.uniform_, Tensor.normal_})
EMPTY = frozenset({torch.empty, torch.zeros, torch.ones, torch.full})


class TooLargeError(ValueError):
    """A module asks for more numbers than it may."""


@dataclass(eq=False)
class Unfilled(TorchFunctionMode):
    """A context in which nothing is filled with random values, so that weights hold what their memory held.

    On ``meta``, such fills would import PyTorch's compiler, which takes a second. If a number is given, as many numbers
    are ``left`` for new tensors in all; before memory is taken for more, TooLargeError is raised.
    """

    left: int | None = None

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in RANDOM:
            return args[0] if args else (kwargs or {})["tensor"]
        if function in EMPTY and self.left is not None:
            self.left -= function(*args, **{**(kwargs or {}), "device": "meta"}).numel()
            if self.left < 0:
                raise TooLargeError
        return function(*args, **(kwargs or {}))
