import itertools
import operator
import threading
import tracemalloc
from dataclasses import is_dataclass, replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from corpora import opened, random_trees, tiny_corpus, tiny_rows, topic_corpus, topic_rows, write_corpus

from structviews.batches.batch import collate
from structviews.batches.reader import CorpusReader, epoch_batches, held_out, n_batches, prefetch
from structviews.corpus.layout import Row
from structviews.corpus.parsed_corpus import OPEN_SHARDS, SHARD_ROWS
from structviews.errors import InputError
from structviews.words.vocabulary import Vocabulary

ALL = ("tokens", "dependency", "labelled", "constituency")


@pytest.fixture(scope="module", params=[(tiny_corpus, tiny_rows), (topic_corpus, topic_rows)])
def reader_and_sentences(request, tmp_path_factory):
    write, rows = request.param
    corpus = opened(write(tmp_path_factory.mktemp("corpus") / "x.parsed"))
    vocabularies = {"a": Vocabulary.of_corpus(corpus, 10**6), "b": Vocabulary.of_corpus(corpus, 5)}
    return CorpusReader(corpus, vocabularies, ALL), [row.sentence for row in rows()], rows()


def choices(n):
    """Ascending choices of sentences: within a shard, over shards, with gaps, one, all."""
    rng = np.random.default_rng(0)
    yield from (np.arange(2), np.array([n - 1]), np.arange(n), np.array([0, n - 1]))
    for _ in range(5):
        yield np.flatnonzero(rng.random(n) < 0.4)


def check_words(batch, vocabularies, tokens):
    """The words of each channel are those of the sentences."""
    assert batch.lengths.tolist() == [len(each) for each in tokens]
    words = list(itertools.chain.from_iterable(tokens))
    for name, ids in batch.ids.items():
        assert ids.distinct[ids.inverse].tolist() == vocabularies[name].ids(words).tolist()


def check_batch(batch, sentences, vocabularies, kinds):
    """It is that of the sentences in memory."""
    expected = collate(sentences, vocabularies, kinds)
    assert len(batch) == len(sentences)
    assert torch.equal(batch.offsets, expected.offsets)
    check_words(batch, vocabularies, [sentence.tokens for sentence in sentences])
    for kind in kinds[1:]:
        same_fields(batch.trees(kind), expected.trees(kind))
    for name, ids in batch.ids.items():
        same_fields(ids, expected.ids[name])


def same_fields(one, other):
    for name, value in vars(one).items():
        if is_dataclass(value):
            same_fields(value, getattr(other, name))
        else:
            same = torch.equal if isinstance(value, torch.Tensor) else operator.eq
            assert same(value, getattr(other, name)), name


def test_a_batch_is_that_of_the_same_sentences_in_memory(reader_and_sentences):
    reader, sentences, places = reader_and_sentences
    assert len(reader) == len(sentences)
    for rows in choices(len(sentences)):
        batch = reader.batch(rows)
        check_batch(batch, [sentences[i] for i in rows], reader.vocabularies, ALL)
        assert batch.document.tolist() == [places[i].document for i in rows]
        assert batch.position.tolist() == [places[i].position for i in rows]


@pytest.mark.parametrize("cut_off", [1, 2, 5, 1000])
def test_a_cut_off_leaves_the_first_words_of_each_sentence(reader_and_sentences, cut_off):
    whole, sentences, _ = reader_and_sentences
    reader = CorpusReader(whole.corpus, whole.vocabularies, ["tokens"], True, cut_off)
    for rows in choices(len(sentences)):
        batch = reader.batch(rows)
        expected = [sentences[i].tokens[:cut_off] for i in rows]
        check_words(batch, reader.vocabularies, expected)
        # Sentences that only begin alike are not the same sentence.
        same = [[sentences[i].tokens == sentences[j].tokens for j in rows] for i in rows]
        assert (batch.same[:, None] == batch.same).tolist() == same


def test_memory_is_flat_over_an_epoch_of_many_shards(tmp_path):
    corpus = opened(write_corpus(tmp_path / "x.parsed", topic_rows(documents=130), shard_size=4))
    reader = CorpusReader(corpus, {"a": Vocabulary.of_corpus(corpus, 10**6)}, ALL)
    assert corpus.n_shards == 260 > 4 * OPEN_SHARDS
    used, n = [], 0
    tracemalloc.start()
    for rows in epoch_batches(np.arange(len(reader)), 5, 1, 0):
        n += len(reader.batch(rows))
        used.append(tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes())
    tracemalloc.stop()
    assert n == len(reader) == 1040
    # The first batches fill what is kept of the last few shards, some 10 kB for each; the other 88 batches add nothing.
    assert abs(used[-1] - used[120]) < 300_000


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(("n", "size"), [(1, 4), (4, 4), (5, 4), (23, 4), (24, 5), (101, 10)])
def test_an_epoch_covers_every_sentence_once_in_order(n, size, shuffled):
    rows = np.arange(n) * 3 + 1
    for epoch in range(8):
        batches = list(epoch_batches(rows, size, 1, epoch, shuffled=shuffled))
        assert sorted(np.concatenate(batches).tolist()) == rows.tolist()
        assert all((np.diff(batch) > 0).all() for batch in batches)
        assert len(batches) == n_batches(n, size, 1, epoch)
        assert sorted(map(len, batches)) == sorted(map(len, epoch_batches(rows, size, 1, epoch)))
        if not shuffled:
            # All but the one of leftovers are neighbours in the corpus, and full.
            whole = [batch for batch in batches if len(batch) == size and batch[-1] - batch[0] == 3 * (size - 1)]
            assert len(whole) >= len(batches) - 1


