"""The built-in parser's network quantised to 8 bits, for CPUs that multiply small integers faster than floats.

Inputs of a product are represented as ``scale * (integer - zero)`` with integers in 0 .. 255. Scale and zero
point follow from the range measured on real sentences (``measured``), not from the batch, so a sentence's
values do not depend on the rest of its batch. Weights are integers in -127 .. 127 with one scale per output
(Jacob et al. 2018). Sums use 32 bits; everything but products stays in single precision.

Shapes as in ``neural``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from structviews.parsing.neural import Biaffine, ParserNetwork, SpanScorer, gains, in_blocks

# layer name -> minimum and maximum of its inputs
Ranges = dict[str, list[float]]
LARGEST = 255
# Rows of a biaffine layer computed at a time, so that its outputs stay in the CPU cache.
ROWS = 128


class Grid:
    """The 256 levels that a value is rounded to.

    Args:
        low: the smallest value; 0 is always one of the levels.
        high: the largest value.
    """

    def __init__(self, low: float, high: float):
        low, high = min(low, 0.0), max(high, 0.0)
        self.scale = (high - low) / LARGEST or 1.0
        self.zero = round(-low / self.scale)
        # Conversion to integers truncates; adding one half makes it round.
        self._shift = torch.tensor(self.zero + 0.5)

    def __call__(self, x: Tensor) -> Tensor:
        """Round to uint8; values outside the range are clamped."""
        rounded = torch.add(self._shift, x, alpha=1 / self.scale).clamp_(0, LARGEST)
        # PyTorch vectorises both steps, but not a direct conversion to uint8: a sixth of the whole parser's time.
        return rounded.to(torch.int16).to(torch.uint8)


class QuantisedLinear(nn.Module):
    """A linear layer in 8 bits.

    Args:
        weight: ``(outputs, inputs)``.
        bias: ``(outputs,)`` or None.
        grid: grid of the inputs.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, grid: Grid):
        super().__init__()
        weight, bias = weight.detach(), None if bias is None else bias.detach()
        self.grid = grid
        self.scales = (weight.abs().amax(dim=1) / 127).clamp_min(1e-12)
        integers = (weight / self.scales[:, None]).round().to(torch.int8)
        self.packed = packed(integers)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.bias = bias

    def __getstate__(self) -> dict[str, Any]:
        # Packed weights are laid out for this process's CPU and cannot be pickled or copied.
        return self.__dict__ | {"packed": self.packed.to_dense().t().contiguous()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state | {"packed": packed(state["packed"])})  # type: ignore[no-untyped-call]  # in PyTorch

    @classmethod
    def of(cls, linear: nn.Linear, low: float, high: float) -> "QuantisedLinear":
        """Quantise a linear layer whose inputs range from ``low`` to ``high``."""
        return cls(linear.weight, linear.bias, Grid(low, high))

    def forward(self, x: Tensor) -> Tensor:
        return self.product(self.grid(x))

    def product(self, integers: Tensor) -> Tensor:
        """The layer's outputs, float32, for inputs that are already on its grid."""
        return self._product(integers, 1.0, 0, torch.float32, "none")

    def gelu(self, integers: Tensor, grid: Grid) -> Tensor:
        """The outputs after GELU, rounded to another grid."""
        return self._product(integers, grid.scale, grid.zero, torch.uint8, "gelu")

    def _product(self, integers: Tensor, scale: float, zero: int, kind: torch.dtype, activation: str) -> Tensor:
        inputs = integers, self.grid.scale, self.grid.zero
        weights = self.packed, self.scales, self.zeros, self.bias
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            *inputs, *weights, scale, zero, kind, activation, [], "none"
        )
        return product


def packed(integers: Tensor) -> Tensor:
    """Weights ``(outputs, inputs)``, int8, as the products read them."""
    # PyTorch has no public API for these products; torch.compile uses the same operators.
    weights: Tensor = torch.ops.onednn.qlinear_prepack(integers, None)
    return weights


class QuantisedFeedForward(nn.Module):
    """Two linear layers with GELU between them, in 8 bits throughout."""

    def __init__(self, first: QuantisedLinear, last: QuantisedLinear):
        super().__init__()
        self.first = first
        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        return self.last.product(self.first.gelu(self.first.grid(x), self.last.grid))


