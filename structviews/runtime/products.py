"""Matrix products with a constant weight, prepared once for many calls; for inference. Shapes: n rows.

On the CPU, oneDNN multiplies by a weight that it has laid out for its own loops, for the shapes of our encoders a
tenth to twice as fast as ``linear`` (docs/performance.md). It prepares a product for each new number of rows, which
takes as long as multiplying a hundred rows; so rows are padded to few numbers, by an eighth at most.

The system gives large blocks of memory back and forth page by page, and filling a fresh one takes as long as a fifth
of encoding does. So within ``reused``, or after ``keep``, a thread keeps the buffers of ``scratch``.
"""

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from structviews.runtime.device import multiplies_half

# The most rows multiplied at once. More are not faster, and their results do not stay in the cache.
ROWS = 256
# Larger numbers of rows are rounded up to as many bits as this one has.
EXACT = 15

T = TypeVar("T")
# Numbers of a weight that are compared: an optimiser's step changes all of them.
COMPARED = 8


class _Weights:
    """A module's weights as they were when something was prepared of them.

    PyTorch counts the changes of a weight, but not those by fused optimisers, so some of its numbers are compared too.
    They are looked up in place: making these views takes longer than reading them. The views also keep the weights'
    memory, so that no other weight is at the same address.
    """

    def __init__(self, module: nn.Module):
        weights = _weights(module)
        self._states = [*map(_state, weights)]
        self._some = [*map(_some, weights)]
        self._numbers = self._read()

    def _read(self) -> Tensor:
        return torch.cat(self._some) if self._some else torch.empty(0)

    def are_of(self, module: nn.Module) -> bool:
        """Whether the module has these weights, unchanged."""
        return [*map(_state, _weights(module))] == self._states and torch.equal(self._read(), self._numbers)


# What was prepared of each module, how, and of which weights.
_prepared: "WeakKeyDictionary[nn.Module, tuple[Hashable, _Weights, Any]]" = WeakKeyDictionary()


def prepared(module: nn.Module, how: Hashable, prepare: Callable[[], T]) -> T:
    """What ``prepare`` makes of a module's weights; stored until they change, or it is to be prepared otherwise."""
    stored = _prepared.get(module)
    if stored is None or stored[0] != how or not stored[1].are_of(module):
        stored = _prepared[module] = how, _Weights(module), prepare()
    return cast(T, stored[2])


def _weights(module: nn.Module) -> list[Tensor]:
    """The weights of a module and its parts, in a fifth of the time that ``parameters`` takes."""
    own = [weight for weight in module._parameters.values() if weight is not None]
    return own + [weight for part in module._modules.values() if part is not None for weight in _weights(part)]


def _state(weight: Tensor) -> tuple[object, ...]:
    """What tells that a weight has changed, except for its numbers."""
    version = None if weight.is_inference() else weight._version
    return weight.data_ptr(), weight.shape, weight.stride(), version


