import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st

from structviews.parsing import neural
from structviews.parsing.neural import Featuriser, ParserConfig, ParserNetwork

CONFIG = ParserConfig(
    n_words=10, n_tags=5, n_relations=4, n_labels=3, buckets=20, word_dim=8, affix_dim=4,
    dim=12, blocks=2, heads=2, arc_dim=6, relation_dim=5, span_dim=7, dropout=0.3,
)  # fmt: skip


def filled(module):
    """The module with random parameters everywhere, also where they start at zero."""
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.eval()


def test_padding_changes_nothing(features, mask):
    network = filled(ParserNetwork(CONFIG))
    words = network.words(features)
    together = network.outputs(words, mask)
    for b, n in enumerate(mask.sum(dim=1).tolist()):
        alone = network.outputs(words[b : b + 1, :n], mask[b : b + 1, :n])
        torch.testing.assert_close(together.tags[b, :n], alone.tags[0], rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(together.arcs[b, : n + 1, : n + 1], alone.arcs[0], rtol=1e-5, atol=1e-4)
        for posts, own in zip(together.posts, alone.posts, strict=True):
            torch.testing.assert_close(posts[b, : n + 1], own[0], rtol=1e-5, atol=1e-4)


def test_attention_is_masked_on_the_device_of_the_mask():
    assert neural.hiding(torch.ones(2, 3, dtype=torch.bool, device="meta"), 4).device.type == "meta"


def test_every_parameter_learns(features, mask):
    network = ParserNetwork(CONFIG).train()
    outputs = network.outputs(network.words(features), mask)
    sentence, word = mask.nonzero(as_tuple=True)
    first = sentence * (mask.shape[1] + 1) + word
    relations = network.relations(outputs.dependents[sentence, word + 1], outputs.heads[sentence, word])
    spans = network.spans(outputs.posts, first, first + 1)
    sum(each.pow(2).sum() for each in (outputs.tags, outputs.arcs, relations, spans)).backward()
    without = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


def test_arcs_and_relations_are_bilinear_forms_with_linear_terms():
    form = filled(neural.Biaffine(12, 6, 3, 0.3))
    x = torch.randn(2, 4, 12)
    dependents, heads = form.project(x)
    arcs = form.all_pairs(dependents, heads)
    assert arcs.shape == (2, 4, 4)
    for b, d, h in itertools.product(range(2), range(4), range(4)):
        dependent, head = form.dependent(x[b, d]), form.head(x[b, h])
        expected = []
        for weight in form.weight:
            bilinear = sum(dependent[i] * weight[i, j] * head[j] for i in range(6) for j in range(6))
            expected.append(bilinear + dependent @ weight[:6, 6] + weight[6, :6] @ head + weight[6, 6])
        torch.testing.assert_close(arcs[b, d, h], expected[0], rtol=1e-4, atol=1e-4)
        (chosen,) = form(dependents[b, d][None], heads[b, h][None])
        torch.testing.assert_close(chosen, torch.stack(expected), rtol=1e-4, atol=1e-4)


def test_spans_are_differences_of_fenceposts(mask):
    spans = filled(neural.SpanScorer(CONFIG))
    x = torch.randn(*mask.shape, CONFIG.dim)
    posts = spans.fenceposts(x, mask)
    half = CONFIG.dim // 2
    for b, n in enumerate(mask.sum(dim=1).tolist()):
        words = [spans.edges[0], *x[b, :n], spans.edges[1]]
        fenceposts = [torch.cat([words[i][:half], words[i + 1][half:]]) for i in range(n + 1)]
        for start in range(n):
            for end in range(start + 1, n + 1):
                hidden = F.relu(spans.first.weight @ (fenceposts[end] - fenceposts[start]) + spans.bias)
                expected = spans.last(hidden)
                first = torch.tensor([b * (mask.shape[1] + 1)])
                got = spans(posts, first + start, first + end)[0]
                torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_dropout_is_the_same_of_every_word_and_dropped_words_lose_their_form_only():
    kept = neural.SharedDropout(0.25).train()(torch.ones(200, 3, 50))
    assert kept.unique().tolist() == pytest.approx([0, 4 / 3])
    assert (kept == kept[:, :1]).all()
    assert kept.mean().item() == pytest.approx(1, abs=0.03)
    forms, hashed = neural.drop_words(torch.full((50, 40, 7), 5), 0.2).split([1, 6], dim=-1)
    assert (hashed == 5).all()
    assert set(forms.unique().tolist()) == {neural.UNKNOWN, 5}
    assert (forms == neural.UNKNOWN).float().mean().item() == pytest.approx(0.2, abs=0.04)


FORMS = ["the", "bird", "0000", "don't"]


@pytest.mark.parametrize(
    ("word", "row"),
    [
        ("bird", (3, 3037, 1392, 3374, 2324, 2768, 1327)),
        ("1984", (4, 3781, 3279, 932, 33, 1324, 512)),
        ("Don’t", (5, 136, 1963, 1691, 676, 3421, 605)),
        ("😀", (1, 3434, 3434, 2458, 2458, 2458, 619)),
    ],
)
def test_rows_stay_as_the_shipped_weights_were_trained(word, row):
    form, *buckets = row
    assert Featuriser(FORMS, 4000)([word]).tolist() == [[form, *(i * 4000 + n for i, n in enumerate(buckets))]]


@settings(max_examples=30)
@given(st.lists(st.text(), max_size=20))
def test_remembered_rows_are_the_computed_ones(words):
    featuriser = Featuriser(FORMS, 50)
    first = featuriser(words)
    assert (first.dtype, first.shape) == (np.int32, (len(words), 7))
    assert (first[:, 1:] // 50 == range(6)).all()
    np.testing.assert_array_equal(featuriser(words), first)
    for word, row in zip(words, first.tolist(), strict=True):
        assert Featuriser(FORMS, 50)([word]).tolist() == [row]