def test_epochs_differ_and_repeat_by_seed_and_number():
    def epoch(seed, number, **how):
        return [batch.tolist() for batch in epoch_batches(np.arange(5000), 50, seed, number, **how)]

    assert epoch(1, 0) == epoch(1, 0) not in (epoch(1, 1), epoch(2, 0))
    firsts = [batch[0] for batch in epoch(1, 0) if batch[-1] - batch[0] == 49]
    assert firsts != sorted(firsts)
    cuts = {min(batch[0] % 50 for batch in epoch(1, e) if batch[0] >= 50) for e in range(20)}
    assert len(cuts) > 5
    shuffled = epoch(1, 0, shuffled=True)
    assert shuffled == epoch(1, 0, shuffled=True)
    assert all(np.ptp(batch) > 2500 for batch in shuffled)  # from all over the corpus


def test_shuffled_batches_that_follow_one_another_are_of_the_same_shards():
    """Else each of them opens other shards, and most of the time goes into that."""
    *batches, _ = epoch_batches(np.arange(4 * OPEN_SHARDS * SHARD_ROWS), 400, 1, 0, shuffled=True)
    for start in range(0, len(batches), 8):
        assert len({row // SHARD_ROWS for batch in batches[start : start + 8] for row in batch.tolist()}) <= OPEN_SHARDS


def test_held_out_documents_stay_when_others_are_added():
    few, many = np.repeat(np.arange(500), 3), np.repeat(np.arange(2000), 3)
    for fraction in (0.05, 0.3):
        chosen = held_out(many, 7, fraction)
        assert (chosen[: len(few)] == held_out(few, 7, fraction)).all()
        assert abs(chosen.mean() - fraction) < 0.02
        assert (chosen.reshape(-1, 3) == chosen[::3, None]).all()
    assert (held_out(many, 7, 0.3) != held_out(many, 8, 0.3)).any()
    assert (held_out(many, 7, 0.05) <= held_out(many, 7, 0.3)).all()
    # Of several documents at least one is held out, unless none shall be.
    assert not held_out(np.repeat(np.arange(9), 2), 1, 0.0).any()
    assert not held_out(np.zeros(9, dtype=int), 1, 1e-9).any()
    assert all(held_out(np.repeat(np.arange(3), 2), seed, 1e-9).sum() == 2 for seed in range(5))


def test_prefetch_keeps_order_raises_errors_in_their_place_and_ends_with_its_reader():
    def items():
        yield from range(50)
        raise InputError("bad row")

    before = threading.active_count()
    reading = prefetch(items(), depth=3)
    assert [next(reading) for _ in range(50)] == list(range(50))
    with pytest.raises(InputError, match="bad row"):
        next(reading)
    assert list(prefetch(iter([]))) == []
    endless = prefetch(itertools.count(), depth=2)
    assert [next(endless), next(endless)] == [0, 1]
    assert threading.active_count() == before + 1
    endless.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("shard_size", [3, 100])
def test_same_sentences_have_the_same_number(tmp_path, shard_size):
    """Over shards whose dictionaries differ; unknown words are different words all the same."""
    rows = [row for row in topic_rows(documents=2, sentences=4) for _ in range(2)] + tiny_rows()
    # The order of words and of letters makes a difference.
    odd = [["ab", "c"], ["c", "ab"], ["a", "bc"], ["abc"], ["ab", "c", "c"], ["ba", "c"]]
    rows += [Row(0, 0, i + 1, random_trees(words)) for i, words in enumerate(odd)]
    rows = [replace(row, document=i, position=0) for i, row in enumerate(rows)]
    corpus = opened(write_corpus(tmp_path / "x.parsed", rows, shard_size))
    reader = CorpusReader(corpus, {"a": Vocabulary.of_corpus(corpus, 2)}, ["tokens"], duplicates=True)
    same = reader.batch(np.arange(len(rows))).same.tolist()
    for i, j in itertools.combinations(range(len(rows)), 2):
        assert (same[i] == same[j]) == (rows[i].sentence.tokens == rows[j].sentence.tokens)
    order = [5, 2, 11]
    assert [reader.batch(np.array([i])).same.item() for i in order] == [same[i] for i in order]
    assert CorpusReader(corpus, reader.vocabularies, ["tokens"]).batch(np.arange(2)).same is None
