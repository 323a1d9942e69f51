"""What fitting finds: a planted rule, and nothing that is worse than the average; against loops."""

import math

import numpy as np
import pytest
import torch
from corpora import opened, small_config, topic_corpus, topic_rows

from structviews.batches.order import held_out
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.gating import gate_fitting, gate_sample
from structviews.evaluation.gating.gate_fitting import FIXED, Encoded, fit_gate
from structviews.evaluation.gating.gate_sample import Part, read_sample
from structviews.training.baselines import make_baseline
from structviews.training.loop import train

K, D, DOCUMENT = 2, 12, 6
PURPOSE = {"views": ["one", "two"], "vectors": "vector"}
pytestmark = pytest.mark.usefixtures("one_thread")


def planted(documents, seed):
    """Sentences of which one view has the document's direction and the other noise, as both first coordinates tell.

    Returns them, and whether it is the first view.
    """
    rng = np.random.default_rng(seed)
    n = documents * DOCUMENT
    topics = np.repeat(rng.standard_normal((documents, D - 1)), DOCUMENT, axis=0)
    first = rng.random(n) < 0.5
    views = []
    for informs in (first, ~first):
        rest = np.where(informs[:, None], topics, rng.standard_normal((n, D - 1)))
        views.append(np.concatenate([np.where(first, 2.0, -2.0)[:, None], rest], axis=1))
    units = np.stack([view / np.linalg.norm(view, axis=1, keepdims=True) for view in views], axis=1)
    rows = np.arange(n)
    part = Part([], (rows // DOCUMENT).astype(np.int32), (rows % DOCUMENT).astype(np.int32))
    return Encoded(part, torch.from_numpy(units.astype(np.float32))), first


@pytest.fixture(scope="module")
def fitted():
    fitting, held = planted(600, 0)[0], planted(150, 1)
    return fit_gate(PURPOSE, fitting, held[0], seed=1), fitting, held


def by_name(fitted):
    return {each.name: each for each in fitted.scores}


def test_a_planted_rule_is_found(fitted):
    found, _, (held, first) = fitted
    weights = found.gate.weights([units.numpy() for units in held.units.unbind(dim=1)])
    assert ((weights[:, 0] > 0.5) == first).mean() > 0.99
    scores = by_name(found)
    assert list(scores) == ["gate", FIXED, "average", "concatenation", "one", "two"]
    for name in list(scores)[1:]:
        assert scores[name].loss > scores["gate"].loss + 0.2, name
        assert scores[name].worse.low > 0.05, name
        assert scores[name].worse.first == scores["gate"].accuracy.value
        assert scores[name].worse.second == pytest.approx(scores[name].accuracy.value)
    assert found.gate.purpose == PURPOSE


def test_it_is_the_same_every_time_and_another_with_another_seed(fitted):
    found, fitting, (held, _) = fitted
    again, other = (fit_gate(PURPOSE, fitting, held, seed=seed) for seed in (1, 2))
    assert again.gate.digest == found.gate.digest
    assert again.scores == found.scores
    assert other.gate.digest != found.gate.digest


def test_where_nothing_is_to_be_learnt_it_remains_the_average(monkeypatch):
    monkeypatch.setattr(gate_fitting, "EPOCHS", 4)
    noise = [planted(40, seed)[0] for seed in (0, 1)]
    generator = torch.Generator().manual_seed(0)
    for each in noise:
        each.units.copy_(torch.nn.functional.normalize(torch.randn(each.units.shape, generator=generator), dim=2))
    seen = []
    found = fit_gate(PURPOSE, *noise, seed=1, progress=lambda done, most: seen.append((done, most)))
    scores = by_name(found)
    assert scores["gate"].loss <= scores["average"].loss
    assert found.epochs == 0
    assert not found.gate.matrix.any()
    assert not found.gate.bias.any()
    assert scores["gate"].loss == pytest.approx(scores["average"].loss, rel=1e-6)
    assert seen == [(1, 4), (2, 4), (3, 4)]  # it stops early


def test_scores_are_those_of_loops():
    held, _ = planted(140, 3)
    losses, hits = [], []
    for rows in held.batches():
        assert len(rows) >= gate_fitting.BATCH
        for i in rows:
            scores = {}
            for j in rows:
                a, b = (held.units[row].mean(dim=0).double() for row in (i, j))
                if i != j:
                    scores[int(j)] = float(a @ b / a.norm() / b.norm()) / 0.1
            near = [j for j in (i - 1, i + 1) if j in scores and j // DOCUMENT == i // DOCUMENT]
            total = math.log(sum(math.exp(score) for score in scores.values()))
            losses.append(sum(total - scores[j] for j in near) / len(near))
            hits.append(max(scores, key=scores.get) in near)
            if len(losses) == 30:
                break
        break
    found = []
    rows = next(held.batches())
    vectors = held.units[rows].mean(dim=1)
    neighbours = held.part.neighbours(rows)
    for i in range(30):
        alone = torch.full_like(neighbours, -1)
        alone[i] = neighbours[i]
        loss, best = gate_fitting._contrast(vectors, alone, 0.1)
        found.append((float(loss), bool((best[i] == neighbours[i]).any())))
    np.testing.assert_allclose([loss for loss, _ in found], losses, rtol=1e-4)
    assert [hit for _, hit in found] == hits


def test_the_temperature_is_the_best_of_several():
    encoded, _ = planted(140, 4)
    losses = {t: gate_fitting._found(gate_fitting._average, encoded, t)[0] for t in gate_fitting.TEMPERATURES}
    found = gate_fitting.best_temperature(gate_fitting._average, encoded)
    assert losses[found] == min(losses.values())
    assert len({*losses.values()}) == len(losses)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return topic_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed", documents=60)


@pytest.fixture(scope="module")
def run(corpus):
    return train(small_config(corpus, corpus.parent / "run", epochs=1, held_out=0.2))


def test_what_the_run_has_held_out_is_held_out_if_it_is_enough(corpus, run, monkeypatch):
    documents = np.array([row.document for row in topic_rows(60)])
    theirs, ours = ({*documents[held_out(documents, 1, share)]} for share in (0.2, gate_sample.SHARE))
    assert ours < theirs  # the same hash
    for enough, expected, new in ((1, theirs, True), (len(documents), ours, True)):
        monkeypatch.setattr(gate_sample, "ENOUGH", enough)
        sample = read_sample([run], opened(corpus), 1000, seed=1)
        assert {*sample.held_out.documents} == expected
        assert {*sample.fitting.documents} == {*documents} - expected
        assert sample.new is new
    other = read_sample([run], opened(corpus), 1000, seed=2)
    assert not other.new  # the run was trained on some of it
    assert len(other.fitting.sentences) + len(other.held_out.sentences) == len(documents)


def test_documents_are_whole_and_no_more_than_asked_for(corpus, run):
    rows = topic_rows(60)
    sample = read_sample([run], opened(corpus), 85, seed=1)
    assert len(sample.fitting.sentences) == 80
    for part in (sample.fitting, sample.held_out):
        chosen = [row for row in rows if row.document in part.documents][: len(part.sentences)]
        assert part.sentences == [row.sentence for row in chosen]
        assert part.positions.tolist() == [row.position for row in chosen]
    expected = [
        [j for j in (i - 1, i + 1) if 0 <= j < 80 and sample.fitting.documents[i] == sample.fitting.documents[j]]
        for i in range(80)
    ]
    found = [[j for j in row if j >= 0] for row in sample.fitting.neighbours(np.arange(80)).tolist()]
    assert found == expected


def test_a_corpus_of_one_document_has_nothing_to_hold_out(tmp_path, run):
    corpus = opened(topic_corpus(tmp_path / "one.parsed", documents=1))
    with pytest.raises(InputError, match=r"one\.parsed: too few sentences with a neighbour: give another --corpus"):
        read_sample([run], corpus, 1000, seed=1)


def test_runs_that_have_no_gate(corpus, run, tmp_path):
    one = Embedder.load(run)
    one.views = ("dep",)
    with pytest.raises(InputError, match="run: has one view, dep: give a run with several"):
        gate_fitting.check_gateable(one)
    chosen = {"views": ["dep", "avg"], "hidden": 8, "word_dim": 8}
    two = Embedder.load(make_baseline("random", corpus, tmp_path / "two", None, chosen))
    gate_fitting.check_gateable(two)
    with pytest.raises(InputError, match=r"join = gate needs equal dimensions, but dep has 32, avg has 24"):
        gate_fitting.check_gateable(two.with_representation(pooling="pooled"))
