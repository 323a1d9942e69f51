"""The built-in parser's network quantised to 8 bits, for CPUs that multiply small integers faster than floats.

Inputs of a product are represented as ``scale * (integer - zero)`` with integers in 0 .. 255. Scale and zero
point follow from the range measured on real sentences (``measured``), not from the batch, so a sentence's
values do not depend on the rest of its batch. Weights are integers in -127 .. 127 with one scale per output
(Jacob et al. 2018). Sums use 32 bits; everything but products stays in single precision.

Shapes as in ``neural``.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from structviews.parsing.neural import (
    SLOPE,
    Biaffine,
    Block,
    Outputs,
    ParserNetwork,
    SpanScorer,
    WordEmbedding,
    around,
    attended,
    gains,
    gathered,
    hiding,
    in_blocks,
)

# layer name -> minimum and maximum of its inputs
Ranges = Mapping[str, Sequence[float]]
LARGEST = 255
# A level with this bit the other way round is, as a signed byte, 128 less.
SIGN = 128
# So many rows, of one sentence, are not padded; of more, the number is a multiple of the second.
FEW, LEAST_ROWS = 32, 8
# So many results are calculated by a plain call: oneDNN's with packed weights takes five times as long to start.
RESULTS = 20_000
# Rows of a biaffine layer computed at a time, so that its outputs stay in the CPU cache.
ROWS = 256
# The linear layers of a block.
LAYERS = ("gate", "mix", "qkv", "attend", "feed.0", "feed.2")
# The layers that read the words' final states.
READERS = ("arcs.dependent.0", "arcs.head.0", "relations.dependent.0", "relations.head.0", "tags", "spans.first")


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
        self.shift = torch.tensor(self.zero + 0.5)

    def __call__(self, x: Tensor) -> Tensor:
        """Round to 0 .. 255, as int16; values outside the range are clamped."""
        return levels(torch.add(self.shift, x, alpha=1 / self.scale))


class RoundedNorm:
    """A layer norm whose outputs are rounded to a grid; scale and shift are in its weights."""

    def __init__(self, norm: nn.LayerNorm, grid: Grid):
        self.weight = norm.weight.detach() / grid.scale
        self.bias = norm.bias.detach() / grid.scale + grid.shift
        self.shape, self.eps = norm.normalized_shape, norm.eps

    def __call__(self, x: Tensor) -> Tensor:
        """Round to 0 .. 255, as uint8."""
        return levels(torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)).to(torch.uint8)


def levels(shifted: Tensor) -> Tensor:
    """Integers 0 .. 255, as int16, from values on a grid's scale, one half above them; changes its argument."""
    # PyTorch vectorises conversion to int16 and from there to uint8, but not from float to uint8.
    return shifted.clamp_(0, LARGEST).to(torch.int16)


