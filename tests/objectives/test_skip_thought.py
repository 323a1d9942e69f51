"""The skip-thought objective against the paper's equations in plain loops."""

import math
from dataclasses import replace

import pytest
import test_generative
import torch
from components import create_channel, create_objective
from test_generative import COUNTS, DIM, NEXT, SENTENCES, VOCABULARY, WORD_DIM, vectors
from test_pairwise import check
from trees_for_tests import SHAPES

from structviews.batches.batch import collate
from structviews.model import Model
from structviews.objectives import skip_thought
from structviews.objectives.objective import Context, Inputs

V = len(COUNTS)
PREVIOUS = [NEXT.index(i) if i in NEXT else -1 for i in range(len(NEXT))]
every_kind = pytest.mark.parametrize(
    "settings",
    [{"conditioning": kind, "output_layers": layers} for kind in ("gates", "start") for layers in (1, 2)],
    ids=lambda settings: "-".join(map(str, settings.values())),
)


def objective(**settings):
    run = create_objective("skip-thought", Inputs(("seq",), (DIM,), WORD_DIM, COUNTS, V), **settings).double()
    for parameter in run.parameters():  # biases too
        torch.nn.init.normal_(parameter, std=0.7)
    return run


def context():
    """The context, whose words' vectors have a gradient, and their table."""
    facts = test_generative.context()
    table = facts.words.table.requires_grad_()
    words = replace(facts.words, table=table.detach(), vectors=table[facts.words.distinct])
    return replace(facts, words=words), table


def next_state(gru, x, z, h, in_gates):
    """Kiros et al. 2015, equations 5 to 8, with the reset gate after the product; ``C z`` in all of them."""
    w, (u, b), size = gru.weight_ih_l0, (gru.weight_hh_l0, gru.bias_hh_l0), DIM
    w, c = w[:, :WORD_DIM], w[:, WORD_DIM:]

    def gate(k, state):
        rows = slice(k * size, (k + 1) * size)
        facts = c[rows] @ z if in_gates else 0
        return w[rows] @ x + gru.bias_ih_l0[rows] + facts, u[rows] @ state + b[rows]

    reset, update = (torch.sigmoid(sum(gate(k, h))) for k in (0, 1))
    of_word, of_state = gate(2, h)
    return (1 - update) * torch.tanh(of_word + reset * of_state) + update * h


def loss_by_loops(run, z, table, settings):
    """Mean over the words of neighbours of ``-log P(word | words before it, sentence vector)``."""
    terms, in_gates = [], settings["conditioning"] == "gates"
    for place, (gru, neighbours) in enumerate(zip(run.decoders, (PREVIOUS, NEXT), strict=True)):
        output = run.words[place if settings["output_layers"] == 2 else 0]
        for i, j in enumerate(neighbours):
            h, before = (torch.zeros_like(z[i]) if in_gates else z[i]), torch.zeros(WORD_DIM, dtype=z.dtype)
            for word in SENTENCES[j] if j >= 0 else []:
                h = next_state(gru, before, z[i], h, in_gates)
                scores = output.weight @ h + output.bias
                terms.append(torch.log(torch.exp(scores).sum()) - scores[word])
                before = table[word]
    return sum(terms) / len(terms), len(terms)


@every_kind
@pytest.mark.parametrize("rows", [1, 4, 64])
def test_the_loss_and_its_gradients_are_the_equations(monkeypatch, settings, rows):
    monkeypatch.setattr(skip_thought, "LOGITS_AT_ONCE", rows * V)
    run, z = objective(**settings), vectors()
    facts, table = context()
    outcome = run([z], facts)
    expected, number = loss_by_loops(run, z, table, settings)
    check(outcome, [z, table, *run.parameters()], expected, scale=3)
    assert outcome[1]["anchors"] == number
    assert outcome[1]["chance_loss"].item() == pytest.approx(math.log(V))


def test_the_unigram_model_is_told_in_validation():
    run, z = objective().eval(), vectors()
    _, metrics = run([z], context()[0])
    words = [word for j in (*PREVIOUS, *NEXT) if j >= 0 for word in SENTENCES[j]]
    costs = [-math.log(COUNTS[word] / COUNTS.sum()) for word in words]
    assert metrics["unigram_nll"].item() == pytest.approx(sum(costs) / len(costs))


def test_the_words_that_decoders_read_are_those_of_the_encoder():
    """Both add to the gradient of one table, which stays sparse."""
    counts = torch.arange(1, len(VOCABULARY) + 1)
    settings = {"objective": "skip-thought", "gate_bias": 1.0}
    channel = create_channel(("seq-uni",), len(VOCABULARY), 5, 6, counts, **settings)
    model = Model({"trained": channel}).double()
    assert all((decoder.bias_ih_l0[: 2 * 6] == 1).all() for decoder in channel.objective.decoders)
    batch = collate(SHAPES["mixed"], {"trained": VOCABULARY}, ["tokens"])
    facts = model.context(batch, 1)
    following = torch.arange(1, len(batch) + 1).masked_fill(torch.arange(len(batch)) == len(batch) - 1, -1)
    facts = Context(facts.neighbours, next=following)
    ids = batch.ids["trained"]
    words = channel.context(facts, batch, ids).words
    torch.testing.assert_close(words.vectors, channel.words[0].weight[ids.distinct])
    assert words.lengths.tolist() == [len(sentence.tokens) for sentence in SHAPES["mixed"]]
    (encoded,) = channel.encode(batch, ids)
    channel.objective([encoded.vector.detach()], channel.context(facts, batch, ids))[0].backward()
    of_decoders = channel.words[0].weight.grad
    assert of_decoders.is_sparse
    assert of_decoders.to_dense().any()
    model.losses(batch, facts)[0].backward()
    gradient = channel.words[0].weight.grad
    assert gradient.is_sparse
    assert gradient.coalesce().indices().tolist() == [ids.distinct.tolist()]