def _some(weight: Tensor) -> Tensor:
    """A view of some of a weight's numbers, in whatever order it stores them."""
    step = max(1, weight.numel() // COMPARED)
    return weight.detach().as_strided((-(-weight.numel() // step),), (step,))


class Product:
    """``rows @ weight.T + bias``, without gradients.

    Args:
        weight: ``(outputs, inputs)``.
        bias: ``(outputs,)``, or None for none.
        precision: ``fp32`` (the weight's own dtype) or ``bf16``.

    Attributes:
        outputs: number of outputs.
        dtype: of the results: bfloat16 for ``bf16``, else that of the weight.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, precision: str = "fp32"):
        weight, bias = weight.detach(), None if bias is None else bias.detach().contiguous()
        self.dtype = torch.bfloat16 if precision == "bf16" else weight.dtype
        self.outputs = len(weight)
        has_packed = self.dtype == torch.float32 or (self.dtype == torch.bfloat16 and multiplies_half(weight.device))
        self._padded = has_packed and weight.device.type == "cpu" and torch.backends.mkldnn.is_available()
        self._multiply: Callable[[Tensor], Tensor]
        if self._padded:
            # PyTorch has no public API for these products; torch.compile uses the same operators.
            packed = torch.ops.mkldnn._reorder_linear_weight(weight.to(self.dtype).contiguous())
            pointwise = torch.ops.mkldnn._linear_pointwise.default
            self._multiply = lambda rows: pointwise(rows, packed, bias, "none", [], "")
        else:
            of_dtype = weight.to(self.dtype), None if bias is None else bias.to(self.dtype)
            self._multiply = lambda rows: linear(rows, *of_dtype)

    def __call__(self, rows: Tensor) -> Tensor:
        """The products ``(n, outputs)`` of ``rows (n, inputs)``, which may have any floating-point dtype.

        For more than ``ROWS`` rows the results are copied together: a caller that can use them block by block saves
        that copy.
        """
        if not self._padded:
            return self._multiply(rows.to(self.dtype))
        n = rows.shape[0]
        if 0 < n <= ROWS:
            return self._padded_product(rows, n)
        out = rows.new_empty(n, self.outputs, dtype=self.dtype)
        for start in range(0, n, ROWS):
            block = rows[start : start + ROWS]
            out[start : start + ROWS] = self._padded_product(block, len(block))
        return out

    def _padded_product(self, rows: Tensor, n: int) -> Tensor:
        """The products of at most ``ROWS`` rows, followed by zeros up to a number of rows that has been prepared."""
        size = padded(n)
        if n == size:
            return self._multiply(rows.to(self.dtype).contiguous())
        inputs = rows.new_empty(size, rows.shape[1], dtype=self.dtype)
        inputs[:n] = rows
        inputs[n:] = 0
        return self._multiply(inputs)[:n]


class PackedLinear(nn.Linear):
    """``nn.Linear`` that multiplies by a packed weight, in autocast's dtype, on a CPU without gradients."""

    __call__: Callable[..., Tensor]

    def forward(self, rows: Tensor) -> Tensor:
        if torch.is_grad_enabled() or rows.device.type != "cpu":
            own: Tensor = super().forward(rows)
            return own
        precision = "bf16" if torch.is_autocast_enabled("cpu") else "fp32"
        with torch.autocast("cpu", enabled=False):
            return prepared(self, precision, lambda: Product(self.weight, self.bias, precision))(rows)


@cache
def padded(n: int) -> int:
    """The number of rows that n rows are padded to."""
    zeros = max(0, n.bit_length() - EXACT.bit_length())
    return -(-n >> zeros) << zeros


class _Buffers(threading.local):
    by_name: dict[tuple[str, torch.dtype, torch.device], Tensor] | None = None


_thread = _Buffers()


@contextmanager
def reused() -> Iterator[None]:
    """Within the block, this thread's buffers are kept for the next call; then they are freed."""
    outer, _thread.by_name = _thread.by_name, {} if _thread.by_name is None else _thread.by_name
    try:
        yield
    finally:
        _thread.by_name = outer


def keep() -> None:
    """From here on this thread keeps its buffers, as within ``reused``."""
    if _thread.by_name is None:
        _thread.by_name = {}


def scratch(name: str, rows: int, width: int, like: Tensor) -> Tensor:
    """An uninitialised tensor ``(rows, width)``, of the dtype and device of ``like``.

    It is valid until the thread asks for the same name again; each name has memory of its own.
    """
    if _thread.by_name is None:
        return like.new_empty(rows, width)
    key = name, like.dtype, like.device
    buffer = _thread.by_name.get(key)
    if buffer is None or buffer.numel() < rows * width:
        _thread.by_name.pop(key, None)
        del buffer  # before there is a second one
        # Batches come in ascending length; the system does not count memory that nobody has written to.
        buffer = _thread.by_name[key] = like.new_empty(2 * rows * width)
    return buffer[: rows * width].view(rows, width)
