import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st

from structviews.parsing.neural import (
    UNKNOWN,
    Biaffine,
    Featuriser,
    ParserConfig,
    ParserNetwork,
    SharedDropout,
    SpanScorer,
    WordEmbedding,
    drop_words,
    in_blocks,
)

LENGTHS = (1, 4, 9)
CONFIG = ParserConfig(
    n_words=10, n_tags=5, n_relations=4, n_labels=3, buckets=20, word_dim=8, affix_dim=4,
    dim=12, blocks=2, heads=2, arc_dim=6, relation_dim=5, span_dim=7, dropout=0.3,
)  # fmt: skip


def filled(module):
    """The module with random parameters everywhere, also where they start at zero."""
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.eval()


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(7)


@pytest.fixture
def network():
    return filled(ParserNetwork(CONFIG))


@pytest.fixture
def mask():
    return torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def features_like(mask):
    return torch.randint(0, 10, (*mask.shape, 1 + Featuriser.n_hashed), dtype=torch.int32)


def test_padding_changes_nothing(network, mask):
    features = features_like(mask)
    states = network.encode(features, mask)
    posts = network.spans.fenceposts(states, mask)
    arcs = network.arcs.all_pairs(network.with_root(states))
    for b, n in enumerate(LENGTHS):
        alone_mask = mask[b : b + 1, :n]
        alone = network.encode(features[b : b + 1, :n], alone_mask)
        torch.testing.assert_close(states[b, :n], alone[0], rtol=1e-5, atol=1e-5)
        alone_posts = network.spans.fenceposts(alone, alone_mask)
        torch.testing.assert_close(posts[b, : n + 1], alone_posts[0], rtol=1e-5, atol=1e-5)
        alone_arcs = network.arcs.all_pairs(network.with_root(alone))
        torch.testing.assert_close(arcs[b, : n + 1, : n + 1], alone_arcs[0], rtol=1e-5, atol=1e-4)


def test_every_word_sees_the_whole_sentence(network, mask):
    features = features_like(mask)
    changed = features.clone()
    changed[2, -1, 0] = (changed[2, -1, 0] + 1) % 10
    moved = (network.encode(features, mask) - network.encode(changed, mask)).abs().amax(-1) > 0
    assert moved[2].all()
    assert not moved[:2].any()


def test_every_parameter_learns(mask):
    network = ParserNetwork(CONFIG).train()
    states = network.encode(features_like(mask), mask)
    rooted = network.with_root(states)
    sentence, word = mask.nonzero(as_tuple=True)
    posts = network.spans.fenceposts(states, mask)
    outputs = [
        network.tags(states[mask]),
        network.arcs.all_pairs(rooted)[mask.new_ones(rooted.shape[:2])],
        network.relation_scores(rooted, sentence, word + 1, word),
        network.spans(posts, sentence, word, word + 1),
    ]
    sum(output.pow(2).sum() for output in outputs).backward()
    without = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


def test_word_embedding_reads_each_table():
    words = filled(WordEmbedding(CONFIG))
    row = [3, 0, 19, 5, 5, 7, 1]
    tables = words.hashed.weight.view(Featuriser.n_hashed, CONFIG.buckets, -1)
    pieces = [words.form.weight[row[0]], *(tables[i, bucket] for i, bucket in enumerate(row[1:]))]
    expected = words.norm(words.project(torch.cat(pieces)))
    torch.testing.assert_close(words(torch.tensor([[row]], dtype=torch.int32))[0, 0], expected)


def test_arcs_are_a_bilinear_form_with_linear_terms():
    arcs = filled(Biaffine(12, 6, 1, 0.3))
    x = torch.randn(2, 4, 12)
    scores = arcs.all_pairs(x)
    assert scores.shape == (2, 4, 4)
    weight = arcs.weight[0]
    for b in range(2):
        for d in range(4):
            for h in range(4):
                dependent, head = arcs.dependent(x[b, d]), arcs.head(x[b, h])
                bilinear = sum(dependent[i] * weight[i, j] * head[j] for i in range(6) for j in range(6))
                linear = dependent @ weight[:6, 6] + weight[6, :6] @ head + weight[6, 6]
                torch.testing.assert_close(scores[b, d, h], bilinear + linear, rtol=1e-4, atol=1e-4)


