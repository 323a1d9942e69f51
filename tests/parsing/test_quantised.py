"""Products in 8 bits against the same ones of floats, within what rounding explains."""

import pickle

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from structviews.parsing import neural
from structviews.parsing.neural import ParserConfig, ParserNetwork, gains
from structviews.parsing.quantised import FEW, RESULTS, Grid, QuantisedLinear, QuantisedNetwork, measured
from structviews.runtime.device import quick_arithmetic

pytestmark = pytest.mark.skipif("int8" not in quick_arithmetic(), reason="the CPU has no products in 8 bits")

CONFIG = ParserConfig(
    n_words=10, n_tags=5, n_relations=4, n_labels=3, buckets=20, word_dim=16, affix_dim=8,
    dim=48, blocks=2, heads=2, arc_dim=24, relation_dim=16, span_dim=32,
)  # fmt: skip


@pytest.fixture
def network():
    network = ParserNetwork(CONFIG).eval()
    for name, parameter in network.named_parameters():
        if parameter.dim() > 1 or "norm" not in name:
            nn.init.normal_(parameter, std=0.15)
    return network


def run(network, features, mask):
    """Everything that the parser asks of a network."""
    outputs = network.outputs(network.words(features), mask)
    sentence, word = mask.nonzero(as_tuple=True)
    return {
        "tags": outputs.tags[mask],
        "arcs": outputs.arcs.log_softmax(dim=-1),
        "relations": network.relations(outputs.dependents[sentence, word + 1], outputs.heads[sentence, word]),
        "spans": network.spans(outputs.posts, first := sentence * (mask.shape[1] + 1), first + word + 1),
        "gains": gains(network.spans, outputs.posts),
    }


def quantised(network, features, mask):
    """The network in 8 bits, calibrated on these words."""
    with torch.inference_mode(), measured(network) as ranges:
        run(network, features, mask)
    return QuantisedNetwork(network, ranges)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 3.0), (0.5, 2.0), (-4.0, -1.0), (0.0, 0.0)])
def test_a_grid_rounds_to_the_nearest_number(low, high):
    grid = Grid(low, high)
    x = torch.linspace(min(low, 0), max(high, 0), 1000)
    back = (grid(x).float() - grid.zero) * grid.scale
    assert (back - x).abs().max() <= grid.scale / 2 * 1.001
    assert grid(torch.tensor([low - 100, high + 100])).tolist() == ([0, 255] if low < high else [0, 100])
    assert (grid(torch.zeros(1)).float() - grid.zero).item() == 0


def largest_of_pairs(row):
    """The largest number of a row, or the sum of the numbers of one sign at places 2k and 2k + 1."""
    return max(sum(max(sign * x, 0) for x in row[k : k + 2]) for k in range(0, len(row), 2) for sign in (1, -1))


@torch.inference_mode()
@pytest.mark.parametrize("rows", [1, FEW + 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_are_exact_on_any_cpu(rows, sign):
    weight = sign * torch.ones(RESULTS // FEW, 41)
    layer = QuantisedLinear(weight, None, Grid(0.0, 255.0))
    found = layer(torch.full((rows, 41), 255, dtype=torch.uint8))
    torch.testing.assert_close(found, torch.full_like(found, sign * 255 * 41), rtol=0.01, atol=0)


@torch.inference_mode()
def test_a_linear_layer_is_the_product_of_its_integers():
    linear, x = nn.Linear(40, 24), torch.randn(3, 7, 40)
    layer = QuantisedLinear(linear.weight, linear.bias, Grid(-2.5, 3.0))
    scale = torch.tensor([[largest_of_pairs(row)] for row in linear.weight.tolist()]) / 127
    weight = (linear.weight / scale).round() * scale
    rounded = (layer.grid(x).float() - layer.grid.zero) * layer.grid.scale
    expected = F.linear(rounded.double(), weight.double(), linear.bias.double()).float()
    torch.testing.assert_close(layer(layer.grid(x)), expected, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("bias", [None, torch.randn(600)])
def test_a_product_is_the_same_in_any_number_of_rows(bias):
    layer = QuantisedLinear(torch.randn(600, 40), bias, Grid(-2.5, 3.0))
    x = layer.grid(torch.randn(FEW + 37, 40))
    together = layer(x)
    assert together.shape == (FEW + 37, 600)
    assert together.numel() > RESULTS > 600 * FEW
    apart = torch.cat([layer(x[:5]), layer(x[5:6]), layer(x[6:FEW]), layer(x[FEW:])])
    torch.testing.assert_close(apart, together, rtol=0, atol=1e-5)  # with AVX2, oneDNN rounds in another order


@torch.inference_mode()
@pytest.mark.parametrize("n", [1, 2, 9])  # words without neighbours, with one, and with all that are convolved
def test_a_network_in_8_bits_scores_as_one_of_floats_and_the_same_after_pickling(network, features, mask, n):
    features, mask = features[:, :n], mask[:, :n]
    expected = run(network, features, mask)
    small = quantised(network, features, mask)
    again = run(pickle.loads(pickle.dumps(small)), features, mask)
    for name, scores in run(small, features, mask).items():
        error = (scores - expected[name]).pow(2).mean().sqrt()
        assert error < 0.08 * expected[name].std(), name
        assert torch.equal(again[name], scores), name


@torch.inference_mode()
@pytest.mark.parametrize("spans", [3, neural.SPANS])
def test_gains_are_of_the_scores_span_by_span(network, features, mask, spans, monkeypatch):
    monkeypatch.setattr(neural, "SPANS", spans)
    for each in (network, quantised(network, features, mask)):
        posts = each.outputs(each.words(features), mask).posts
        best = gains(each.spans, posts)
        for b, n in enumerate(mask.sum(dim=1).tolist()):
            for width in range(1, n + 1):
                for start in range(n + 1 - width):
                    first = torch.tensor([b * (mask.shape[1] + 1) + start])
                    (scores,) = each.spans(posts, first, first + width)
                    expected = scores[1:].max() - scores[0]
                    torch.testing.assert_close(best[width, start, b], expected, rtol=1e-4, atol=1e-4)
