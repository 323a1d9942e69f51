"""The generative objective against its formula in plain loops."""

import math

import numpy as np
import pytest
import torch
from components import create_channel, create_objective
from test_pairwise import check
from trees_for_tests import SHAPES, WORDS

from structviews.batches.batch import collate
from structviews.model import Model
from structviews.objectives import generative
from structviews.objectives.generative import orthonormality_error
from structviews.objectives.objective import Context, ContextWords, Inputs
from structviews.words.vocabulary import UNKNOWN, Vocabulary

DIM, WORD_DIM = 4, 3
COUNTS = torch.tensor([5, 90, 40, 12, 7, 1])
# Words of each sentence, as ids; the third one ends a document, the last follows a gap.
SENTENCES = [[1, 2, 1], [3], [4, 4, 0, 1], [2, 5], [1], [3, 2]]
NEXT = [1, 2, -1, 4, -1, -1]


def objective(dim=DIM, **options):
    return create_objective("generative", Inputs(("seq",), (dim,), WORD_DIM, COUNTS), **options).double()


def context():
    words = torch.tensor([word for sentence in SENTENCES for word in sentence])
    distinct, inverse = words.unique(return_inverse=True)
    rows = torch.tensor([row for row, sentence in enumerate(SENTENCES) for _ in sentence])
    table = torch.randn(len(COUNTS), WORD_DIM, dtype=torch.float64)
    words = ContextWords(distinct, inverse, rows, table, np.array([*map(len, SENTENCES)]))
    neighbours = torch.full((len(SENTENCES), 3), -1)  # not read
    return Context(neighbours, next=torch.tensor(NEXT), words=words)


def vectors():
    return torch.randn(len(SENTENCES), DIM, dtype=torch.float64, requires_grad=True)


def noise():
    powers = [count**0.75 for count in COUNTS.tolist()]
    return [power / sum(powers) for power in powers]


def cost_by_loops(z, u, table, word, negatives, drawn=None):
    """-log sigmoid(v_w . U z) - k times the mean, over q or over words drawn, of log sigmoid(-v . U z)."""
    h = u @ z

    def log_sigmoid(x):
        return -torch.log(1 + torch.exp(-x))

    shares = enumerate(noise()) if drawn is None else [(w, 1 / len(drawn)) for w in drawn]
    expected = sum(share * log_sigmoid(-(table[w] @ h)) for w, share in shares)
    return -log_sigmoid(table[word] @ h) - negatives * expected


def loss_by_loops(z, run, facts, drawn=None, of_each=None):
    """``drawn`` are shared by all words, or ``of_each`` of them are of the first word, the next ones of the second."""
    terms = []
    for i, j in enumerate(NEXT):
        for place, word in enumerate(SENTENCES[j] if j >= 0 else []):
            own = drawn
            if of_each:
                before = sum(map(len, SENTENCES[:j])) + place
                own = drawn[before * of_each : (before + 1) * of_each]
            terms.append(cost_by_loops(z[i], run.decoder, facts.words.table, word, run.noise_words, own))
    return sum(terms) / len(terms)


def draws_by_loops(number):
    """Each draw is where a uniform number falls among the cumulative probabilities."""
    cumulative = [sum(noise()[: word + 1]) for word in range(len(COUNTS))]
    draws = torch.rand(number, dtype=torch.float64).tolist()
    return [next(w for w, c in enumerate(cumulative) if u <= c) for u in draws]


@pytest.mark.parametrize("negatives", [1, 5])
@pytest.mark.parametrize("rows", [1, 64])
def test_in_evaluation_the_loss_and_its_gradient_are_the_formula(monkeypatch, negatives, rows):
    monkeypatch.setattr(generative, "SCORES_AT_ONCE", rows * len(COUNTS))
    run, facts, z = objective(noise_words=negatives).eval(), context(), vectors()
    outcome = run([z], facts)
    check(outcome, [z, run.decoder], loss_by_loops(z, run, facts))
    assert outcome[1]["anchors"] == sum(len(SENTENCES[j]) for j in NEXT if j >= 0)