def test_relations_of_chosen_arcs(network):
    states = torch.randn(2, 5, CONFIG.dim)
    chosen = torch.tensor([[0, 1, 0], [0, 4, 2], [1, 3, 3]])
    scores = network.relation_scores(states, *chosen.T)
    assert scores.shape == (3, CONFIG.n_relations)
    one = torch.ones(1)
    for (b, d, h), row in zip(chosen.tolist(), scores, strict=True):
        dependent = torch.cat([network.relations.dependent(states[b, d]), one])
        head = torch.cat([network.relations.head(states[b, h]), one])
        for channel in range(CONFIG.n_relations):
            expected = dependent @ network.relations.weight[channel] @ head
            torch.testing.assert_close(row[channel], expected, rtol=1e-4, atol=1e-4)


def test_outputs_are_those_of_the_readers(network, mask):
    words = torch.randn(*mask.shape, CONFIG.dim)
    outputs, states = network.outputs(words, mask), network.contextualise(words, mask)
    sentence, word = mask.nonzero(as_tuple=True)
    rooted = network.with_root(states)
    relations = network.relations.pairs(outputs.dependents[sentence, word + 1], outputs.heads[sentence, word])
    torch.testing.assert_close(relations, network.relation_scores(rooted, sentence, word + 1, word))
    torch.testing.assert_close(outputs.arcs, network.arcs.all_pairs(rooted))
    torch.testing.assert_close(outputs.tags, network.tags(states))


def test_spans_are_differences_of_fenceposts(mask):
    spans = filled(SpanScorer(CONFIG))
    x = torch.randn(*mask.shape, CONFIG.dim)
    posts = spans.fenceposts(x, mask)
    half = CONFIG.dim // 2
    for b, n in enumerate(LENGTHS):
        words = [spans.edges[0], *x[b, :n], spans.edges[1]]
        fenceposts = [torch.cat([words[i][:half], words[i + 1][half:]]) for i in range(n + 1)]
        for start in range(n):
            for end in range(start + 1, n + 1):
                hidden = F.relu(spans.first.weight @ (fenceposts[end] - fenceposts[start]) + spans.bias)
                expected = spans.last(hidden)
                got = spans(posts, torch.tensor([b]), torch.tensor([start]), torch.tensor([end]))[0]
                torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_shared_dropout_drops_the_same_of_every_word():
    dropout = SharedDropout(0.25)
    x = torch.ones(200, 3, 50)
    kept = dropout.train()(x)
    assert kept.unique().tolist() == pytest.approx([0, 4 / 3])
    assert (kept == kept[:, :1]).all()
    assert (kept[:1] != kept).any()
    assert kept.mean().item() == pytest.approx(1, abs=0.03)
    assert dropout.eval()(x) is x


def test_drop_words_hides_forms_only():
    features = torch.full((50, 40, 7), 5, dtype=torch.int32)
    dropped = drop_words(features, 0.2)
    assert (features == 5).all()
    assert (dropped[..., 1:] == 5).all()
    hidden = dropped[..., 0] == UNKNOWN
    assert (dropped[..., 0][~hidden] == 5).all()
    assert hidden.float().mean().item() == pytest.approx(0.2, abs=0.04)
    assert torch.equal(drop_words(features, 0.0), features)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 10, 13])
def test_blocks_are_of_one_shape_and_give_what_all_rows_give(count):
    shapes = []

    def product(a, b):
        shapes.append(len(a))
        return a * b

    a, b = torch.randn(2, count, 3)
    torch.testing.assert_close(in_blocks(product, 5, a, b), a * b)
    assert set(shapes) == {min(count, 5)}


FORMS = ["the", "bird", "0000", "don't"]


@pytest.mark.parametrize(
    ("word", "row"),
    [
        ("bird", (3, 3037, 1392, 3374, 2324, 2768, 1327)),
        ("Bird", (3, 3037, 1392, 3374, 2324, 2768, 3112)),
        ("1984", (4, 3781, 3279, 932, 33, 1324, 512)),
        ("Don’t", (5, 136, 1963, 1691, 676, 3421, 605)),
        ("naïve", (1, 2902, 1281, 988, 3088, 2851, 1327)),
        ("😀", (1, 3434, 3434, 2458, 2458, 2458, 619)),
    ],
)
def test_rows_stay_as_the_shipped_weights_were_trained(word, row):
    assert Featuriser(FORMS, 4000).row(word) == row


@given(st.lists(st.text()))
def test_remembered_rows_are_the_computed_ones(words):
    featuriser = Featuriser(FORMS, 50)
    first = featuriser(words)
    assert first.dtype == np.int32
    assert first.shape == (len(words), 7)
    assert (first >= 0).all()
    assert (first[:, 1:] < 50).all()
    np.testing.assert_array_equal(featuriser(words), first)
    for word, row in zip(words, first.tolist(), strict=True):
        assert tuple(row) == Featuriser(FORMS, 50).row(word)
