"""The built-in parser's network quantised to 8 bits, for CPUs that multiply small integers faster than floats.

Inputs of a product are represented as ``scale * (level - zero)`` with integer levels in 0 .. 255. Scale and zero
point follow from the range measured on real sentences (``measured``), not from the batch, so a sentence's
values do not depend on the rest of its batch. Weights are integers in -127 .. 127 with one scale per output
(Jacob et al. 2018). Sums use 32 bits; everything but products stays in single precision.

Shapes as in ``neural``.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from structviews.parsing import neural
from structviews.runtime.device import PAIR

# layer name -> minimum and maximum of its inputs
Ranges = Mapping[str, Sequence[float]]
LARGEST = 255
# A level with this bit the other way round is, as a signed byte, 128 less.
SIGN = 128
# So many rows, of one sentence, are not padded; of more, the number is a multiple of the second.
FEW, LEAST_ROWS = 32, 8
# So many results are calculated by a plain call: oneDNN's with packed weights takes five times as long to start.
RESULTS = 20_000
# The linear layers of a block.
LAYERS = ("gate", "mix", "qkv", "attend", "feed.0", "feed.2")
# The layers that read the words' final states.
READERS = ("arcs.dependent.0", "arcs.head.0", "relations.dependent.0", "relations.head.0", "tags")


class Grid:
    """The 256 levels, from ``low`` to ``high``, that a value is rounded to; 0 is always one of them."""

    def __init__(self, low: float, high: float):
        low, high = min(low, 0.0), max(high, 0.0)
        self.scale = (high - low) / LARGEST or 1.0
        self.zero = round(-low / self.scale)
        # Conversion to integers truncates; adding one half makes it round.
        self.shift = torch.tensor(self.zero + 0.5)

    def __call__(self, x: Tensor) -> Tensor:
        """Round to 0 .. 255, as uint8; values outside the range are clamped."""
        return levels(torch.add(self.shift, x, alpha=1 / self.scale))


def levels(shifted: Tensor) -> Tensor:
    """Levels, as uint8, from values on a grid's scale, one half above them; changes its argument."""
    # PyTorch vectorises conversion to int16 and from there to uint8, but not from float to uint8.
    return shifted.clamp_(0, LARGEST).to(torch.int16).to(torch.uint8)


def in_rows(x: Tensor) -> Tensor:
    """The rows of ``x (..., K)``: ``(R, K)``. If they are more than ``FEW``, zeros make R one of few numbers.

    oneDNN prepares the product of each new shape, which takes a fifth of a millisecond, as long as the product itself.
    """
    rows = x.flatten(0, -2)
    count = len(rows)
    if count <= FEW:
        return rows
    further = -count % max(LEAST_ROWS, 1 << (count - 1).bit_length() - 4)
    return F.pad(rows, (0, 0, 0, further)) if further else rows