@pytest.mark.parametrize("negatives", [1, 5])
@pytest.mark.parametrize(("draw", "rows"), [("word", 1), ("word", 4), ("word", 64), ("batch", 1)])
def test_in_training_the_expectation_is_over_words_drawn(monkeypatch, negatives, draw, rows):
    monkeypatch.setattr(generative, "DRAWS", 20)
    monkeypatch.setattr(generative, "NUMBERS_AT_ONCE", rows * negatives * WORD_DIM)
    run, facts, z = objective(noise_words=negatives, draw=draw), context(), vectors()
    torch.manual_seed(4)
    outcome = run([z], facts)
    torch.manual_seed(4)
    drawn = draws_by_loops(20 if draw == "batch" else negatives * sum(map(len, SENTENCES)))
    expected = loss_by_loops(z, run, facts, drawn, of_each=negatives if draw == "word" else None)
    assert len(set(drawn)) > 2
    check(outcome, [z, run.decoder], expected)
    assert "nll" not in outcome[1]


def test_the_likelihood_is_that_of_a_softmax_over_the_vocabulary():
    run, facts, z = objective().eval(), context(), vectors()
    _, metrics = run([z], facts)
    log_p, unigram = [], []
    for i, j in enumerate(NEXT):
        for word in SENTENCES[j] if j >= 0 else []:
            weights = [q * math.exp((facts.words.table[w] @ run.decoder @ z[i]).item()) for w, q in enumerate(noise())]
            log_p.append(math.log(weights[word] / sum(weights)))
            unigram.append(math.log(COUNTS[word] / COUNTS.sum()))
    assert metrics["nll"].item() == pytest.approx(-sum(log_p) / len(log_p))
    assert metrics["unigram_nll"].item() == pytest.approx(-sum(unigram) / len(unigram))


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_the_parseval_step_is_its_formula_and_restores_orthonormality(dim):
    run = objective(dim, parseval=0.1)
    assert orthonormality_error(run.decoder.detach()).item() == pytest.approx(0, abs=1e-6)
    free = objective(parseval=0.0, dim=5000).decoder.detach()  # as in He et al. 2015
    assert free.std().item() == pytest.approx(math.sqrt(2 / 5000), rel=0.03)
    u = run.decoder.detach() + 0.2 * torch.randn(WORD_DIM, dim)
    run.decoder.data.copy_(u)
    run.after_step()
    torch.testing.assert_close(run.decoder.detach(), 1.1 * u - 0.1 * u @ u.T @ u)
    errors = [orthonormality_error(u).item()]
    for _ in range(3):
        for _ in range(20):
            run.after_step()
        errors.append(orthonormality_error(run.decoder.detach()).item())
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3 * errors[0]


VOCABULARY = Vocabulary([UNKNOWN, *WORDS])


@pytest.fixture
def model():
    counts = torch.arange(1, len(VOCABULARY) + 1)
    return Model({"trained": create_channel(("seq",), len(VOCABULARY), 5, 6, counts, objective="generative")}).double()


def test_the_words_of_a_batch_are_told_by_its_channel(model):
    batch = collate(SHAPES["mixed"], {"trained": VOCABULARY}, ["tokens"])
    channel = model.channels["trained"]
    words = channel.context(model.context(batch, 1), batch, batch.ids["trained"]).words
    expected = [(i, word) for i, sentence in enumerate(SHAPES["mixed"]) for word in sentence.tokens]
    assert words.sentence.tolist() == [i for i, _ in expected]
    assert words.distinct[words.inverse].tolist() == VOCABULARY.ids([word for _, word in expected]).tolist()
    assert words.table.data_ptr() == channel.words[0].weight.data_ptr()
    assert not words.table.requires_grad


def test_the_linear_view_is_the_transposed_decoder_of_the_mean_word(model):
    batch = collate(SHAPES["mixed"], {"trained": VOCABULARY}, ["tokens"])
    channel = model.channels["trained"]
    assert [[name for name, _ in view] for view in model.by_view()] == [["trained"], ["trained"]]
    _, (linear,) = model.encode(batch, states=True)
    decoder, table = channel.objective.decoder.detach(), channel.words[0].weight.detach()
    for row, sentence in enumerate(SHAPES["mixed"]):
        words = table[VOCABULARY.ids(list(sentence.tokens))]
        torch.testing.assert_close(linear.vector[row], decoder.T @ words.mean(dim=0))
        start, end = linear.offsets[row], linear.offsets[row + 1]
        torch.testing.assert_close(linear.states[start:end], words @ decoder)
