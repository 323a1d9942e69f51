from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
import torch
from corpora import opened, tiny_corpus, topic_corpus

from structviews.errors import InputError
from structviews.vocabulary import UNKNOWN, Vocabulary, WordTable


@pytest.fixture(scope="module", params=[tiny_corpus, topic_corpus])
def corpus(request, tmp_path_factory):
    return opened(request.param(tmp_path_factory.mktemp("corpus") / "x.parsed"))


def most_frequent(corpus):
    counts = Counter(word for row in corpus for word in row.sentence.tokens)
    return sorted(counts, key=lambda word: (-counts[word], word))


def test_words_are_ranked_by_a_count_over_all_shards(corpus):
    assert Vocabulary.of_corpus(corpus, 10**6).words == [UNKNOWN, *most_frequent(corpus)]


@pytest.mark.parametrize("size", [1, 5, 12])
def test_the_size_is_without_the_unknown_word(corpus, size):
    assert Vocabulary.of_corpus(corpus, size).words == [UNKNOWN, *most_frequent(corpus)[:size]]


def test_ids_of_lists_and_arrow_arrays():
    vocabulary = Vocabulary([UNKNOWN, "bird", "Bird"])
    words = ["Bird", "cat", "bird", "", UNKNOWN]
    for given in (words, pa.array(words)):
        ids = vocabulary.ids(given)
        assert ids.dtype == np.int64
        assert ids.tolist() == [2, 0, 1, 0, 0]
    assert vocabulary.ids([]).shape == (0,)
    assert len(vocabulary) == 3


def test_a_saved_vocabulary_comes_back(tmp_path):
    words = [UNKNOWN, "naïve", "日本", "'s", "\U0001f426"]
    Vocabulary(words).save(tmp_path / "words.txt")
    assert Vocabulary.load(tmp_path / "words.txt").words == words


def test_files_that_are_no_vocabulary(tmp_path):
    path = tmp_path / "words.txt"
    with pytest.raises(InputError, match=r"words\.txt: No such file.*vocabulary"):
        Vocabulary.load(path)
    for content in (b"", b"bird\n", b"<unk>\n\xff\n"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"words\.txt: ") as error:
            Vocabulary.load(path)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_a_bag_is_the_sum_or_mean_of_lookups(mode):
    table = WordTable(7, 3)
    ids, starts = torch.tensor([1, 2, 2, 0, 6, 6]), torch.tensor([0, 3, 4])
    parts = table.lookup(ids).split([3, 1, 2])
    expected = torch.stack([getattr(part, mode)(dim=0) for part in parts])
    torch.testing.assert_close(table.bag(ids, starts, mode), expected)
