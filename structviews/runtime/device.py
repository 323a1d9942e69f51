"""Devices, their numeric precision, and modules whose weights come from elsewhere."""

import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from structviews.errors import InputError
from structviews.runtime.machine import available_bytes, check_device

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


def free_bytes(device: torch.device) -> int | None:
    """Free memory of a device; None if it is not known."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available_bytes()


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

    The processor's flags do not say: where it has no instructions for bf16, products may be refused or take three times
    as long, and without those for bytes, sums of two products are cut off at 16 bits.
    """
    ops, (n, inputs, outputs) = torch.ops, PROBE
    rows, weight, scales = torch.ones(n, inputs), torch.full((outputs, inputs), PAIR / 2), torch.ones(outputs)
    zeros = torch.zeros(outputs, dtype=torch.int32)

    def of_floats(dtype: torch.dtype) -> Callable[[], Tensor]:
        left, right = rows.to(dtype), ops.mkldnn._reorder_linear_weight(weight.to(dtype))
        return lambda: ops.mkldnn._linear_pointwise.default(left, right, None, "none", [], "")

    def of_bytes() -> Callable[[], Tensor]:
        left, right = (255 * rows).byte(), ops.onednn.qlinear_prepack(weight.char(), None)
        call, end = ops.onednn.qlinear_pointwise.default, (1.0, 0, torch.float32, "none", (), "none")
        return lambda: call(left, 1 / 255, 0, right, scales, zeros, None, *end)

    products: dict[str, Callable[[], Callable[[], Tensor]]] = {
        "fp32": lambda: of_floats(torch.float32),
        "bf16": lambda: of_floats(torch.bfloat16),
        "int8": of_bytes,
    }
    seconds, threads = {}, torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name, make in products.items():
            with suppress(RuntimeError, AttributeError):  # refused, or not in this build of PyTorch
                product = make()
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


def multiplies_bytes() -> bool:
    """Whether the CPU multiplies 8-bit integers faster than floats, and right for weights that obey ``PAIR``."""
    return "int8" in quick_arithmetic()


def half_precision(precision: str, device: torch.device) -> bool:
    """Whether to train in bf16; ``auto`` does so where the device ``multiplies_half``."""
    return precision == "bf16" or (precision == "auto" and multiplies_half(device))


RANDOM = frozenset({nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_, Tensor.uniform_, Tensor.normal_})
EMPTY = frozenset({torch.empty, torch.zeros, torch.ones, torch.full})


class TooLargeError(ValueError):
    """A module asks for more numbers than it may."""


class Unfilled(TorchFunctionMode):
    """A context in which nothing is filled with random values, so that weights hold what their memory held.

    On ``meta``, such fills would import PyTorch's compiler, which takes a second. New tensors may have at most ``most``
    numbers in all; before memory is taken for more, TooLargeError is raised.
    """

    def __init__(self, most: int | None = None):
        super().__init__()
        self.left = most

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in RANDOM:
            return args[0] if args else (kwargs or {})["tensor"]
        if function in EMPTY and self.left is not None:
            self.left -= function(*args, **{**(kwargs or {}), "device": "meta"}).numel()
            if self.left < 0:
                raise TooLargeError
        return function(*args, **(kwargs or {}))
