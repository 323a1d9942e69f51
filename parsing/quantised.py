"""The built-in parser's network quantised to 8 bits, for CPUs that multiply small integers faster than floats.

Inputs of a product are represented as ``scale * (integer - zero)`` with integers in 0 .. 255. Scale and zero
point follow from the range measured on real sentences (``measured``), not from the batch, so a sentence's
values do not depend on the rest of its batch. Weights are integers in -127 .. 127 with one scale per output
(Jacob et al. 2018). Sums use 32 bits; everything but products stays in single precision.

Shapes as in ``neural``.
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from structviews.parsing.neural import Biaffine, Block, ParserNetwork, SpanScorer, attended, convolved, gains, in_blocks

# layer name -> minimum and maximum of its inputs
Ranges = dict[str, list[float]]
LARGEST = 255
# Rows of a product are a multiple of this.
LEAST_ROWS = 16
# Rows of a biaffine layer computed at a time, so that its outputs stay in the CPU cache.
ROWS = 256


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
        """Round to 0 .. 255, as int16; values outside the range are clamped."""
        return levels(torch.add(self._shift, x, alpha=1 / self.scale))

    def onto(self, norm: nn.LayerNorm) -> nn.LayerNorm:
        """The layer norm with scale and shift in its weights: ``levels`` of its outputs are rounded to this grid."""
        scaled = copy.deepcopy(norm).requires_grad_(requires_grad=False)
        scaled.weight.div_(self.scale)
        scaled.bias.div_(self.scale).add_(self._shift)
        return scaled


def levels(shifted: Tensor) -> Tensor:
    """Integers 0 .. 255, as int16, from values on a grid's scale, one half above them; changes its argument."""
    # PyTorch vectorises conversion to int16 and from there to uint8 (see ``in_rows``), but not from float to uint8.
    return shifted.clamp_(0, LARGEST).to(torch.int16)


