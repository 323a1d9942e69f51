"""Matrix products with a constant weight, prepared once for many calls; for inference. Shapes: n rows.

On the CPU, oneDNN multiplies by a weight that it has laid out for its own loops, for the shapes of our encoders a
tenth to twice as fast as ``linear`` (docs/log.md). It prepares a product for each new number of rows, which
takes as long as multiplying a hundred rows; so rows are padded to few numbers, by an eighth at most.

The system gives large blocks of memory back and forth page by page, and filling a fresh one takes as long as a fifth
of encoding does. So within ``reused``, or after ``keep``, a thread keeps the buffers of ``scratch``.
"""

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from structviews.runtime.device import multiplies_half

# The most rows multiplied at once. More are not faster, and their results do not stay in the cache.
ROWS = 256
EXACT = 15  # larger numbers of rows are rounded up to as many bits as this one has

T = TypeVar("T")
COMPARED = 8  # numbers of a weight that are compared: an optimiser's step changes all of them


class _Prepared(NamedTuple):
    """What was prepared of a module's weights, how, and the weights as they were then.

    PyTorch counts the changes of a weight, but not those by fused optimisers, so some of its numbers are compared too.
    They are looked up in place: making these views takes longer than reading them. The views also keep the weights'
    memory, so that no other weight is at the same address.
    """

    how: Hashable
    states: Sequence[tuple[object, ...]]
    some: list[Tensor]
    numbers: Tensor
    result: Any


_prepared: "WeakKeyDictionary[nn.Module, _Prepared]" = WeakKeyDictionary()


def prepared(module: nn.Module, how: Hashable, prepare: Callable[[], T]) -> T:
    """What ``prepare`` makes of a module's weights; stored until they change, or it is to be prepared otherwise."""
    weights = _weights(module)
    states = [(w.data_ptr(), w.shape, w.stride(), None if w.is_inference() else w._version) for w in weights]
    stored = _prepared.get(module)
    is_same = stored is not None and stored.how == how and stored.states == states
    if stored is None or not is_same or not torch.equal(torch.cat(stored.some), stored.numbers):
        steps = [max(1, weight.numel() // COMPARED) for weight in weights]
        # In whatever order a weight stores its numbers.
        some = [w.detach().as_strided((-(-w.numel() // n),), (n,)) for w, n in zip(weights, steps, strict=True)]
        stored = _prepared[module] = _Prepared(how, states, some, torch.cat(some), prepare())
    return cast(T, stored.result)


def _weights(module: nn.Module) -> list[Tensor]:
    """The weights of a module and its parts, in a fifth of the time that ``parameters`` takes."""
    own = [weight for weight in module._parameters.values() if weight is not None]
    return own + [weight for part in module._modules.values() if part is not None for weight in _weights(part)]


class Product:
    """``rows @ weight.T + bias``, without gradients.

    The weight is ``(outputs, inputs)``, the bias ``(outputs,)``. For the precision ``bf16`` results are of this dtype,
    for ``fp32`` of the weight's own.
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
        """The products ``(n, outputs)`` of ``rows (n, inputs)``, of any floating-point dtype.

        Those of more than ``ROWS`` rows are copied together: a caller that uses them block by block saves that copy.
        """
        if not self._padded:
            return self._multiply(rows.to(self.dtype))
        n = rows.shape[0]
        if n > ROWS or not n:
            out = rows.new_empty(n, self.outputs, dtype=self.dtype)
            for start in range(0, n, ROWS):
                out[start : start + ROWS] = self(rows[start : start + ROWS])
            return out
        zeros = max(0, n.bit_length() - EXACT.bit_length())
        size = -(-n >> zeros) << zeros
        if n == size:
            return self._multiply(rows.to(self.dtype).contiguous())
        inputs = rows.new_empty(size, rows.shape[1], dtype=self.dtype)
        inputs[:n] = rows
        inputs[n:] = 0  # up to a number of rows that has been prepared
        return self._multiply(inputs)[:n]


class PackedLinear(nn.Linear):
    """``nn.Linear`` that multiplies by a packed weight, in autocast's dtype, on a CPU without gradients."""

    __call__: Callable[..., Tensor]

    def forward(self, rows: Tensor) -> Tensor:
        if torch.is_grad_enabled() or rows.device.type != "cpu":
            return super().forward(rows)
        precision = "bf16" if torch.is_autocast_enabled("cpu") else "fp32"
        with torch.autocast("cpu", enabled=False):
            return prepared(self, precision, lambda: Product(self.weight, self.bias, precision))(rows)


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
    """An uninitialised tensor ``(rows, width)`` like another, valid until the thread asks for the same name again."""
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
