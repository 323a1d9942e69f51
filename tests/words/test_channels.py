import io

import numpy as np
import pytest
import torch
from corpora import opened, random_trees, small_config, topic_corpus
from rich.console import Console
from safetensors.torch import load_file
from vector_files import random_vectors, write_vectors

from structviews.batches.batch import collate
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.runs.settings_file import load_run
from structviews.training.checkpoint import Progress, extend, extended
from structviews.training.loop import train
from structviews.training.trainer import Training
from structviews.words.vector_files import WordVectors, fixed_words
from structviews.words.vocabulary import UNKNOWN, count_words

DIM = 5


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return topic_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed")


@pytest.fixture(scope="module")
def vectors(corpus, tmp_path_factory):
    """A vector file that lacks some words of the corpus and has others."""
    words = ["elsewhere", *sorted(count_words(opened(corpus)))[::-2], "nowhere"]
    path = tmp_path_factory.mktemp("vectors") / "v.vec"
    return write_vectors(path, words, random_vectors(words, DIM))


@pytest.fixture
def config(corpus, vectors, tmp_path):
    return small_config(
        corpus, tmp_path / "run", channels=("fixed", "trained"), vectors=str(vectors), epochs=2, validate_every=4
    )


def test_the_fixed_words_are_those_of_the_corpus_that_have_a_vector(corpus, vectors, tmp_path):
    counts = count_words(opened(corpus))
    file = WordVectors.open(vectors)
    vocabulary, table = fixed_words(opened(corpus), file)
    there = set(file.words.to_pylist())
    expected = sorted((w for w in counts if w in there), key=lambda w: (-counts[w], w))
    assert vocabulary.words == [UNKNOWN, *expected]
    assert 0 < len(expected) < len(counts)
    unknown = sum(n for w, n in counts.items() if w not in there)
    assert vocabulary.counts.tolist() == [unknown, *(counts[w] for w in expected)]
    assert table.dtype == np.float32
    assert not table[0].any()
    np.testing.assert_array_equal(table[1:], file.rows(file.find(expected)))
    other = write_vectors(tmp_path / "v.vec", ["autre", "mots"])
    with pytest.raises(InputError, match=r"v\.vec: has no word of .*x\.parsed: give vectors for its language"):
        fixed_words(opened(corpus), WordVectors.open(other))


def test_the_fixed_table_is_one_and_learns_nothing(config):
    training = Training(config.replaced(views=("dep", "const", "seq", "avg")))
    fixed = training.model.channels["fixed"]
    assert [id(table) for table in fixed.tables] == [id(fixed.words[0])] * 4
    before = fixed.tables[0].weight.clone()
    for step in training.steps(Progress()):
        training.step(*step.batches)
    assert torch.equal(fixed.tables[0].weight, before)
    names = dict(training.model.named_parameters())
    assert not any(name.startswith("channels.fixed.words") for name in names)
    saved = [name for name in training.model.state_dict() if name.startswith("channels.fixed.words")]
    assert saved == ["channels.fixed.words.0.weight"]


def test_a_channel_learns_beside_another_what_it_learns_alone(config):
    """Each has its own loss and its own clipping; they share the batches."""
    config = config.replaced(clip=0.01)
    both = load_file(train(config) / "model.safetensors")
    alone = load_file(train(config.replaced(channels=("fixed",), out=config.data.out + "-alone")) / "model.safetensors")
    assert alone
    for name, tensor in alone.items():
        assert torch.equal(both[name], tensor), name
    assert {name.split(".")[1] for name in both} == {"fixed", "trained"}


def test_parts_make_the_whole_bit_for_bit(config, tmp_path):
    whole = train(config)
    parts = config.replaced(out=str(tmp_path / "parts"))
    train(parts.replaced(steps=5))
    extend(extended(tmp_path / "parts", epochs=None, steps=0))
    again = train(extended(tmp_path / "parts", None, None))
    for name in ("model.safetensors", "words.safetensors"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()
    assert load_run(again) == load_run(whole)


def test_unknown_words_may_have_a_random_vector_that_the_run_keeps(config, tmp_path):
    config = config.replaced(unknown_words="random", channels=("fixed",))
    run = train(config)
    embedder, begun = Embedder.load(run), Training(config.replaced(out=str(tmp_path / "again")))
    batch = collate([random_trees(["unknown", "the", "unheard"])], embedder.vocabularies, ["tokens"])
    tables = [model.channels["fixed"].tables[0] for model in (embedder.model, begun.model)]
    here, there = (table.lookup(batch.ids["fixed"]) for table in tables)
    assert torch.equal(here, there)
    assert torch.equal(here[0], here[2])
    assert (here[0] > 0).all()
    assert (here[0] < 1).all()
    zeros = Training(config.replaced(unknown_words="zero", out=str(tmp_path / "zeros")))
    assert torch.equal(zeros.model.channels["fixed"].tables[0].weight[1:], tables[1].weight[1:])
    other = Training(config.replaced(seed=7, out=str(tmp_path / "other"))).model.channels["fixed"].tables[0]
    assert not torch.equal(other.weight[0], here[0])


@pytest.mark.parametrize(
    ("views", "settings", "message"),
    [
        (("bow", "seq"), {}, "the view 'bow' adds up fixed word vectors, which have 5 dimensions, not 8: give"),
        (("bow", "bow"), {"hidden": DIM}, "views bow,bow: with fixed words there is nothing to learn"),
    ],
)
def test_views_that_fixed_words_do_not_do_for(config, views, settings, message):
    with pytest.raises(InputError, match=message):
        Training(config.replaced(views=views, **settings))


def test_other_vectors_are_another_run(config, tmp_path):
    config = config.replaced(steps=1)
    train(config)
    screen = io.StringIO()
    words = WordVectors.open(config.words.vectors).words.to_pylist()
    # Where the file lies does not matter, what is in it does.
    same = write_vectors(tmp_path / "same.vec", words, random_vectors(words, DIM))
    train(config.replaced(vectors=str(same), steps=1), Console(file=screen))
    assert screen.getvalue().count("already trained") == 1
    other = write_vectors(tmp_path / "other.vec", words, random_vectors(words, DIM, seed=1))
    with pytest.raises(InputError, match=r"run: was trained with other vectors than .*other\.vec: give those, or"):
        train(config.replaced(vectors=str(other)))
    with pytest.raises(InputError, match=r"cannot start from its weights: it was trained with other vectors"):
        Training(config.replaced(vectors=str(other), init_from=config.data.out, out=str(tmp_path / "next")))
