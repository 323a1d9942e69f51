"""SentEval's way with an encoder (senteval/engine.py and its tasks), in small."""

import numpy as np
import pytest

from structviews.adapters.senteval import batcher, prepare
from structviews.errors import InputError

SENTENCES = ["the bird sings", "", "a bird", "it sings of the dead tree .", "a bird", "caf\xe9 \xa0 noir", "   "]
WORDS = [tuple(sentence.split()) or (".",) for sentence in SENTENCES]


class Parameters(dict):
    """Keys that are attributes too, and None where there is no such key."""

    __getattr__ = dict.get
    __setattr__ = dict.__setitem__


def evaluated(params, task, samples, prepare=prepare):
    """Vectors in the order of the samples: all are prepared, then asked for in batches, shortest first."""
    params = Parameters(params, batch_size=3, current_task=task)
    prepare(params, samples)
    order = sorted(range(len(samples)), key=lambda i: len(samples[i]))
    batches = [order[start : start + 3] for start in range(0, len(order), 3)]
    rows = [batcher(params, [samples[i] for i in batch]) for batch in batches]
    return np.vstack(rows)[np.argsort(order)]


def vectors_of(embedder, task="MR", split=str.split):
    return evaluated({"embedder": embedder}, task, [split(each) for each in SENTENCES])


def test_each_sentence_has_the_vector_of_its_tokens(embedder):
    """Bytes, as SNLI has them, or an array, as STS has, where all sentences of a data set have one length."""
    for split in (lambda sentence: sentence.encode().split(), lambda sentence: np.array(sentence.split())):
        np.testing.assert_allclose(vectors_of(embedder, split=split), embedder.encode(WORDS), atol=1e-5)


def test_only_tasks_without_training_get_the_vectors_for_similarity(embedder):
    similarity, supervised = embedder.for_similarity().encode(WORDS), embedder.encode(WORDS)
    assert not np.allclose(similarity, supervised, atol=1e-3)
    for task, expected in (("STS12", similarity), ("STSBenchmark", supervised)):
        np.testing.assert_allclose(vectors_of(embedder, task), expected, atol=1e-5)


def test_a_component_is_that_of_the_task_and_not_of_a_batch(embedder):
    embedder = embedder.with_representation(remove_component=True, transductive=True)
    distinct = list(dict.fromkeys(WORDS))
    expected = embedder.encode(distinct)[[distinct.index(words) for words in WORDS]]
    np.testing.assert_allclose(vectors_of(embedder), expected, atol=1e-4)


def test_what_is_missing_is_one_line(embedder):
    with pytest.raises(InputError, match=r"^params\['embedder'\] = None: not a run: set it with .*Embedder\.load.*$"):
        evaluated({}, "MR", [["a"]])
    with pytest.raises(InputError, match=r"^'vectors': not prepared: pass both functions, .*$"):
        evaluated({"embedder": embedder}, "MR", [["a"]], prepare=lambda params, samples: None)