def in_rows(integers: Tensor) -> Tensor:
    """Integers ``(..., K)`` as uint8 ``(R, K)`` with one of few R, the last rows arbitrary.

    oneDNN prepares the product of each new shape, which takes a fifth of a millisecond, as long as the product itself.
    """
    rows = integers.flatten(0, -2)
    count = len(rows)
    step = max(LEAST_ROWS, 1 << max(0, (count - 1).bit_length() - 4))
    wanted = -(-count // step) * step
    if integers.dtype == torch.uint8 and wanted == count:
        return rows
    filled = torch.empty(wanted, rows.shape[1], dtype=torch.uint8)
    filled[:count] = rows
    return filled


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
        integers = (weight / self.scales[:, None]).round().to(torch.int8).contiguous()
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
        """The layer's outputs ``(..., outputs)`` for inputs ``(..., K)`` that are already on its grid."""
        outputs = self._product(in_rows(integers), 1.0, 0, torch.float32, "none")
        return outputs[: integers.shape[:-1].numel()].view(*integers.shape[:-1], -1)

    def gelu(self, integers: Tensor, grid: Grid) -> Tensor:
        """The outputs ``(R, outputs)`` after GELU, rounded to another grid, in the rows of ``in_rows``."""
        return self._product(in_rows(integers), grid.scale, grid.zero, torch.uint8, "gelu")

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


class QuantisedBlock(nn.Module):
    """``Block`` for inference, with its linear layers in 8 bits.

    Args:
        block: the block of floats.
        layers: its linear layers in 8 bits, by name.
    """

    def __init__(self, block: Block, layers: Mapping[str, QuantisedLinear]):
        super().__init__()
        self.gate, self.mix, self.qkv, self.attend = (layers[name] for name in ("gate", "mix", "qkv", "attend"))
        self.first, self.last = layers["feed.0"], layers["feed.2"]
        grids = (layer.grid for layer in (self.gate, self.qkv, self.first))
        norms = cast("Iterator[nn.LayerNorm]", iter(block.norms))
        self.norms = nn.ModuleList(grid.onto(norm) for grid, norm in zip(grids, norms, strict=True))
        self.convolution, self.n_heads = block.convolution, block.n_heads

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """As ``Block.forward``."""
        gated = F.glu(self.gate.product(levels(self.norms[0](x))), dim=-1).mul_(mask[..., None])
        x = self.mix(F.silu(convolved(self.convolution, gated))).add_(x)
        x = self.attend(attended(self.qkv.product(levels(self.norms[1](x))), mask, self.n_heads)).add_(x)
        hidden = self.first.gelu(levels(self.norms[2](x)), self.last.grid)
        encoded: Tensor = self.last.product(hidden)[: mask.numel()].view_as(x).add_(x)
        return encoded


class QuantisedBiaffine(nn.Module):
    """``Biaffine`` with its linear layers and its bilinear form in 8 bits.

    The form ``[d; 1] W [h; 1]`` is computed as two linear layers of ``d``: one is multiplied by ``h``, the other added.

    Args:
        biaffine: its ``dependent`` and ``head`` layers are already quantised.
        grid: grid of the dependents' hidden states.
    """

    def __init__(self, biaffine: Biaffine, grid: Grid):
        super().__init__()
        self.dependent = biaffine.dependent
        self.head = biaffine.head
        self.channels, _, size = biaffine.weight.shape
        weight = biaffine.weight.transpose(1, 2)
        self.form, self.linear = (
            QuantisedLinear(part[:, :-1], part[:, -1].contiguous(), grid)
            for part in (weight[:, :-1].reshape(-1, size), weight[:, -1])
        )

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Project every position as dependent and as head; ``all_pairs`` and ``pairs`` add the constant 1."""
        return self.dependent(x), self.head(x)

    def all_pairs(self, x: Tensor) -> Tensor:
        """As ``Biaffine.all_pairs``."""
        dependent, head = self.project(x)
        integers = self.form.grid(dependent)
        return torch.baddbmm(self.linear.product(integers), self.form.product(integers), head.transpose(1, 2))

    def pairs(self, dependent: Tensor, head: Tensor) -> Tensor:
        """As ``Biaffine.pairs``, for states without the constant 1."""
        return in_blocks(self._pairs, ROWS, dependent, head)

    def _pairs(self, dependent: Tensor, head: Tensor) -> Tensor:
        integers = self.form.grid(dependent)
        mixed = self.form.product(integers).view(len(dependent), self.channels, -1)
        return mixed.mul_(head[:, None]).sum(dim=-1).add_(self.linear.product(integers))


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
        starts, ends = self.grid(posts), self.grid(posts + self.spans.bias)
        return starts.to(torch.uint8), ends.to(torch.uint8)

    def forward(self, posts: tuple[Tensor, Tensor], sentence: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """As ``SpanScorer.forward``."""
        starts, ends = (each.flatten(0, 1) for each in posts)
        first = sentence * posts[0].shape[1]
        return self._scores(starts.index_select(0, first + start), ends.index_select(0, first + end))

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
    for i, block in enumerate(network.blocks):
        start = f"blocks.{i}."
        own = {name.removeprefix(start): layer for name, layer in layers.items() if name.startswith(start)}
        network.blocks[i] = QuantisedBlock(cast("Block", block), own)
    network.set_submodule("arcs", QuantisedBiaffine(network.arcs, Grid(*ranges["arcs.form"])))
    network.set_submodule("relations", QuantisedBiaffine(network.relations, Grid(*ranges["relations.form"])))
    network.set_submodule("spans", QuantisedSpanScorer(network.spans, *ranges["spans.posts"]))


def _linear_layers(network: ParserNetwork) -> dict[str, nn.Linear]:
    """The linear layers with float inputs; the last one of ``spans`` takes integer differences."""
    layers = {name: module for name, module in network.named_modules() if isinstance(module, nn.Linear)}
    del layers["spans.last"]
    return layers
