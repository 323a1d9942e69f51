"""Labels of many sentences at once, each against a plain walk through one tree at a time; and balanced samples."""

import random
from collections import Counter

import numpy as np
import pytest
from grammar import annotated, sentence
from nltk_trees import as_nltk
from trees_for_tests import gum

from structviews.evaluation.parses import Parses
from structviews.evaluation.probing import labels, sampling
from structviews.parsing.binarise import unbinarise


@pytest.fixture(scope="module")
def sentences():
    rng = random.Random(1)
    return [annotated(rng.randint(1, 14), rng) for _ in range(300)]


@pytest.fixture(scope="module")
def parses(sentences):
    return Parses.of(sentences)


def slow_top(sentence):
    """The names of the root's children in the tree as it was before binarisation; of a word alone, its tag."""
    tree = unbinarise(sentence)
    return sentence.tags[0] if isinstance(tree[0], str) else "_".join(child.label() for child in tree)


@pytest.mark.parametrize("treebank", [False, True])
def test_depths_are_nltks_and_top_constituents_are_the_roots_children(sentences, treebank):
    sentences = gum(200) if treebank else sentences
    parses = Parses.of(sentences)
    # nltk counts the word as a level too.
    assert labels.tree_depths(parses).tolist() == [as_nltk(unbinarise(s)).height() - 1 for s in sentences]
    found = labels.top_constituents(parses)
    assert found.names[found.ids].tolist() == [slow_top(s) for s in sentences]


def slow_arguments(sentence, relations):
    root = sentence.heads.index(0) + 1
    found = [i for i, head in enumerate(sentence.heads) if head == root and sentence.relations[i] in relations]
    return found[0] if len(found) == 1 and sentence.tags[found[0]] in ("NN", "NNS") else -1


def test_arguments_are_only_children_of_the_root(sentences, parses):
    relations = ("nsubj", "nsubj:pass")
    found = labels.arguments(parses, *relations)
    places = np.where(found >= 0, found - parses.starts, -1)
    expected = [slow_arguments(s, relations) for s in sentences]
    assert places.tolist() == expected
    assert max(expected) > 0


def slow_distance(sentence):
    arcs = enumerate(zip(sentence.heads, sentence.relations, strict=True), 1)
    found = [abs(i - head) for i, (head, relation) in arcs if head and relation != "punct"]
    return sum(found) / len(found) if found else 0


def test_head_distances(sentences, parses):
    assert labels.mean_head_distances(parses).tolist() == pytest.approx([slow_distance(s) for s in sentences])


def test_thirds_are_of_sentences_of_one_length(rng):
    lengths, values = rng.integers(5, 9, size=200), rng.random(200)
    thirds = labels.thirds_by_length(values, lengths)
    for i in range(200):
        same = values[lengths == lengths[i]]
        below = (same < values[i]).sum()
        assert thirds[i] == sum(below >= np.ceil(k * len(same) / 3) for k in (1, 2))
    assert labels.thirds_by_length(np.array([1, 1, 1, 1, 2, 3]), np.full(6, 5)).tolist() == [0, 0, 0, 0, 2, 2]


def slow_phrases(sentence):
    nouns, verbs = ("NN", "NNS", "NNP", "NNPS"), ("VB", "VBD", "VBG", "VBN", "VBP", "VBZ")
    found = []
    for p in range(1, len(sentence.tokens)):
        if sentence.relations[p] != "case" or sentence.tags[p] not in ("IN", "TO"):
            continue
        inner, thing = sentence.heads[p] - 1, p - 1
        verb, outer = sentence.heads[thing] - 1, sentence.heads[inner] - 1
        if sentence.relations[thing] != "obj" or sentence.tags[thing] not in nouns or inner < p or verb > thing:
            continue
        if sentence.tags[verb] not in verbs or sentence.tags[inner] not in nouns:
            continue
        if (sentence.relations[inner], outer) in (("nmod", thing), ("obl", verb)):
            found.append((p, outer == thing))
    return found if len(found) == 1 else []