class QuantisedLinear:
    """A linear layer in 8 bits: its ``weight (outputs, inputs)``, its bias, if any, and the grid of its inputs."""

    def __init__(self, weight: Tensor, bias: Tensor | None, grid: Grid):
        self.bias, self.grid = bias, grid
        # Without instructions for bytes, a CPU adds the products of inputs 2k and 2k + 1 in 16 bits. They fit if two
        # weights of one sign have at most 128 together, so results are the same on every CPU.
        pairs = F.pad(weight, (0, weight.shape[1] % 2)).unflatten(1, (-1, 2))
        sums = torch.maximum(pairs.clamp_min(0).sum(dim=2), pairs.clamp_max(0).sum(dim=2).neg())
        self.scales = (sums.amax(dim=1) / (PAIR - 1)).clamp_min(1e-12)
        integers = (weight / self.scales[:, None]).round().to(torch.int8).contiguous()
        # PyTorch has no public API for these products; torch.compile uses the same operators.
        self.packed = torch.ops.onednn.qlinear_prepack(integers, None)
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        # For few rows, whose levels are 128 less: what levels of zero would add.
        self.plain = integers.t().contiguous()
        self.offset = (SIGN - grid.zero) * integers.sum(dim=1, dtype=torch.int32)

    def __getstate__(self) -> dict[str, Any]:
        # Packed weights are laid out for this process's CPU and cannot be pickled or copied.
        return {name: each for name, each in self.__dict__.items() if name != "packed"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.packed = torch.ops.onednn.qlinear_prepack(self.plain.t().contiguous(), None)

    def __call__(self, x: Tensor) -> Tensor:
        """The outputs ``(..., outputs)`` for levels ``(..., K)`` of its grid."""
        shape = x.shape[:-1]
        return self.product(in_rows(x))[: shape.numel()].view(*shape, -1)

    def product(self, rows: Tensor, gelu: Grid | None = None) -> Tensor:
        """The outputs ``(R, outputs)`` for ``in_rows`` of levels, or with ``gelu`` the levels of their GELU on it."""
        if gelu is None and len(rows) * len(self.scales) <= RESULTS:
            sums = torch._int_mm((rows ^ SIGN).view(torch.int8), self.plain)
            # Each step rounds as oneDNN's with AVX-512, so that a sentence's scores are those that it has in a batch.
            outputs = sums.add_(self.offset).mul(self.grid.scale).mul_(self.scales)
            return outputs if self.bias is None else outputs.add_(self.bias)
        inputs = rows, self.grid.scale, self.grid.zero
        weights = self.packed, self.scales, self.zeros, self.bias
        end = (gelu.scale, gelu.zero, torch.uint8, "gelu") if gelu else (1.0, 0, torch.float32, "none")
        return torch.ops.onednn.qlinear_pointwise.default(*inputs, *weights, *end, [], "none")


class QuantisedBlock:
    """``Block`` with its linear layers in 8 bits, whose inputs have these grids, by the layers' names."""

    def __init__(self, block: neural.Block, grids: Mapping[str, Grid]):
        layers = {name: cast(nn.Linear, block.get_submodule(name)) for name in LAYERS}
        self.gate, self.mix, self.qkv, self.attend, self.first, self.last = (
            QuantisedLinear(layer.weight, layer.bias, grids[name]) for name, layer in layers.items()
        )
        # The scale and the shift of the grid that follows are in the norms' weights.
        norms = zip(cast(Iterator[nn.LayerNorm], iter(block.norms)), (self.gate, self.qkv, self.first), strict=True)
        self.before_gate, self.before_qkv, self.before_first = (
            (norm.weight / layer.grid.scale, norm.bias / layer.grid.scale + layer.grid.shift) for norm, layer in norms
        )
        self.taps = block.convolution.weight[:, 0].t().contiguous().unbind()
        self.bias = cast(Tensor, block.convolution.bias)
        self.n_heads = block.n_heads

    def __call__(self, x: Tensor, shape: torch.Size, padding: Tensor, hidden: Tensor) -> Tensor:
        """As ``Block.forward``, of ``in_rows`` of the words: ``x (R, D)``.

        ``shape`` is ``(B, n)``, ``padding`` are the rows that are no words, and ``hidden`` is what ``hiding`` gives.
        """
        count, dim = shape.numel(), x.shape[1:]
        gated = F.glu(self.gate.product(levels(torch.layer_norm(x, dim, *self.before_gate))))
        if len(padding):
            gated.index_fill_(0, padding, 0)
        # Neighbours' numbers are added for a sentence in half the time of PyTorch's convolution, which lays out inputs
        # and weights anew.
        gated, middle, n = gated[:count].view(*shape, -1), len(self.taps) // 2, shape[1]
        mixed = torch.addcmul(self.bias, gated, self.taps[middle])
        for k in range(1, min(middle + 1, n)):
            mixed.narrow(1, k, n - k).addcmul_(gated.narrow(1, 0, n - k), self.taps[middle - k])
            mixed.narrow(1, 0, n - k).addcmul_(gated.narrow(1, k, n - k), self.taps[middle + k])
        x = self.mix.product(in_rows(self.mix.grid(F.silu(mixed, inplace=True)))).add_(x)
        qkv = self.qkv.product(levels(torch.layer_norm(x, dim, *self.before_qkv)))[:count].view(*shape, -1)
        x = self.attend.product(in_rows(self.attend.grid(neural.attended(qkv, hidden, self.n_heads)))).add_(x)
        inner = self.first.product(levels(torch.layer_norm(x, dim, *self.before_first)), gelu=self.last.grid)
        return self.last.product(inner).add_(x)


def bilinear(weight: Tensor, grid: Grid) -> QuantisedLinear:
    """The form ``[d; 1] W [h; 1]`` of a ``Biaffine``, with one W for each of C channels, as a linear layer of ``d``.

    The first ``C hidden`` outputs are to be multiplied by ``h``, channel by channel; the last C are to be added.
    """
    turned = weight.transpose(1, 2)
    outputs = torch.cat([turned[:, :-1].flatten(0, 1), turned[:, -1]])
    return QuantisedLinear(outputs[:, :-1], outputs[:, -1].contiguous(), grid)


class QuantisedNetwork:
    """``ParserNetwork`` with its linear layers in 8 bits, by what was ``measured`` of it; it can only parse.

    Layers with the same inputs are one product. Both ends of a span share one grid, so that their difference is an
    integer.
    """

    @torch.no_grad()
    def __init__(self, network: neural.ParserNetwork, ranges: Ranges):
        grids = {name: Grid(*each) for name, each in ranges.items()}
        words, spans = network.words, network.spans
        self.tables = words.form.weight, words.hashed.weight
        self.project = QuantisedLinear(words.project.weight, words.project.bias, grids["words.project"])
        self.word_norm = words.norm
        self.blocks = [
            QuantisedBlock(cast(neural.Block, block), {name: grids[f"blocks.{i}.{name}"] for name in LAYERS})
            for i, block in enumerate(network.blocks)
        ]
        self.norm = network.norm
        low, high = zip(*(ranges[name] for name in (*READERS, "spans.first")), strict=True)
        self.grid = Grid(min(low), max(high))
        readers = [cast(nn.Linear, network.get_submodule(name)) for name in READERS]
        self.sizes = [len(each.weight) for each in readers]
        weight, bias = (torch.cat([getattr(each, name) for each in readers]) for name in ("weight", "bias"))
        self.readers = QuantisedLinear(weight, bias, self.grid)
        self.root, self.edges = self.grid(network.root), self.grid(spans.edges)
        self.arc_form = bilinear(network.arcs.weight, grids["arcs.form"])
        self.relation_form = bilinear(network.relations.weight, grids["relations.form"])
        self.post_grid, self.post_bias = grids["spans.posts"], spans.bias
        self.posts = QuantisedLinear(spans.first.weight, None, self.grid)
        self.labels = QuantisedLinear(spans.last.weight, spans.last.bias, Grid(0.0, self.post_grid.scale * LARGEST))

    def words(self, features: Tensor) -> Tensor:
        """As ``WordEmbedding.forward``."""
        return self.word_norm(self.project(self.project.grid(neural.gathered(features, *self.tables))))

    def outputs(self, words: Tensor, mask: Tensor) -> neural.Outputs:
        """As ``ParserNetwork.outputs``."""
        padding = (~mask).flatten().nonzero()[:, 0]
        hidden = neural.hiding(mask, self.blocks[0].n_heads)
        x = in_rows(words)
        for block in self.blocks:
            x = block(x, mask.shape, padding, hidden)
        states = self.grid(self.norm(x[: mask.numel()]).view_as(words))
        read = self.readers(torch.cat([self.root.expand(len(states), 1, -1), states], dim=1))
        dependent, head, dependents, heads, tags = read.split(self.sizes, dim=-1)
        F.leaky_relu_(read[..., : -self.sizes[-1]], neural.SLOPE)
        factors = self.arc_form(self.arc_form.grid(dependent))
        arcs = torch.baddbmm(factors[..., -1:], factors[..., :-1], head.transpose(1, 2))
        posts = self.posts(neural.around(states, mask, self.edges))
        ends = self.post_grid(posts + self.post_bias)
        return neural.Outputs(tags[:, 1:], arcs, dependents, heads, (self.post_grid(posts), ends))

    def relations(self, dependent: Tensor, head: Tensor) -> Tensor:
        """As ``Biaffine.forward``, for states without the constant 1."""
        outputs = self.relation_form(self.relation_form.grid(dependent))
        channels = outputs.shape[1] // (head.shape[1] + 1)
        factors, added = outputs[:, :-channels], outputs[:, -channels:]
        return factors.view(*added.shape, -1).mul_(head[:, None]).sum(dim=-1).add_(added)

    def spans(self, posts: neural.Fenceposts, first: Tensor, last: Tensor) -> Tensor:
        """As ``SpanScorer.forward``."""
        starts, ends = (each.flatten(0, 1) for each in posts)
        before = starts.index_select(0, first)
        # Unsigned integers have no difference below 0.
        return self.labels(torch.maximum(ends.index_select(0, last), before).sub_(before))


@contextmanager
def measured(network: neural.ParserNetwork) -> Iterator[Ranges]:
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
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Linear) and layer is not spans.last:  # whose inputs are integer differences
            hooks.append(layer.register_forward_pre_hook(lambda _, inputs, name=name: note(name, *inputs)))
    try:
        yield ranges
    finally:
        for hook in hooks:
            hook.remove()
