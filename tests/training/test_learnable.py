"""What cannot be learnt is one line before anything is written; what can is trained."""

import warnings

import pytest
import torch
from corpora import random_trees, small_config, topic_corpus, write_corpus

from structviews.batches.reader import CorpusReader
from structviews.corpus.parsed_corpus import Row
from structviews.errors import InputError
from structviews.training import trainer
from structviews.training.loop import train
from structviews.training.trainer import Training

ALONE = "no sentence has a neighbour in its document, so there is nothing to learn: parse running text"
pytestmark = pytest.mark.usefixtures("one_thread")


def rows(documents, sentences, words=lambda number: ["a", f"w{number}", "b"], gap=1):
    """Documents of as many sentences, at every ``gap``-th position."""
    numbers = [(document, position) for document in range(documents) for position in range(0, gap * sentences, gap)]
    return [Row(*place, line, random_trees(words(line))) for line, place in enumerate(numbers, 1)]


@pytest.mark.parametrize(
    ("views", "settings"),
    [
        ("bow,bow", {}),
        ("bow,bow", {"context": 3}),
        ("seq,seq", {"objective": "quick-thoughts"}),
        ("seq,avg", {"objective": "consensus"}),
        ("seq", {"objective": "generative"}),
    ],
)
def test_documents_of_one_sentence(tmp_path, views, settings):
    corpus = write_corpus(tmp_path / "x.parsed", rows(40, 1))
    config = small_config(corpus, tmp_path / "run", views.split(","), **settings)
    with pytest.raises(InputError, match=ALONE):
        train(config)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("context", "learns"), [(1, False), (2, True)])
def test_neighbours_are_as_far_as_the_context_goes(tmp_path, context, learns):
    corpus = write_corpus(tmp_path / "x.parsed", rows(20, 4, gap=2))
    training = Training(small_config(corpus, tmp_path / "run", ["bow", "bow"], context=context))
    if learns:
        training.check_learnable()
    else:
        with pytest.raises(InputError, match=ALONE):
            training.check_learnable()


def test_neighbours_may_be_in_two_shards(tmp_path):
    """The only pair of them lies across the end of the first shard."""
    places = [(0, 0), (1, 0), (2, 0), (2, 1), (3, 0), (4, 0)]
    pairs = [Row(*place, line, random_trees(["a", f"w{line}"])) for line, place in enumerate(places, 1)]
    corpus = write_corpus(tmp_path / "x.parsed", pairs, shard_size=3)
    assert Training(small_config(corpus, tmp_path / "run", ["bow", "bow"], held_out=0.0)).data.has_neighbours()


def test_an_objective_that_needs_no_neighbours_is_trained(tmp_path, monkeypatch):
    training = Training(small_config(write_corpus(tmp_path / "x.parsed", rows(40, 1)), tmp_path / "r", ["bow", "bow"]))
    for _, channel in training.model.each():
        monkeypatch.setattr(
            channel.objective,
            "forward",
            lambda views, _: (views[0].sum(), {"loss": views[0].sum(), "anchors": torch.tensor(len(views[0]))}),
        )
    training.check_learnable()


@pytest.mark.parametrize(
    ("size", "context", "learns"), [(2, 1, False), (3, 1, True), (4, 3, False), (5, 4, False), (5, 3, True)]
)
def test_batches_in_which_all_are_right(tmp_path, size, context, learns):
    corpus = write_corpus(tmp_path / "x.parsed", rows(6, 20))
    settings = {"batch_size": size, "context": context, "held_out": 0.0}
    training = Training(small_config(corpus, tmp_path / "run", ["bow", "bow"], **settings))
    if learns:
        training.check_learnable()
    else:
        with pytest.raises(InputError, match=f"^batch_size = {size}, context = {context}: every candidate is right"):
            training.check_learnable()


def test_sentences_that_are_all_the_same(tmp_path):
    corpus = write_corpus(tmp_path / "x.parsed", rows(12, 4, words=lambda _: ["a", "b"]))
    with pytest.raises(InputError, match="all its sentences are the same, so there is nothing to learn"):
        train(small_config(corpus, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_one_document_is_a_warning(tmp_path):
    corpus = write_corpus(tmp_path / "x.parsed", rows(1, 40))
    with pytest.warns(UserWarning, match="one document, which is not split: none is held out for validation"):
        Training(small_config(corpus, tmp_path / "run")).check_learnable()


def test_a_corpus_that_can_be_learnt_is_read_no_further(tmp_path, monkeypatch):
    training = Training(small_config(topic_corpus(tmp_path / "x.parsed"), tmp_path / "run"))
    monkeypatch.setattr(CorpusReader, "batch", None)
    state = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        training.check_learnable()
    assert torch.equal(state, torch.get_rng_state())


def test_a_model_beyond_memory_is_one_line(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(trainer, "free_bytes", lambda _: 10**9)
    build = trainer.build_model
    monkeypatch.setattr(trainer, "build_model", lambda *a: made.append(build(*a)) or made[-1])
    config = small_config(topic_corpus(tmp_path / "x.parsed"), tmp_path / "run", ["seq", "seq"], hidden=100_000)
    with pytest.raises(
        InputError, match=r"^hidden = 100000, word_dim = 6: training 30,\S+ parameters: needs about 480\.1 GB"
    ) as e:
        train(config)
    assert str(e.value).endswith("1.0 GB are free: lower --hidden, --word-dim or --vocabulary")
    assert {parameter.device.type for model in made for parameter in model.parameters()} == {"meta"}
    assert not (tmp_path / "run").exists()
