"""Perturbed sentences behind those of a batch: which are drawn, the batch that they make, and whose contexts."""

from collections import Counter

import numpy as np
import pytest
import torch
from corpora import opened
from perturbed import grammar_corpus, perturbed
from test_batching import check_batch

from structviews.batches.pairs import Further, Pairs
from structviews.batches.reader import CorpusReader
from structviews.errors import InputError
from structviews.objectives.objective import context_indices, with_paraphrases
from structviews.words.vocabulary import Vocabulary

KINDS = ("tokens", "dependency", "constituency")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return grammar_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed")


@pytest.fixture(scope="module")
def altered(corpus):
    return perturbed(corpus)


def forms_of(altered, row):
    """The rows of a source sentence's forms that keep its meaning, and of those that change it."""
    keeps = altered.manifest["perturbed"]["keeps"]
    forms = [(number, keeps[each.position]) for number, each in enumerate(altered) if each.document == row]
    return [[number for number, kept in forms if kept == kind] for kind in (True, False)]


def test_at_most_one_form_of_each_kind_is_drawn(corpus, altered):
    pairs, rows = Pairs(altered, corpus, seed=1), np.arange(3, 55, 2)
    seen = Counter()
    for epoch in range(40):
        drawn = pairs.drawn(rows, epoch)
        assert drawn.rows.tolist() == sorted(drawn.rows)
        found = list(zip(*(each.tolist() for each in drawn), strict=True))
        for place, row in enumerate(rows.tolist()):
            for changed, forms in zip((False, True), forms_of(altered, row), strict=True):
                chosen = [form for form, *which in found if which == [place, changed]]
                assert len(chosen) == bool(forms)
                assert set(chosen) <= set(forms)
        seen.update(form for form, *_ in found)
        # A sentence's forms are the same in another batch.
        for part in (rows[:5], rows[7:9]):
            again = pairs.drawn(part, epoch)
            own = [form for form in drawn.rows.tolist() if altered.row(form).document in part]
            assert again.rows.tolist() == own
    # Each form has its turn, as often as the others of its sentence.
    for row in rows.tolist():
        for forms in forms_of(altered, row):
            assert all(seen[form] > 0.4 * 40 / len(forms) for form in forms)
    first = pairs.drawn(rows, 0)
    assert any(pairs.drawn(rows, epoch).rows.tolist() != first.rows.tolist() for epoch in range(1, 5))
    assert Pairs(altered, corpus, seed=2).drawn(rows, 0).rows.tolist() != first.rows.tolist()
    assert pairs.drawn(rows[:0], 0).rows.tolist() == []


@pytest.mark.parametrize("across_documents", [False, True])
def test_a_batch_is_that_of_the_same_sentences_in_memory(corpus, altered, across_documents):
    words = {"a": Vocabulary.of_corpus(corpus, 10**6)}
    reader = CorpusReader(corpus, words, KINDS, True, across_documents=across_documents, pairs=altered)
    assert len(reader) == len(corpus) == len(reader.documents())
    rows = np.array([0, 1, 2, 30, 59])
    further = Further(np.array([0, 1, 7, 20]), np.array([0, 0, 2, 4]), np.array([False, True, False, True]))
    batch = reader.batch(rows, further)
    sentences = [*map(corpus.sentence, rows.tolist()), *map(altered.sentence, further.rows.tolist())]
    check_batch(batch, sentences, words, KINDS)
    same = [[one.tokens == other.tokens for other in sentences] for one in sentences]
    assert (batch.same[:, None] == batch.same).tolist() == same
    assert batch.source.tolist() == [-1] * 5 + [0, 0, 2, 4]
    assert batch.changed.tolist() == [False] * 5 + [False, True, False, True]
    # They are nobody's neighbours in a text, and the others' are those of the text alone.
    text = reader.batch(rows)
    assert text.source is text.changed is None
    contexts, of_text = (context_indices(each.document, each.position, 2) for each in (batch, text))
    assert contexts[:5].tolist() == of_text.tolist()
    assert (contexts[5:] == -1).all()
    assert batch.to("meta").source.is_meta


def test_paraphrases_are_each_others_contexts():
    neighbours = torch.tensor([[1, -1], [0, 2], [1, -1], [-1, -1], [-1, -1], [-1, -1]])
    keeps = torch.tensor([-1, -1, -1, 2, -1, 0])
    expected = [[1, -1, 5], [0, 2, -1], [1, -1, 3], [-1, -1, 2], [-1, -1, -1], [-1, -1, 0]]
    assert with_paraphrases(neighbours, keeps).tolist() == expected
    assert with_paraphrases(neighbours.to("meta"), keeps.to("meta")).shape == (6, 3)


def test_pairs_of_another_corpus_are_refused(corpus, altered, tmp_path):
    other = grammar_corpus(tmp_path / "y.parsed", seed=1)
    with pytest.raises(InputError, match=r"made of another corpus than .*y\.parsed, or of an earlier one: "):
        Pairs(altered, other, 1)
    with pytest.raises(InputError, match=r"y\.parsed: not made by `structviews perturb`: make one with `structviews"):
        Pairs(other, corpus, 1)
    crooked = opened(altered.path)
    crooked.manifest["perturbed"]["keeps"] = [True]
    with pytest.raises(InputError, match="some of its sentences have no source or rule"):
        Pairs(crooked, corpus, 1)