def test_prepositional_phrases_behind_objects():
    rng = random.Random(2)
    sentences = [sentence(rng) for _ in range(100)] + [annotated(9, rng) for _ in range(2000)]
    parses = Parses.of(sentences)
    words, to_noun = labels.prepositional_phrases(parses)
    columns = parses.sentences[words], parses.positions[words], to_noun
    found = sorted(zip(*(column.tolist() for column in columns), strict=True))
    assert found == [(i, *each) for i, s in enumerate(sentences) for each in slow_phrases(s)]
    assert len({(noun, i < 100) for i, _, noun in found}) >= 2


def test_edit_distance_counts_constituents_that_are_not_shared():
    rng = random.Random(3)
    sentences = [annotated(6, rng) for _ in range(40)]
    first, second = (np.array([rng.randrange(40) for _ in range(200)]) for _ in range(2))
    expected = [len(set(sentences[a].spans()) ^ set(sentences[b].spans())) for a, b in zip(first, second, strict=True)]
    assert labels.edit_distances(Parses.of(sentences), first, second).tolist() == expected


def test_documents_are_dealt_whole_and_by_share(rng):
    documents = np.repeat(np.arange(300), rng.integers(1, 30, size=300))
    parts = sampling.deal_documents(documents, rng)
    assert all(len(set(parts[documents == d])) == 1 for d in range(300))
    assert np.bincount(parts) / len(parts) == pytest.approx(sampling.SHARES, abs=0.02)


def test_a_word_is_a_target_only_where_it_is_most_frequent(rng):
    words, parts = rng.zipf(1.5, size=5000) % 900, rng.choice(3, p=sampling.SHARES, size=5000)
    stays = sampling.deal_words(words, parts, rng)
    homes = {(word, part) for word, part in zip(words[stays].tolist(), parts[stays].tolist(), strict=True)}
    assert len(homes) == len(np.unique(words))
    assert len({part for _, part in homes}) == len(sampling.PARTS)
    words, parts = np.array([7] * 6 + [8] * 9 + [9] * 85), np.array([1] * 2 + [0] * 4 + [2] * 3 + [0] * 91)
    stays = [True] * 2 + [False] * 4 + [True] * 3 + [False] * 6 + [True] * 85
    assert sampling.deal_words(words, parts, rng).tolist() == stays


def cells_of(taken, *columns):
    return Counter(zip(*(column[taken].tolist() for column in columns), strict=True))


def test_classes_are_balanced_in_every_part_and_stratum_and_no_more_than_asked_for(rng):
    parts, strata = rng.integers(-1, 3, 4000), rng.integers(5, size=4000)
    classes = rng.choice(3, p=(0.6, 0.3, 0.1), size=4000)
    taken = sampling.balance(classes, strata, parts, (10_000,) * 3, rng)
    counts, there = cells_of(taken, parts, strata, classes), cells_of(np.arange(4000), parts, strata, classes)
    assert len(set(taken.tolist())) == len(taken)
    for part in range(3):
        for stratum in range(5):
            least = min(there[part, stratum, c] for c in range(3))
            assert [counts[part, stratum, c] for c in range(3)] == [least] * 3
    assert np.all(np.diff(parts[taken]) >= 0)
    parts, strata, classes = rng.integers(3, size=4000), rng.integers(40, size=4000), rng.integers(2, size=4000)
    taken = sampling.balance(classes, strata, parts, (500, 50, 51), rng)
    assert np.bincount(parts[taken]).tolist() == [500, 50, 50]
    counts = cells_of(taken, parts, strata, classes)
    assert all(counts[part, stratum, 0] == counts[part, stratum, 1] for part, stratum, _ in counts)


def test_rows_and_columns_of_a_sample_do_not_correlate(rng):
    pairs = rng.multivariate_normal([15, 8], [[25, 7], [7, 4]], size=20_000).round().astype(int)
    available = np.zeros((40, 20), dtype=int)
    np.add.at(available, tuple(pairs.clip(0, (39, 19)).T), 1)
    taken = sampling.decorrelate(available, 10_000)
    assert sampling.correlation(available) > 0.6
    assert abs(sampling.correlation(taken)) <= 0.1
    assert (taken <= available).all()
    assert 300 < taken.sum() <= 10_000 + taken.size