@lru_cache(1024)
def few_rows(count: int) -> int:
    """The number of rows that so many are padded to: one of few, unless there are ``FEW``.

    oneDNN prepares the product of each new shape, which takes a fifth of a millisecond, as long as the product itself.
    """
    if count <= FEW:
        return count
    step = max(LEAST_ROWS, 1 << (count - 1).bit_length() - 4)
    return -(-count // step) * step


def in_rows(integers: Tensor) -> Tensor:
    """Integers ``(..., K)`` as uint8 ``(R, K)`` with ``few_rows``, the last rows zeros."""
    rows = integers.flatten(0, -2).to(torch.uint8)
    further = few_rows(len(rows)) - len(rows)
    return F.pad(rows, (0, 0, 0, further)) if further else rows


class QuantisedLinear:
    """A linear layer in 8 bits.

    Args:
        weight: ``(outputs, inputs)``.
        bias: ``(outputs,)`` or None.
        grid: grid of the inputs.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, grid: Grid):
        weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        self.grid = grid
        self.scales = (weight.abs().amax(dim=1) / 127).clamp_min(1e-12)
        integers = (weight / self.scales[:, None]).round().to(torch.int8).contiguous()
        self.packed = packed(integers)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        # For few rows, whose levels are 128 less: what levels of zero would add.
        self.plain = integers.t().contiguous()
        self.offset = (SIGN - grid.zero) * integers.sum(dim=1, dtype=torch.int32)

    def __getstate__(self) -> dict[str, Any]:
        # Packed weights are laid out for this process's CPU and cannot be pickled or copied.
        return {name: each for name, each in self.__dict__.items() if name != "packed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, packed=packed(state["plain"].t().contiguous()))

    @classmethod
    def of(cls, linear: nn.Linear, grid: Grid) -> "QuantisedLinear":
        """Quantise a linear layer."""
        return cls(linear.weight, linear.bias, grid)

    def __call__(self, x: Tensor) -> Tensor:
        """The outputs ``(..., outputs)`` for inputs ``(..., K)``."""
        return self.of_levels(self.grid(x))

    def of_levels(self, integers: Tensor) -> Tensor:
        """The outputs ``(..., outputs)`` for inputs ``(..., K)`` that are already on its grid."""
        shape = integers.shape[:-1]
        return self.product(in_rows(integers))[: shape.numel()].view(*shape, -1)

    def product(self, integers: Tensor) -> Tensor:
        """The outputs ``(R, outputs)`` for inputs ``(R, K)`` on its grid, in uint8 and ``few_rows``."""
        if integers.shape[0] * self.scales.shape[0] <= RESULTS:
            sums = torch._int_mm((integers ^ SIGN).view(torch.int8), self.plain)
            # Each step rounds as oneDNN does, so that a sentence's scores are those that it has in a batch.
            outputs = sums.add_(self.offset).mul(self.grid.scale).mul_(self.scales)
            return outputs if self.bias is None else outputs.add_(self.bias)
        return self._product(integers, 1.0, 0, torch.float32, "none")

    def gelu(self, integers: Tensor, grid: Grid) -> Tensor:
        """The outputs after GELU, rounded to another grid, as uint8; see ``product``."""
        return self._product(integers, grid.scale, grid.zero, torch.uint8, "gelu")

    def _product(self, integers: Tensor, scale: float, zero: int, kind: torch.dtype, activation: str) -> Tensor:
        inputs = integers, self.grid.scale, self.grid.zero
        weights = self.packed, self.scales, self.zeros, self.bias
        product: Tensor = torch.ops.onednn.qlinear_pointwise.default(
            *inputs, *weights, scale, zero, kind, activation, [], "none"
        )
        return product


def packed(integers: Tensor) -> Tensor:
    """Weights ``(outputs, inputs)``, int8, as the products read them."""
    # PyTorch has no public API for these products; torch.compile uses the same operators.
    weights: Tensor = torch.ops.onednn.qlinear_prepack(integers, None)
    return weights


class QuantisedWords:
    """``WordEmbedding`` with its linear layer in 8 bits."""

    def __init__(self, words: WordEmbedding, grid: Grid):
        self.tables = words.form.weight.detach(), words.hashed.weight.detach(), words.offsets
        self.norm = words.norm
        self.project = QuantisedLinear.of(words.project, grid)

    def __call__(self, features: Tensor) -> Tensor:
        """As ``WordEmbedding.forward``."""
        words: Tensor = self.norm(self.project(gathered(features, *self.tables)))
        return words


class QuantisedBlock:
    """``Block`` with its linear layers in 8 bits.

    Args:
        block: the block of floats.
        grids: grids of its linear layers' inputs, by name.
    """

    def __init__(self, block: Block, grids: dict[str, Grid]):
        layers = {name: QuantisedLinear.of(layer, grids[name]) for name, layer in _linear_layers(block).items()}
        self.gate, self.mix, self.qkv, self.attend, self.first, self.last = (layers[name] for name in LAYERS)
        norms = cast("Iterator[nn.LayerNorm]", iter(block.norms))
        self.before_gate, self.before_qkv, self.before_first = (
            RoundedNorm(norm, layer.grid) for norm, layer in zip(norms, (self.gate, self.qkv, self.first), strict=True)
        )
        convolution = block.convolution
        self.taps = convolution.weight.detach()[:, 0].t().contiguous().unbind()
        self.bias = cast("Tensor", convolution.bias)
        self.n_heads = block.n_heads

    def __call__(self, x: Tensor, shape: torch.Size, padding: Tensor, hidden: Tensor) -> Tensor:
        """As ``Block.forward``.

        Args:
            x: ``(R, D)``, the words of all sentences in ``few_rows``.
            shape: ``(B, n)``.
            padding: the rows of padding.
            hidden: see ``neural.hiding``.
        """
        count = shape.numel()
        gated = F.glu(self.gate.product(self.before_gate(x)))
        if len(padding):
            gated.index_fill_(0, padding, 0)
        mixed = F.silu(convolved(gated[:count].view(*shape, -1), self.taps, self.bias), inplace=True)
        x = self.mix.product(in_rows(self.mix.grid(mixed))).add_(x)
        qkv = self.qkv.product(self.before_qkv(x))[:count].view(*shape, -1)
        x = self.attend.product(in_rows(self.attend.grid(attended(qkv, hidden, self.n_heads)))).add_(x)
        return self.last.product(self.first.gelu(self.before_first(x), self.last.grid)).add_(x)


def convolved(x: Tensor, taps: Sequence[Tensor], bias: Tensor) -> Tensor:
    """Convolve the words of ``x (B, n, D)`` by taps ``(D,)``, one for each neighbour and for the word itself."""
    # For a sentence in half the time of PyTorch's convolution, which lays out inputs and weights anew.
    middle, n = len(taps) // 2, x.shape[1]
    out = torch.addcmul(bias, x, taps[middle])
    for k in range(1, min(middle + 1, n)):
        out.narrow(1, k, n - k).addcmul_(x.narrow(1, 0, n - k), taps[middle - k])
        out.narrow(1, 0, n - k).addcmul_(x.narrow(1, k, n - k), taps[middle + k])
    return out


class QuantisedForm:
    """The bilinear form of a ``Biaffine`` in 8 bits.

    The form ``[d; 1] W [h; 1]`` is computed as a linear layer of ``d``: for each channel, as many outputs as ``h`` has
    numbers are multiplied by ``h``, and one more is added.

    Args:
        biaffine: the layer of floats.
        grid: grid of the dependents' hidden states.
    """

    def __init__(self, biaffine: Biaffine, grid: Grid):
        self.channels, _, size = biaffine.weight.shape
        weight = biaffine.weight.transpose(1, 2)
        outputs = torch.cat([weight[:, :-1].reshape(-1, size), weight[:, -1]])
        self.layer = QuantisedLinear(outputs[:, :-1], outputs[:, -1].contiguous(), grid)

    def all_pairs(self, dependent: Tensor, head: Tensor) -> Tensor:
        """As ``Biaffine.between``, for states without the constant 1."""
        factor, added = self._factors(dependent)
        return torch.baddbmm(added, factor, head.transpose(1, 2))

    def pairs(self, dependent: Tensor, head: Tensor) -> Tensor:
        """As ``Biaffine.pairs``, for states without the constant 1."""
        return in_blocks(self._pairs, ROWS, dependent, head)

    def _pairs(self, dependent: Tensor, head: Tensor) -> Tensor:
        factor, added = self._factors(dependent)
        return factor.view(len(factor), self.channels, -1).mul_(head[:, None]).sum(dim=-1).add_(added)

    def _factors(self, dependent: Tensor) -> tuple[Tensor, Tensor]:
        outputs = self.layer(dependent)
        return outputs[..., : -self.channels], outputs[..., -self.channels :]


class QuantisedSpanScorer:
    """``SpanScorer`` with its linear layers in 8 bits.

    Both ends of a span share one grid, so that their difference is an integer.

    Args:
        spans: the layer of floats.
        states: grid of the words' states.
        posts: grid of the fenceposts.
    """

    def __init__(self, spans: SpanScorer, states: Grid, posts: Grid):
        self.first = QuantisedLinear.of(spans.first, states)
        self.last = QuantisedLinear.of(spans.last, Grid(0.0, posts.scale * LARGEST))
        self.edges, self.bias, self.grid = states(spans.edges.detach()), spans.bias.detach(), posts

    def fenceposts(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The fenceposts ``(B, n + 1, span_dim)`` as span starts and as span ends, uint8; states are on their grid."""
        posts = self.first.of_levels(around(states, mask, self.edges))
        return self.grid(posts).to(torch.uint8), self.grid(posts + self.bias).to(torch.uint8)

    def __call__(self, posts: tuple[Tensor, Tensor], sentence: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """As ``SpanScorer.forward``."""
        first = sentence * posts[0].shape[1]
        return self._scores(*posts, first + start, first + end)

    def gains(self, posts: tuple[Tensor, Tensor]) -> Tensor:
        """As ``SpanScorer.gains``."""
        batch, n_posts, _ = posts[0].shape
        return gains(batch, n_posts, lambda start, end: self._scores(*posts, start, end))

    def _scores(self, starts: Tensor, ends: Tensor, start: Tensor, end: Tensor) -> Tensor:
        before = starts.flatten(0, 1).index_select(0, start)
        # Unsigned integers have no difference below 0.
        between = torch.maximum(ends.flatten(0, 1).index_select(0, end), before).sub_(before)
        return self.last.of_levels(between)


class QuantisedNetwork:
    """``ParserNetwork`` with its linear layers in 8 bits; it can only parse.

    Layers with the same inputs are one product.

    Args:
        network: the network of floats.
        ranges: what was ``measured`` of it.
    """

    def __init__(self, network: ParserNetwork, ranges: Ranges):
        grids = {name: Grid(*each) for name, each in ranges.items()}
        self.words = QuantisedWords(network.words, grids["words.project"])
        self.blocks = []
        for i, block in enumerate(network.blocks):
            own = {name: grids[f"blocks.{i}.{name}"] for name in LAYERS}
            self.blocks.append(QuantisedBlock(cast("Block", block), own))
        self.norm = network.norm
        arcs, relations = network.arcs, network.relations
        perceptrons = [arcs.dependent, arcs.head, relations.dependent, relations.head]
        readers = [*(cast("nn.Linear", each[0]) for each in perceptrons), network.tags]
        self.sizes = [len(each.weight) for each in readers]
        low, high = zip(*(ranges[name] for name in READERS), strict=True)
        self.grid = Grid(min(low), max(high))
        weight, bias = (torch.cat([getattr(each, name) for each in readers]) for name in ("weight", "bias"))
        self.readers = QuantisedLinear(weight, bias, self.grid)
        self.root = self.grid(network.root.detach())
        self.arcs = QuantisedForm(arcs, grids["arcs.form"])
        self.relations = QuantisedForm(relations, grids["relations.form"])
        self.spans = QuantisedSpanScorer(network.spans, self.grid, grids["spans.posts"])

    def outputs(self, words: Tensor, mask: Tensor) -> Outputs:
        """As ``ParserNetwork.outputs``."""
        states = self.grid(self.contextualise(words, mask))
        read = self.readers.of_levels(torch.cat([self.root.expand(len(states), 1, -1), states], dim=1))
        dependent, head, dependents, heads, tags = read.split(self.sizes, dim=-1)
        F.leaky_relu_(read[..., : -self.sizes[-1]], SLOPE)
        arcs = self.arcs.all_pairs(dependent, head)
        return Outputs(tags[:, 1:], arcs, dependents, heads, self.spans.fenceposts(states, mask))

    def contextualise(self, words: Tensor, mask: Tensor) -> Tensor:
        """As ``ParserNetwork.contextualise``."""
        count = mask.numel()
        x = words.flatten(0, 1)
        if further := few_rows(count) - count:
            x = F.pad(x, (0, 0, 0, further))
        padding = (~mask).flatten().nonzero()[:, 0]
        hidden = hiding(mask, self.blocks[0].n_heads)
        for block in self.blocks:
            x = block(x, mask.shape, padding, hidden)
        states: Tensor = self.norm(x[:count]).view_as(words)
        return states


@contextmanager
def measured(network: ParserNetwork) -> Iterator[Ranges]:
    """Record, while a floating-point network parses, the range of every value that will be quantised."""
    ranges: dict[str, list[float]] = {}

    def note(name: str, *values: Tensor) -> None:
        low, high = ranges.get(name, (0.0, 0.0))
        ranges[name] = [min(low, *(v.min().item() for v in values)), max(high, *(v.max().item() for v in values))]

    spans = network.spans
    hooks = [
        network.arcs.dependent.register_forward_hook(lambda *call: note("arcs.form", call[-1])),
        network.relations.dependent.register_forward_hook(lambda *call: note("relations.form", call[-1])),
        spans.first.register_forward_hook(lambda *call: note("spans.posts", call[-1], call[-1] + spans.bias)),
    ]
    layers = _linear_layers(network)
    del layers["spans.last"]  # its inputs are integer differences
    for name, layer in layers.items():
        hooks.append(layer.register_forward_pre_hook(lambda _, inputs, name=name: note(name, *inputs)))
    try:
        yield ranges
    finally:
        for hook in hooks:
            hook.remove()


def _linear_layers(module: nn.Module) -> dict[str, nn.Linear]:
    """Its linear layers by name."""
    return {name: each for name, each in module.named_modules() if isinstance(each, nn.Linear)}
