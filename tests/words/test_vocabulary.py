from collections import Counter

import numpy as np
import pytest
import torch
from corpora import opened, topic_corpus

from structviews.batches.batch import WordIds
from structviews.errors import InputError
from structviews.runs.weights import load_words, save_vocabularies
from structviews.runtime.arrays import group
from structviews.runtime.seals import write_arrays
from structviews.views.view import WordTable
from structviews.words.vocabulary import UNKNOWN, Vocabulary


@pytest.mark.parametrize("size", [1, 12, 10**6])
def test_words_are_ranked_by_a_count_over_all_shards_without_the_unknown_word(tmp_path, size):
    corpus = opened(topic_corpus(tmp_path / "x.parsed"))
    counts = Counter(word for row in corpus for word in row.sentence.tokens)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    assert Vocabulary.of_corpus(corpus, size).words == [UNKNOWN, *ranked[:size]]


def test_ids_of_words():
    vocabulary = Vocabulary([UNKNOWN, "bird", "Bird"])
    words = ["Bird", "cat", "bird", "", UNKNOWN, "bird"]
    for given in (words, iter(words)):
        ids = vocabulary.ids(given)
        assert ids.dtype == np.int64
        assert ids.tolist() == [2, 0, 1, 0, 0, 1]
    assert vocabulary.ids([]).shape == (0,)
    assert len(vocabulary) == 3


def test_a_saved_vocabulary_comes_back(tmp_path):
    words = [UNKNOWN, "naïve", "日本", "'s", "\U0001f426"]
    save_vocabularies(tmp_path, {"trained": Vocabulary(words), "fixed": Vocabulary(words[:2])})
    assert load_words(tmp_path, "trained").words == words
    assert load_words(tmp_path, "fixed").words == words[:2]
    with pytest.raises(InputError, match=r"words\.safetensors: damaged: it has no words of the channel 'other'"):
        load_words(tmp_path, "other")


def test_files_that_are_no_vocabulary(tmp_path, one_line):
    with pytest.raises(InputError, match=r"words\.safetensors: no such file"):
        load_words(tmp_path, "trained")
    for content in (b"", b"bird", b"<unk>\n\xff"):
        write_arrays(tmp_path / "words.safetensors", {"trained": np.frombuffer(content, np.uint8)})
        with one_line(r"words\.safetensors: damaged"):
            load_words(tmp_path, "trained")


FLAT = np.array([1, 2, 2, 0, 6, 6])
STARTS = torch.tensor([0, 3, 4])


def ids_of(words):
    return WordIds(*map(torch.from_numpy, group(words, 7)))


def means(weight):
    return torch.stack([weight[[1, 2, 2]].mean(0), weight[0], weight[6]])


@pytest.mark.parametrize(
    ("ours", "plain"),
    [
        (lambda table, ids: table.lookup(ids), lambda weight: weight[torch.from_numpy(FLAT)]),
        (lambda table, ids: table.rows(ids), lambda weight: weight[[0, 1, 2, 6]]),
        (lambda table, ids: table.bag(ids, STARTS), lambda weight: means(weight) * torch.tensor([[3], [1], [2]])),
        (lambda table, ids: table.bag(ids, STARTS, "mean"), means),
    ],
)
def test_a_gradient_has_the_rows_that_were_read_and_needs_no_sorting(ours, plain):
    table = WordTable(7, 3).double()
    dense = table.weight.detach().clone().requires_grad_()
    vectors, expected = ours(table, ids_of(FLAT)), plain(dense)
    torch.testing.assert_close(vectors, expected)
    weights = torch.randn_like(vectors)
    (vectors * weights).sum().backward()
    (expected * weights).sum().backward()
    gradient = table.weight.grad
    assert gradient.is_sparse
    assert gradient.is_coalesced()
    assert gradient.indices().tolist() == [[0, 1, 2, 6]]
    torch.testing.assert_close(gradient.to_dense(), dense.grad)


def test_gradients_of_two_readings_add_up():
    table = WordTable(7, 3).double()
    (table.lookup(ids_of(FLAT)).sum() + 2 * table.lookup(ids_of(np.array([6, 3]))).sum()).backward()
    assert table.weight.grad.to_dense()[:, 0].tolist() == [1, 1, 2, 2, 0, 0, 4]
