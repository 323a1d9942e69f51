"""The weights of words under their heads, against one node at a time."""

import numpy as np
import pytest
from corpora import RandomParser, random_trees, small_config, tiny_rows, topic_rows

from structviews.config import Parsed
from structviews.embedder import TrainedEmbedder
from structviews.joined import JoinedEmbedder
from structviews.kernels.naive import child_sum_node
from structviews.model import build_model
from structviews.vocabulary import UNKNOWN, Vocabulary

SENTENCES = [row.sentence for row in [*topic_rows(2, 5), *tiny_rows()]]


def untrained(*views):
    vocabularies = {"trained": Vocabulary([UNKNOWN, *sorted({word for s in SENTENCES for word in s.tokens})])}
    config = small_config("x.parsed", "run", views)
    parsed = Parsed("", RandomParser().describe(), {})
    return TrainedEmbedder(config, parsed, build_model(config, vocabularies), vocabularies)


def weights_one_by_one(embedder, view, sentence):
    """The weight of each word, by plain recursion; NaN for the root."""
    channel = embedder.model.channels["trained"]
    cell = channel.views[view].cell
    vectors = channel.words[view].weight[embedder.vocabularies["trained"].ids(list(sentence.tokens))]
    weights = [np.nan] * len(sentence.tokens)

    def visit(word):
        children = [i for i, head in enumerate(sentence.heads) if head == word + 1]
        state, alpha = child_sum_node(cell, vectors[word], [visit(child) for child in children])
        for child, weight in zip(children, alpha, strict=True):
            weights[child] = float(weight.detach())
        return state

    visit(sentence.heads.index(0))
    return weights


@pytest.mark.parametrize("sentences", [SENTENCES, SENTENCES[:1], [random_trees(["alone"])]])
def test_each_word_has_its_weight_under_its_head(sentences):
    embedder = untrained("dep", "const", "dep")
    found = embedder.attention(sentences)
    assert list(found) == ["dep.1", "dep.2"]
    for name, view in (("dep.1", 0), ("dep.2", 2)):
        assert len(found[name]) == len(sentences)
        for sentence, weights in zip(sentences, found[name], strict=True):
            np.testing.assert_allclose(weights, weights_one_by_one(embedder, view, sentence), atol=1e-5)


def test_two_views_of_a_name_have_weights_of_their_own():
    first, second = map(np.concatenate, untrained("dep", "const", "dep").attention(SENTENCES).values())
    assert np.nanmax(np.abs(first - second)) > 0.01


def test_views_that_do_not_attend_give_nothing():
    assert untrained("dep-sum", "const").attention(SENTENCES) == {}
    assert untrained("seq", "bow").attention(SENTENCES) == {}
    assert untrained("dep", "const").attention([]) == {}


def test_members_of_a_joined_run_keep_theirs_apart():
    members = [untrained("dep", "seq"), untrained("seq", "const"), untrained("dep", "const")]
    found = JoinedEmbedder(members, ["0-a", "1-b", "2-c"]).attention(SENTENCES)
    assert list(found) == ["0-a: dep", "2-c: dep"]
    np.testing.assert_array_equal(found["2-c: dep"][3], members[2].attention(SENTENCES)["dep"][3])
