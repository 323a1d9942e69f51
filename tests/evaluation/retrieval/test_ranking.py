"""Recall of the true neighbour, against plain loops and against what vectors of known quality must give."""

import numpy as np
import pytest

from structviews.errors import InputError
from structviews.evaluation.retrieval.neighbours import cosine_scores, neighbour_trials, ranks_of_first
from structviews.evaluation.scores.intervals import proportion


def corpus(rng, n_documents=30, longest=40):
    """Documents with skipped sentences and with repeated texts."""
    documents, positions, texts = [], [], []
    for document in range(n_documents):
        for position in range(rng.integers(2, longest)):
            if rng.random() < 0.1:
                continue
            documents.append(document)
            positions.append(position)
            texts.append(("same",) if rng.random() < 0.2 else (f"{document}", f"{position}"))
    return np.array(documents), np.array(positions), texts


def test_trials_obey_every_rule():
    documents, positions, texts = corpus(np.random.default_rng(1))
    trials = neighbour_trials(documents, positions, texts, size=100, seed=3)

    row_at = {(d, p): row for row, (d, p) in enumerate(zip(documents, positions, strict=True))}
    expected = []
    for row in range(len(texts)):
        following = row_at.get((documents[row], positions[row] + 1))
        if following is not None and texts[row] != texts[following]:
            expected.append((row, following))
    assert list(zip(trials.anchors, trials.candidates[:, 0], strict=True)) == expected
    assert trials.candidates.shape == (len(expected), 100)
    for anchor, candidates, document in zip(trials.anchors, trials.candidates, trials.documents, strict=True):
        assert document == documents[anchor]
        assert len(set(candidates)) == 100
        banned = {texts[anchor], texts[candidates[0]]}
        previous = row_at.get((documents[anchor], positions[anchor] - 1))
        for other in candidates[1:]:
            assert other not in (anchor, previous)
            assert texts[other] not in banned


def test_trials_draw_every_eligible_sentence_equally_often():
    documents, positions = np.zeros(30, int), np.arange(30)
    texts = [(str(i),) for i in range(30)]
    drawn = [neighbour_trials(documents, positions, texts, size=10, seed=s).candidates[14, 1:] for s in range(600)]
    counts = np.bincount(np.concatenate(drawn), minlength=30)
    assert set(np.flatnonzero(counts == 0)) == {13, 14, 15}
    eligible = counts[counts > 0]
    # 600 x 9 draws over 27 sentences: 200 each; five standard deviations of a binomial.
    assert np.abs(eligible - 200).max() < 5 * np.sqrt(600 * (1 / 3) * (2 / 3))


def test_too_few_sentences_are_an_error():
    documents, positions = np.array([0, 0, 1, 2, 3]), np.array([0, 1, 0, 0, 0])
    for size in (5, (100, 50, 5)):
        with pytest.raises(InputError, match="5 held-out sentences are too few to draw 4 candidates"):
            neighbour_trials(documents, positions, [(c,) for c in "abcde"], size=size, seed=0)
    with pytest.raises(InputError, match="none of the 3 held-out sentences is followed"):
        neighbour_trials(np.array([0, 0, 1]), np.array([0, 2, 0]), [("a",), ("b",), ("c",)], size=5, seed=0)
    # The second document lost its first two sentences, so its positions seem to go on.
    seeming = neighbour_trials(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3]), [(c,) for c in "abcd"], size=2, seed=0)
    assert seeming.anchors.tolist() == [0, 2]


def test_ranks_with_ties_are_those_of_plain_loops_over_their_orders():
    rng = np.random.default_rng(3)
    scores = rng.integers(5, size=(300, 8)).astype(float)
    # The ranks that a random order gives the true candidate among those tied with it.
    possible = [range(1 + sum(row > row[0]), 1 + sum(row >= row[0])) for row in scores]
    found = ranks_of_first(scores)
    for k in (1, 2, 5):
        hits = [np.mean([rank <= k for rank in ranks]) for ranks in possible]
        np.testing.assert_allclose(found.recalled(k), hits)
    np.testing.assert_allclose(found.reciprocal(), [np.mean([1 / rank for rank in ranks]) for ranks in possible])
    assert found.median() == np.median([np.mean(ranks) for ranks in possible])


def test_vectors_of_known_quality():
    rng = np.random.default_rng(10)
    documents, positions, texts = corpus(rng, n_documents=60)
    trials = neighbour_trials(documents, positions, texts, size=100, seed=0)

    def recall(vectors):
        return proportion(ranks_of_first(cosine_scores(vectors, vectors, trials)).recalled(1), trials.documents)

    n = len(texts)
    assert recall(np.ones((n, 4))).value == pytest.approx(0.01)
    # Of two neighbours the first has the second one's basis vector too.
    neighbours = np.append((documents[1:] == documents[:-1]) & (positions[1:] == positions[:-1] + 1), False)
    perfect = recall(np.eye(n) + np.eye(n, k=1) * neighbours[:, None])
    assert (perfect.value, perfect.low, perfect.high, perfect.count) == (1, 1, 1, len(trials.anchors))
    with pytest.raises(InputError, match="NaN or infinite"):
        ranks_of_first(np.array([[np.nan, 1.0], [0, 1]]))
    with pytest.raises(InputError, match="at least 2 documents, not 1"):
        proportion([1, 0], [4, 4])
    result = recall(rng.standard_normal((n, 16)))
    assert result.low <= 0.01 <= result.high
    assert result.high < 0.03
