"""Channels of words: fixed and trained ones, and words looked up in lower case where a file has no capitals."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from corpora import opened, random_trees, small_config, topic_rows, write_corpus
from rich.console import Console
from safetensors.torch import load_file
from vector_files import fasttext_model, random_vectors, write_vectors

from structviews.batches.batch import collate
from structviews.corpus.layout import Row
from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import expand
from structviews.errors import InputError
from structviews.runs.settings_file import load_run
from structviews.runs.weights import load_words
from structviews.training.baselines import make_baseline
from structviews.training.checkpoint import Progress
from structviews.training.loop import train
from structviews.training.trainer import Training
from structviews.words.learning import learn_file
from structviews.words.vector_files import WordVectors, fixed_words
from structviews.words.vocabulary import UNKNOWN, count_words
from structviews.words.word_settings import Word2VecConfig

DIM = 5
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def vectors(topics, tmp_path_factory):
    """A vector file that lacks some words of the corpus and has others."""
    words = ["elsewhere", *sorted(count_words(opened(topics)))[::-2], "nowhere"]
    path = tmp_path_factory.mktemp("vectors") / "v.vec"
    return write_vectors(path, words, random_vectors(words, DIM))


@pytest.fixture
def config(topics, vectors, tmp_path):
    settings = {"channels": ("fixed", "trained"), "vectors": str(vectors), "epochs": 2, "validate_every": 4}
    return small_config(topics, tmp_path / "run", **settings)


def test_the_fixed_words_are_those_of_the_corpus_that_have_a_vector(topics, vectors, tmp_path):
    counts = count_words(opened(topics))
    file = WordVectors.open(vectors)
    vocabulary, table = fixed_words(opened(topics), file)
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
        fixed_words(opened(topics), WordVectors.open(other))


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


def test_unknown_words_may_have_a_random_vector_that_the_run_keeps(config, tmp_path):
    config = config.replaced(unknown_words="random", channels=("fixed",))

    def table(**changes):
        changed = config.replaced(out=str(tmp_path / "another"), **changes)
        return Training(changed).model.channels["fixed"].tables[0].weight

    embedder = Embedder.load(train(config))
    batch = collate([random_trees(["unknown", "the", "unheard"])], embedder.vocabularies, ["tokens"])
    found = embedder.model.channels["fixed"].tables[0].lookup(batch.ids["fixed"])
    assert torch.equal(found[0], found[2])
    assert torch.equal(found[0], table()[0])
    assert ((found[0] > 0) & (found[0] < 1)).all()
    assert torch.equal(table(unknown_words="zero")[1:], table()[1:])
    assert not torch.equal(table(seed=7)[0], found[0])


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


WIDTH = 6
PLAIN = [row.sentence.tokens for row in topic_rows()]
# As PLAIN, with a capital at the beginning of each sentence.
CAPITALS = [(words[0].title(), *words[1:]) for words in PLAIN]
KNOWN = sorted({word for words in PLAIN for word in words})[::2]


@pytest.fixture(scope="module")
def capitalised(tmp_path_factory):
    rows = [Row(i // 8, i % 8, i + 1, random_trees(words)) for i, words in enumerate(CAPITALS)]
    return write_corpus(tmp_path_factory.mktemp("corpus") / "x.parsed", rows)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """fastText's vectors of half of the words, in lower case, and of n-grams."""
    path = tmp_path_factory.mktemp("vectors") / "x.bin"
    path.write_bytes(fasttext_model(KNOWN, random_vectors(range(len(KNOWN) + 50), WIDTH)))
    return path


def trees(words):
    """One sentence, with the trees of its lower-cased words."""
    words = tuple(words)
    return replace(random_trees([word.lower() for word in words]), tokens=words)


def test_a_file_without_capitals_is_looked_up_in_lower_case(file):
    vectors = WordVectors.open(file)
    assert vectors.uncased
    for words in (KNOWN[:3], ["strange", "words"]):
        known, rows = vectors.read([word.upper() for word in words])
        assert known.all()
        np.testing.assert_array_equal(rows, vectors.read(words)[1])
    assert vectors.find([KNOWN[2].title(), "Strange"]).tolist() == [2, -1]


def test_one_capital_is_enough_to_look_words_up_as_they_are(tmp_path):
    vectors = WordVectors.open(write_vectors(tmp_path / "x.vec", ["the", "of", "Of"]))
    assert not vectors.uncased
    assert vectors.find(["The", "the", "Of", "OF"]).tolist() == [-1, 0, 2, -1]
    # Arrow's own lower case changes this letter, which Python's does not.
    assert WordVectors.open(write_vectors(tmp_path / "y.vec", ["the", "\uab6c"])).uncased


def test_a_run_encodes_capitals_as_lower_case(capitalised, file, tmp_path):
    settings = {"channels": ("fixed",), "vectors": str(file), "epochs": 1}
    fixed_run = train(small_config(capitalised, tmp_path / "run", **settings))
    assert load_run(fixed_run)[1].vectors["uncased"]
    embedder = Embedder.load(fixed_run)
    words = [KNOWN[0], "Unheard", KNOWN[-1], "of"]
    plain, title, upper = embedder.encode([trees(f(w) for w in words) for f in (str.lower, str.title, str.upper)])
    np.testing.assert_allclose(title, plain, atol=1e-6)
    np.testing.assert_allclose(upper, plain, atol=1e-6)
    other = embedder.encode([trees([KNOWN[0], "Unseen", KNOWN[-1], "of"])])[0]
    assert np.abs(plain - other).max() > 1e-4


def test_baselines_and_expanded_runs_look_words_up_in_any_case(capitalised, file, tmp_path):
    sif = make_baseline("sif", capitalised, tmp_path / "sif", file, None, Console(quiet=True))
    plain, upper = (Embedder.load(sif).encode([trees(f(w) for w in PLAIN[0])]) for f in (str.lower, str.upper))
    np.testing.assert_array_equal(plain, upper)
    trained_run = train(small_config(capitalised, tmp_path / "run", ("avg", "seq"), epochs=1))
    own = set(load_words(trained_run, "trained").words)
    found = [word for word in KNOWN if word in own or word.title() in own]
    assert expand(trained_run, file).n_new == len(KNOWN) - len(found)


def test_vectors_are_learnt_of_lower_cased_words(capitalised, tmp_path):
    pytest.importorskip("gensim")
    config = Word2VecConfig(dim=4, min_count=1, epochs=1, lower_case=True)
    learn_file(tmp_path / "x.vec", opened(capitalised), config)
    vectors = WordVectors.open(tmp_path / "x.vec")
    assert sorted(vectors.words.to_pylist()) == sorted({word for words in PLAIN for word in words})
