"""SentEval's way with an encoder (senteval/engine.py and its tasks), in small."""

import numpy as np
import pytest
from corpora import RandomParser

from structviews.adapters.senteval import batcher, prepare
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError

SENTENCES = ["the bird sings", "", "a bird", "it sings of the dead tree .", "a bird", "caf\xe9 \xa0 noir", "   "]
WORDS = [tuple(sentence.split()) or (".",) for sentence in SENTENCES]


class Parameters(dict):
    """Keys that are attributes too, and None where there is no such key."""

    __getattr__ = dict.get
    __setattr__ = dict.__setitem__


class Engine:
    """Prepares all sentences of a task, then asks for them in batches, shortest first."""

    def __init__(self, params, batcher, prepare):
        self.params = Parameters(params)
        self.params.setdefault("batch_size", 3)
        self.batcher, self.prepare = batcher, prepare

    def eval(self, task, samples):
        """Vectors in the order of the samples."""
        self.params.current_task = task
        self.prepare(self.params, samples)
        order = sorted(range(len(samples)), key=lambda i: len(samples[i]))
        rows = []
        for start in range(0, len(order), self.params.batch_size):
            batch = [samples[i] for i in order[start : start + self.params.batch_size]]
            rows.append(self.batcher(self.params, batch))
        return np.vstack(rows)[np.argsort(order)]


@pytest.mark.parametrize(
    "split",
    [
        lambda sentence: sentence.encode().split(),  # SNLI
        lambda sentence: np.array(sentence.split()),  # STS, where all sentences of a data set have one length
    ],
    ids=["bytes", "array"],
)
def test_each_sentence_has_the_vector_of_its_tokens(run, split):
    embedder = Embedder.load(run, RandomParser())
    vectors = Engine({"embedder": embedder}, batcher, prepare).eval("MR", [split(each) for each in SENTENCES])
    np.testing.assert_allclose(vectors, embedder.encode(WORDS), atol=1e-5)


@pytest.mark.parametrize(("task", "unsupervised"), [("STS12", True), ("STSBenchmark", False)])
def test_only_tasks_without_training_get_the_vectors_for_similarity(run, task, unsupervised):
    embedder = Embedder.load(run, RandomParser())
    vectors = Engine({"embedder": embedder}, batcher, prepare).eval(task, [each.split() for each in SENTENCES])
    similarity, supervised = embedder.for_similarity().encode(WORDS), embedder.encode(WORDS)
    assert not np.allclose(similarity, supervised, atol=1e-3)
    np.testing.assert_allclose(vectors, similarity if unsupervised else supervised, atol=1e-5)


def test_a_component_is_that_of_the_task_and_not_of_a_batch(run):
    embedder = Embedder.load(run, RandomParser()).with_representation(remove_component=True, transductive=True)
    vectors = Engine({"embedder": embedder}, batcher, prepare).eval("MR", [each.split() for each in SENTENCES])
    distinct = list(dict.fromkeys(WORDS))
    expected = embedder.encode(distinct)[[distinct.index(words) for words in WORDS]]
    np.testing.assert_allclose(vectors, expected, atol=1e-4)


def test_what_is_missing_is_one_line(run):
    with pytest.raises(InputError, match=r"^params\['embedder'\] = None: not a run: set it with .*Embedder\.load.*$"):
        Engine({}, batcher, prepare).eval("MR", [["a"]])
    engine = Engine({"embedder": Embedder.load(run)}, batcher, lambda params, samples: None)
    with pytest.raises(InputError, match=r"^'vectors': not prepared: pass both functions, .*$"):
        engine.eval("MR", [["a"]])
