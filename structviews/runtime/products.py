"""Matrix products with a constant weight, prepared once for many calls; for inference.

On the CPU, oneDNN multiplies by a weight that it has laid out for its own loops: for the shapes of our encoders 2.3
times as fast as ``torch.mm`` in fp32 on a CPU that MKL does not favour, a tenth faster in bf16, and in 8 bits twice
as fast as in bf16 (docs/performance.md). It prepares a product for each new number of rows, which takes as long as
multiplying a hundred rows; so rows are padded to few numbers.

In 8 bits, inputs are ``(integer - 128) / 127`` with integers in 0 .. 255, which suits the states of Tree-LSTMs and
GRUs: they lie between -1 and 1. Weights are integers in -127 .. 127 with one scale per output (Jacob et al. 2018). Sums
use 32 bits.

Shapes: n rows.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from structviews.runtime.device import multiplies_half

# The most rows multiplied at once. More are not faster, and their results do not stay in the cache.
ROWS = 256
# Larger numbers of rows are rounded up to a multiple of this.
MULTIPLE = 16
ZERO, LARGEST = 128, 127

T = TypeVar("T")
# Numbers of a weight that are compared: an optimiser's step changes all of them.
COMPARED = 32
# What was prepared of each module, and for which state of its weights.
_known: "WeakKeyDictionary[nn.Module, tuple[object, Any]]" = WeakKeyDictionary()


def prepared(module: nn.Module, how: Hashable, make: Callable[[], T]) -> T:
    """What ``make`` prepares of a module's weights; kept until they change, or it is to be prepared otherwise."""
    state = how, [_state(weight) for weight in module.parameters()]
    known = _known.get(module)
    if known is None or known[0] != state:
        known = _known[module] = state, make()
    made: T = known[1]
    return made


def _state(weight: Tensor) -> tuple[object, ...]:
    """What tells that a weight has changed: PyTorch counts its changes, but not those by fused optimisers."""
    numbers = weight.detach().flatten()
    some = numbers[:: max(1, len(numbers) // COMPARED)].tolist()
    return weight.data_ptr(), weight.dtype, None if weight.is_inference() else weight._version, *some


class Product:
    """``rows @ weight.T + bias``, without gradients.

    Args:
        weight: ``(outputs, inputs)``.
        bias: ``(outputs,)``, or None for none.
        precision: ``fp32`` (the weight's own dtype), ``bf16``, or ``int8`` for inputs between -1 and 1, on a CPU.

    Attributes:
        outputs: number of outputs.
        dtype: of the results: bfloat16 for ``bf16``, else that of the weight.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, precision: str = "fp32"):
        weight, self._bias = weight.detach(), None if bias is None else bias.detach().contiguous()
        self.dtype = torch.bfloat16 if precision == "bf16" else weight.dtype
        self.outputs = len(weight)
        self._inputs_dtype = torch.uint8 if precision == "int8" else self.dtype
        self._padded = True
        if precision == "int8":
            self._multiply = _in_bytes(weight, self._bias)
        elif _has_packed(self.dtype, weight.device):
            self._multiply = _packed(weight.to(self.dtype), self._bias)
        else:
            self._padded = False
            of_dtype = weight.to(self.dtype), None if self._bias is None else self._bias.to(self.dtype)
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
            return self._multiply(self._inputs(rows))[:n]
        out = rows.new_empty(n, self.outputs, dtype=self.dtype)
        for start in range(0, n, ROWS):
            block = rows[start : start + ROWS]
            out[start : start + ROWS] = self._multiply(self._inputs(block))[: len(block)]
        return out

    def _inputs(self, rows: Tensor) -> Tensor:
        """The rows as the product reads them, followed by zeros up to a number of rows that has been prepared."""
        n, width = rows.shape
        size = padded(n)
        if n == size and self._inputs_dtype != torch.uint8:
            return rows.to(self._inputs_dtype).contiguous()
        inputs = rows.new_empty(size, width, dtype=self._inputs_dtype)
        if self._inputs_dtype == torch.uint8:
            # Truncation rounds what one half was added to. PyTorch vectorises both conversions, but not a direct one.
            rows = rows.float().mul(LARGEST).add_(ZERO + 0.5).to(torch.int16)
        inputs[:n] = rows
        if n < size:
            inputs[n:] = 0
        return inputs


def of_words(precision: str) -> str:
    """The precision of products with word vectors where those with states have this one."""
    return "bf16" if precision == "int8" else precision


def padded(n: int) -> int:
    """The number of rows that n rows are padded to."""
    return n if n < MULTIPLE else -(-n // MULTIPLE) * MULTIPLE


def _has_packed(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether oneDNN multiplies matrices of this dtype."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and multiplies_half(device))


# PyTorch has no public API for these products; torch.compile uses the same operators.


def _packed(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())

    def multiply(rows: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise.default(rows, weight, bias, "none", [], "")
        return product

    return multiply


def _in_bytes(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    scales = (weight.abs().amax(dim=1) / LARGEST).clamp_min(1e-12)
    integers = (weight / scales[:, None]).round().to(torch.int8)
    weights = torch.ops.onednn.qlinear_prepack(integers, None), scales, torch.zeros(len(weight), dtype=torch.int32)

    def multiply(rows: Tensor) -> Tensor:
        inputs = rows, 1 / LARGEST, ZERO
        product: Tensor = torch.ops.onednn.qlinear_pointwise.default(
            *inputs, *weights, bias, 1.0, 0, torch.float32, "none", [], "none"
        )
        return product

    return multiply
