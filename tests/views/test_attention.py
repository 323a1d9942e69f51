"""The attention of dependency views, word by word."""

import random

import numpy as np
import pytest
import torch
from corpora import random_trees, small_config, topic_corpus
from trees_for_tests import WORDS, chain, random_sentence, star

from structviews.batches.batch import collate
from structviews.corpus.relations import relation_numbers, word_labels
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import join_runs
from structviews.kernels.cells import Children
from structviews.training.loop import train
from structviews.views.tree_views import attention_weights
from structviews.views.view import WordTable, create_view
from structviews.words.vocabulary import UNKNOWN, Vocabulary

VOCABULARY = Vocabulary([UNKNOWN, *WORDS])
SENTENCES = [random_sentence(n, random.Random(n)) for n in (1, 2, 7, 12)] + [chain(4), star(5)]


def weights_by_recursion(view, table, sentence):
    """Of each word, by going down from the root."""
    found = [float("nan")] * len(sentence.tokens)
    vectors = table.weight[torch.from_numpy(VOCABULARY.ids(sentence.tokens))]
    labels = word_labels(np.array(sentence.heads), relation_numbers(sentence.relations), np.array([len(found)]))

    def visit(node):
        below = [child for child, head in enumerate(sentence.heads) if head == node + 1]
        x = view.cell.of_words(vectors[node, None])
        if view.cell.labelled:
            x = x + view.cell.of_labels()[labels[node], None]
        if not below:
            return view.cell.leaf(x)
        sent = tuple(torch.cat(each) for each in zip(*map(visit, below), strict=True))
        children = Children(sent, 1, torch.zeros(len(below), dtype=torch.long), lambda each: each.sum(0, keepdim=True))
        state = view.cell.node(x, children)
        for child, weight in zip(below, children.attention, strict=True):
            found[child] = weight.item()
        return state

    visit(sentence.heads.index(0))
    return found


@pytest.mark.parametrize("name", ["dep", "dep-rel"])
@pytest.mark.parametrize("backend", ["level", "naive"])
def test_each_word_has_the_weight_that_recursion_gives_it(name, backend):
    view, table = create_view(name, 5, 6, tree_backend=backend).double(), WordTable(len(VOCABULARY), 5).double()
    batch = collate(SENTENCES, {"words": VOCABULARY}, [view.needs])
    weights = attention_weights(view(table, batch, batch.ids["words"], states=True), batch)
    assert [len(each) for each in weights] == [len(sentence.tokens) for sentence in SENTENCES]
    for each, sentence in zip(weights, SENTENCES, strict=True):
        assert each == pytest.approx(weights_by_recursion(view, table, sentence), abs=1e-6, nan_ok=True)


def test_runs_give_the_weights_of_each_attentive_view(tmp_path):
    corpus = topic_corpus(tmp_path / "x.parsed")
    twice = train(small_config(corpus, tmp_path / "both", ("dep", "dep-rel", "dep-gru"), steps=1))
    plain = train(small_config(corpus, tmp_path / "seq-avg", ("seq", "avg"), steps=1))
    sentences = [random_trees(("the", "bird", "of", "it")), random_trees(("and",))]
    found = Embedder.load(twice).attention(sentences)
    assert list(found) == ["dep", "dep-rel"]
    assert not np.allclose(found["dep"][0], found["dep-rel"][0], equal_nan=True)
    for weights in found.values():
        assert [len(each) for each in weights] == [4, 1]
        heads = np.array(sentences[0].heads)
        assert np.isnan(weights[0]).tolist() == (heads == 0).tolist()
        for head in set(heads) - {0}:
            assert weights[0][heads == head].sum() == pytest.approx(1, abs=1e-5)
    assert Embedder.load(plain).attention(sentences) == {}
    joined = Embedder.load(join_runs([plain, twice], tmp_path / "joined")).attention(sentences)
    assert list(joined) == ["1-both: dep", "1-both: dep-rel"]
    np.testing.assert_array_equal(joined["1-both: dep-rel"][0], found["dep-rel"][0])
