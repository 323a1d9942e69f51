"""What cannot be learnt is one line before anything is written; what can is trained."""

from contextlib import nullcontext

import pytest
from corpora import random_trees, small_config, topic_corpus, write_corpus

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
    ("corpus", "views", "settings", "message"),
    [
        (rows(40, 1), "bow,bow", {"context": 3}, ALONE),
        (rows(40, 1), "seq", {"objective": "generative"}, ALONE),
        (rows(12, 4, words=lambda _: ["a", "b"]), "dep,const", {}, "all its sentences are the same, so there is"),
        (rows(1, 1), "dep,const", {}, r"x\.parsed: 1 training sentence: parse a larger corpus"),
    ],
)
def test_nothing_to_learn(tmp_path, corpus, views, settings, message):
    config = small_config(write_corpus(tmp_path / "x.parsed", corpus), tmp_path / "run", views.split(","), **settings)
    with pytest.raises(InputError, match=message):
        train(config)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("corpus", "size", "context", "message"),
    [
        # Neighbours are as far as the context goes.
        (rows(20, 4, gap=2), 16, 1, ALONE),
        (rows(20, 4, gap=2), 16, 2, None),
        *((rows(6, 20), size, context, "every candidate is right") for size, context in ((2, 1), (4, 3), (5, 4))),
        *((rows(6, 20), size, context, None) for size, context in ((3, 1), (5, 3))),
    ],
)
def test_batches_teach_something_where_some_candidates_are_right_and_some_are_not(
    tmp_path, corpus, size, context, message
):
    own = {"batch_size": size, "context": context, "held_out": 0.0}
    written = write_corpus(tmp_path / "x.parsed", corpus)
    training = Training(small_config(written, tmp_path / "run", ["bow", "bow"], **own))
    place = "" if message == ALONE else f"^batch_size = {size}, context = {context}: "
    with pytest.raises(InputError, match=place + message) if message else nullcontext():
        training.check_learnable()


def test_neighbours_may_be_in_two_shards(tmp_path):
    """The only pair of them lies across the end of the first shard."""
    places = [(0, 0), (1, 0), (2, 0), (2, 1), (3, 0), (4, 0)]
    pairs = [Row(*place, line, random_trees(["a", f"w{line}"])) for line, place in enumerate(places, 1)]
    corpus = write_corpus(tmp_path / "x.parsed", pairs, shard_size=3)
    Training(small_config(corpus, tmp_path / "run", ["bow", "bow"], held_out=0.0)).check_learnable()


def test_one_document_is_a_warning(tmp_path):
    corpus = write_corpus(tmp_path / "x.parsed", rows(1, 40))
    with pytest.warns(UserWarning, match="one document, which is not split: none is held out for validation"):
        Training(small_config(corpus, tmp_path / "run")).check_learnable()


def test_a_model_beyond_memory_is_one_line(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(trainer, "available_bytes", lambda: 10**9)
    build = trainer.build_model
    monkeypatch.setattr(trainer, "build_model", lambda *a: made.append(build(*a)) or made[-1])
    config = small_config(topic_corpus(tmp_path / "x.parsed"), tmp_path / "run", ["seq", "seq"], hidden=100_000)
    wanted = r"^hidden = 100000, word_dim = 6: training 30,\S+ parameters: needs about 480\.1 GB.*1\.0 GB are free"
    with pytest.raises(InputError, match=wanted):
        train(config)
    assert {parameter.device.type for model in made for parameter in model.parameters()} == {"meta"}
    assert not (tmp_path / "run").exists()
