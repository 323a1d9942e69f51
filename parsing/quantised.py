"""The built-in parser's network in 8 bits, for CPUs that multiply small integers faster than floats.

What goes into a product is written as ``scale * (integer - zero)`` with integers of 0 .. 255. Scale and zero
follow from the range that was measured on real sentences (``measured``) and not from the batch, so that a
sentence has the same numbers whatever it shares its batch with. Weights are integers of -127 .. 127 with one
scale for each output (Jacob et al. 2018). Sums are of 32 bits; all that is no product stays in single precision.

Shapes as in ``neural``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .neural import Biaffine, ParserNetwork, SpanScorer, gains, in_blocks

# name of a layer -> the least and the greatest number that comes into it
Ranges = dict[str, list[float]]
LARGEST = 255
# Rows of a biaffine form's outputs that stay in the cache.
ROWS = 128


class Grid:
    """The 256 numbers that a value is rounded to.

    Args:
        low: the least value; 0 is always among the numbers.
        high: the greatest.
    """

    def __init__(self, low: float, high: float):
        low, high = min(low, 0.0), max(high, 0.0)
        self.scale = (high - low) / LARGEST or 1.0
        self.zero = round(-low / self.scale)
        # Conversion to integers cuts off, so half a step rounds.
        self._shift = torch.tensor(self.zero + 0.5)

    def __call__(self, x: Tensor) -> Tensor:
        """Round to integers, uint8; what is outside becomes the nearest one."""
        rounded = torch.add(self._shift, x, alpha=1 / self.scale).clamp_(0, LARGEST)
        # PyTorch has vector instructions for both steps, but not for one to uint8: a sixth of the whole parser's time.
        return rounded.to(torch.int16).to(torch.uint8)


class QuantisedLinear(nn.Module):
    """A linear layer in 8 bits.

    Args:
        weight: ``(outputs, inputs)``.
        bias: ``(outputs,)`` or None.
        grid: of its inputs.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, grid: Grid):
        super().__init__()
        self.grid = grid
        self.scales = (weight.abs().amax(dim=1) / 127).clamp_min(1e-12)
        integers = (weight / self.scales[:, None]).round().to(torch.int8)
        # PyTorch has no public name for these products, which torch.compile uses.
        self.packed = torch.ops.onednn.qlinear_prepack(integers, None)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.bias = bias

    @classmethod
    def of(cls, linear: nn.Linear, low: float, high: float) -> "QuantisedLinear":
        """A linear layer whose inputs are from ``low`` to ``high``."""
        return cls(linear.weight, linear.bias, Grid(low, high))

    def forward(self, x: Tensor) -> Tensor:
        return self.product(self.grid(x))

    def product(self, integers: Tensor) -> Tensor:
        """The layer's outputs, float32, for inputs on its grid."""
        return self._product(integers, 1.0, 0, torch.float32, "none")

    def gelu(self, integers: Tensor, grid: Grid) -> Tensor:
        """The outputs after GELU, on another grid."""
        return self._product(integers, grid.scale, grid.zero, torch.uint8, "gelu")

    def _product(self, integers: Tensor, scale: float, zero: int, kind: torch.dtype, activation: str) -> Tensor:
        inputs = integers, self.grid.scale, self.grid.zero
        weights = self.packed, self.scales, self.zeros, self.bias
        return torch.ops.onednn.qlinear_pointwise(*inputs, *weights, scale, zero, kind, activation, [], "none")


class QuantisedFeedForward(nn.Module):
    """Two linear layers with GELU between them, in 8 bits throughout."""

    def __init__(self, first: QuantisedLinear, last: QuantisedLinear):
        super().__init__()
        self.first = first
        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        return self.last.product(self.first.gelu(self.first.grid(x), self.last.grid))


class QuantisedBiaffine(nn.Module):
    """``Biaffine`` with its linear layers and its form in 8 bits.

    The form ``[d; 1] W [h; 1]`` is a linear layer of ``d``, multiplied by ``[h; 1]``.

    Args:
        biaffine: its ``dependent`` and ``head`` layers are quantised already.
        grid: of the dependents' hidden states.
    """

    def __init__(self, biaffine: Biaffine, grid: Grid):
        super().__init__()
        self.dependent = biaffine.dependent
        self.head = biaffine.head
        self.channels, _, size = biaffine.weight.shape
        weight = biaffine.weight.transpose(1, 2).reshape(self.channels * size, size)
        self.form = QuantisedLinear(weight[:, :-1].contiguous(), weight[:, -1].contiguous(), grid)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The two sides of every position; the constant 1 is left to ``all_pairs`` and ``pairs``."""
        return self.dependent(x), self.head(x)

    def all_pairs(self, x: Tensor) -> Tensor:
        """As ``Biaffine.all_pairs``."""
        dependent, head = self.project(x)
        mixed = self.form(dependent)
        return torch.baddbmm(mixed[..., -1:], mixed[..., :-1], head.transpose(1, 2))

    def pairs(self, dependent: Tensor, head: Tensor) -> Tensor:
        """As ``Biaffine.pairs``, of states without the constant 1."""
        return in_blocks(self._pairs, ROWS, dependent, head)

    def _pairs(self, dependent: Tensor, head: Tensor) -> Tensor:
        mixed = self.form(dependent).view(len(dependent), self.channels, -1)
        return (mixed[..., :-1] * head[:, None]).sum(dim=-1) + mixed[..., -1]


class QuantisedSpanScorer(nn.Module):
    """``SpanScorer`` with its linear layers in 8 bits.

    Both ends of a span are on one grid, so that their difference is one of integers.

    Args:
        spans: its ``first`` layer is quantised already.
        low, high: the range of fenceposts.
    """

    def __init__(self, spans: SpanScorer, low: float, high: float):
        super().__init__()
        self.spans = spans
        self.grid = Grid(low, high)
        self.last = QuantisedLinear(spans.last.weight, spans.last.bias, Grid(0.0, self.grid.scale * LARGEST))

    def fenceposts(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The fenceposts ``(B, n + 1, span_dim)`` as starts and as ends of spans, uint8."""
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
    """Note, while it parses, the range of all that is going to be rounded in a network of floats."""
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
    """Put 8-bit layers in the place of a network's own, which cannot be trained or saved any more."""
    layers = {name: QuantisedLinear.of(linear, *ranges[name]) for name, linear in _linear_layers(network).items()}
    for name, layer in layers.items():
        network.set_submodule(name, layer)
    for feed in (f"blocks.{i}.feed" for i in range(len(network.blocks))):
        network.set_submodule(feed, QuantisedFeedForward(layers[f"{feed}.0"], layers[f"{feed}.2"]))
    network.set_submodule("arcs", QuantisedBiaffine(network.arcs, Grid(*ranges["arcs.form"])))
    network.set_submodule("relations", QuantisedBiaffine(network.relations, Grid(*ranges["relations.form"])))
    network.set_submodule("spans", QuantisedSpanScorer(network.spans, *ranges["spans.posts"]))


def _linear_layers(network: ParserNetwork) -> dict[str, nn.Linear]:
    """The layers that take floats; the last one of spans takes differences of integers."""
    layers = {name: module for name, module in network.named_modules() if isinstance(module, nn.Linear)}
    del layers["spans.last"]
    return layers
