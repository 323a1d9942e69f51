"""Products in 8 bits against the same ones of floats, within what rounding explains."""

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from structviews.parsing import neural
from structviews.parsing.features import Featuriser
from structviews.parsing.neural import ParserConfig, ParserNetwork
from structviews.parsing.quantised import (
    Grid,
    QuantisedLinear,
    in_rows,
    measured,
    quantise,
)
from structviews.runtime.device import multiplies_bytes

pytestmark = pytest.mark.skipif(not multiplies_bytes(), reason="the CPU has no products in 8 bits")

CONFIG = ParserConfig(
    n_words=10, n_tags=5, n_relations=4, n_labels=3, buckets=20, word_dim=16, affix_dim=8,
    dim=48, blocks=2, heads=2, arc_dim=24, relation_dim=16, span_dim=32,
)  # fmt: skip
LENGTHS = (1, 4, 9)


@pytest.fixture
def mask():
    return torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


@pytest.fixture
def features(mask):
    return torch.randint(0, 10, (*mask.shape, 1 + Featuriser.n_hashed), dtype=torch.int32)


@pytest.fixture
def network():
    network = ParserNetwork(CONFIG).eval()
    for name, parameter in network.named_parameters():
        if parameter.dim() > 1 or "norm" not in name:
            nn.init.normal_(parameter, std=0.15)
    return network


def run(network, features, mask):
    """Everything that the parser asks of a network."""
    states = network.encode(features, mask)
    rooted = network.with_root(states)
    posts = network.spans.fenceposts(states, mask)
    sentence, word = mask.nonzero(as_tuple=True)
    return {
        "tags": network.tags(states[mask]),
        "arcs": network.arcs.all_pairs(rooted).log_softmax(dim=-1),
        "relations": network.relation_scores(rooted, sentence, word + 1, word),
        "spans": network.spans(posts, sentence, torch.zeros_like(word), word + 1),
        "gains": network.spans.gains(posts),
    }


@pytest.mark.parametrize(("low", "high"), [(-1.0, 3.0), (0.0, 2.0), (0.5, 2.0), (-4.0, -1.0), (0.0, 0.0)])
def test_a_grid_rounds_to_the_nearest_number(low, high):
    grid = Grid(low, high)
    x = torch.linspace(min(low, 0), max(high, 0), 1000)
    back = (grid(x).float() - grid.zero) * grid.scale
    assert (back - x).abs().max() <= grid.scale / 2 * 1.001
    assert grid(torch.tensor([low - 100, high + 100])).tolist() == ([0, 255] if low < high else [0, 100])
    assert (grid(torch.zeros(1)).float() - grid.zero).item() == 0


def test_a_linear_layer_is_the_product_of_its_integers():
    linear, x = nn.Linear(40, 24), torch.randn(3, 7, 40)
    layer = QuantisedLinear.of(linear, -2.5, 3.0)
    scale = linear.weight.abs().amax(dim=1, keepdim=True) / 127
    weight = (linear.weight / scale).round() * scale
    rounded = (layer.grid(x).float() - layer.grid.zero) * layer.grid.scale
    expected = F.linear(rounded.double(), weight.double(), linear.bias.double()).float()
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [1, 16, 17, 300, 1000, 1025])
def test_rows_have_one_of_few_sizes(count):
    integers = torch.randint(0, 256, (count, 2, 5), dtype=torch.int16)
    rows = in_rows(integers)
    assert rows.dtype == torch.uint8
    assert torch.equal(rows[: 2 * count].int(), integers.view(-1, 5).int())
    assert len(rows) % 16 == 0
    assert 2 * count <= len(rows) <= max(16, 2.25 * count + 16)
    assert in_rows(rows) is rows or in_rows(rows).data_ptr() == rows.data_ptr()


def test_a_product_is_the_same_in_any_number_of_rows():
    layer, x = QuantisedLinear.of(nn.Linear(40, 24), -2.5, 3.0), torch.randn(37, 40)
    together = layer(x)
    assert together.shape == (37, 24)
    assert torch.equal(torch.cat([layer(x[:5]), layer(x[5:6]), layer(x[6:])]), together)


@torch.inference_mode()
def test_a_block_is_that_of_floats(network, mask):
    x = torch.randn(*mask.shape, CONFIG.dim)
    with measured(network) as ranges:
        expected = network.blocks[0](x, mask)
        run(network, torch.zeros(*mask.shape, 1 + Featuriser.n_hashed, dtype=torch.int32), mask)
    small = copy.deepcopy(network)
    quantise(small, ranges)
    found = small.blocks[0](x.clone(), mask)
    assert (found - expected)[mask].abs().max() < 0.05 * expected[mask].abs().max()


@torch.inference_mode()
def test_attention_weighs_words_and_nothing_else(network, mask):
    with measured(network) as ranges:
        run(network, torch.zeros(*mask.shape, 1 + Featuriser.n_hashed, dtype=torch.int32), mask)
    quantise(network, ranges)
    x = torch.randn(*mask.shape, CONFIG.dim)
    together = network.blocks[0](x, mask)
    for b, n in enumerate(LENGTHS):
        alone = network.blocks[0](x[b : b + 1, :n], mask[b : b + 1, :n])
        torch.testing.assert_close(alone[0], together[b, :n], rtol=1e-2, atol=2e-2)


@torch.inference_mode()
def test_a_network_in_8_bits_scores_as_one_of_floats(network, features, mask):
    with measured(network) as ranges:
        expected = run(network, features, mask)
    small = copy.deepcopy(network)
    quantise(small, ranges)
    assert not any(
        isinstance(module, nn.Linear) for name, module in small.named_modules() if name != "spans.spans.last"
    )
    for name, scores in run(small, features, mask).items():
        error = (scores - expected[name]).pow(2).mean().sqrt()
        assert error < 0.08 * expected[name].std(), name


@torch.inference_mode()
@pytest.mark.parametrize("spans", [3, neural.SPANS])
def test_gains_are_of_the_scores_span_by_span(network, features, mask, spans, monkeypatch):
    monkeypatch.setattr(neural, "SPANS", spans)
    with measured(network) as ranges:
        network.encode(features, mask)
        run(network, features, mask)
    small = copy.deepcopy(network)
    quantise(small, ranges)
    for each in (network, small):
        posts = each.spans.fenceposts(each.encode(features, mask), mask)
        gains = each.spans.gains(posts)
        for b, n in enumerate(LENGTHS):
            for width in range(1, n + 1):
                for start in range(n + 1 - width):
                    index = (torch.tensor([i]) for i in (b, start, start + width))
                    (scores,) = each.spans(posts, *index)
                    expected = scores[1:].max() - scores[0]
                    torch.testing.assert_close(gains[width, start, b], expected, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_what_is_measured_is_what_comes_in(network, features, mask):
    with measured(network) as ranges:
        states = network.encode(features, mask)
        network.tags(states)
        network.tags(states * 3)
    assert ranges["tags"] == pytest.approx([3 * states.min().item(), 3 * states.max().item()])
    hidden = network.blocks[1].feed[0]
    assert set(ranges) >= {"words.project", "blocks.0.qkv", "blocks.1.feed.2"}
    assert not hidden._forward_pre_hooks