class QuantisedBiaffine(nn.Module):
    """``Biaffine`` with its linear layers and its bilinear form in 8 bits.

    The form ``[d; 1] W [h; 1]`` is computed as a linear layer of ``d``, multiplied by ``[h; 1]``.

    Args:
        biaffine: its ``dependent`` and ``head`` layers are already quantised.
        grid: grid of the dependents' hidden states.
    """

    def __init__(self, biaffine: Biaffine, grid: Grid):
        super().__init__()
        self.dependent = biaffine.dependent
        self.head = biaffine.head
        self.channels, _, size = biaffine.weight.shape
        weight = biaffine.weight.transpose(1, 2).reshape(self.channels * size, size)
        self.form = QuantisedLinear(weight[:, :-1].contiguous(), weight[:, -1].contiguous(), grid)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Project every position as dependent and as head; ``all_pairs`` and ``pairs`` add the constant 1."""
        return self.dependent(x), self.head(x)

    def all_pairs(self, x: Tensor) -> Tensor:
        """As ``Biaffine.all_pairs``."""
        dependent, head = self.project(x)
        mixed = self.form(dependent)
        return torch.baddbmm(mixed[..., -1:], mixed[..., :-1], head.transpose(1, 2))

    def pairs(self, dependent: Tensor, head: Tensor) -> Tensor:
        """As ``Biaffine.pairs``, for states without the constant 1."""
        return in_blocks(self._pairs, ROWS, dependent, head)

    def _pairs(self, dependent: Tensor, head: Tensor) -> Tensor:
        mixed: Tensor = self.form(dependent).view(len(dependent), self.channels, -1)
        return (mixed[..., :-1] * head[:, None]).sum(dim=-1) + mixed[..., -1]


class QuantisedSpanScorer(nn.Module):
    """``SpanScorer`` with its linear layers in 8 bits.

    Both ends of a span share one grid, so that their difference is an integer.

    Args:
        spans: its ``first`` layer is already quantised.
        low, high: range of the fenceposts.
    """

    def __init__(self, spans: SpanScorer, low: float, high: float):
        super().__init__()
        self.spans = spans
        self.grid = Grid(low, high)
        self.last = QuantisedLinear(spans.last.weight, spans.last.bias, Grid(0.0, self.grid.scale * LARGEST))

    def fenceposts(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The fenceposts ``(B, n + 1, span_dim)`` as span starts and as span ends, uint8."""
        posts = self.spans.fenceposts(x, mask)
        return self.grid(posts), self.grid(posts + self.spans.bias)

    def forward(self, posts: tuple[Tensor, Tensor], sentence: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """As ``SpanScorer.forward``."""
        starts, ends = posts
        return self._scores(starts[sentence, start], ends[sentence, end])

    def gains(self, posts: tuple[Tensor, Tensor]) -> Tensor:
        """As ``SpanScorer.gains``."""
        starts, ends = (each.transpose(0, 1).contiguous() for each in posts)
        return gains(starts, ends, self._between, self.last.product)

    def _scores(self, starts: Tensor, ends: Tensor) -> Tensor:
        return self.last.product(self._between(starts, ends))

    def _between(self, starts: Tensor, ends: Tensor) -> Tensor:
        return torch.maximum(ends, starts).sub_(starts)


@contextmanager
def measured(network: ParserNetwork) -> Iterator[Ranges]:
    """Record, while a floating-point network parses, the range of every value that will be quantised."""
    ranges: Ranges = {}

    def note(name: str, *values: Tensor) -> None:
        low, high = ranges.get(name, (0.0, 0.0))
        ranges[name] = [min(low, *(v.min().item() for v in values)), max(high, *(v.max().item() for v in values))]

    spans = network.spans
    hooks = [
        network.arcs.dependent.register_forward_hook(lambda *call: note("arcs.form", call[-1])),
        network.relations.dependent.register_forward_hook(lambda *call: note("relations.form", call[-1])),
        spans.first.register_forward_hook(lambda *call: note("spans.posts", call[-1], call[-1] + spans.bias)),
    ]
    for name, layer in _linear_layers(network).items():
        hooks.append(layer.register_forward_pre_hook(lambda _, inputs, name=name: note(name, *inputs)))
    try:
        yield ranges
    finally:
        for hook in hooks:
            hook.remove()


def quantise(network: ParserNetwork, ranges: Ranges) -> None:
    """Replace a network's layers with 8-bit ones; it can then no longer be trained or saved."""
    layers = {name: QuantisedLinear.of(linear, *ranges[name]) for name, linear in _linear_layers(network).items()}
    for name, layer in layers.items():
        network.set_submodule(name, layer)
    for feed in (f"blocks.{i}.feed" for i in range(len(network.blocks))):
        network.set_submodule(feed, QuantisedFeedForward(layers[f"{feed}.0"], layers[f"{feed}.2"]))
    network.set_submodule("arcs", QuantisedBiaffine(network.arcs, Grid(*ranges["arcs.form"])))
    network.set_submodule("relations", QuantisedBiaffine(network.relations, Grid(*ranges["relations.form"])))
    network.set_submodule("spans", QuantisedSpanScorer(network.spans, *ranges["spans.posts"]))


def _linear_layers(network: ParserNetwork) -> dict[str, nn.Linear]:
    """The linear layers with float inputs; the last one of ``spans`` takes integer differences."""
    layers = {name: module for name, module in network.named_modules() if isinstance(module, nn.Linear)}
    del layers["spans.last"]
    return layers
