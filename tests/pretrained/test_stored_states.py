"""States on disk: as computed on the fly, complete or not there, and none is taken for another's."""

import re
import shutil
import warnings
from collections import namedtuple
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from corpora import opened, topic_corpus
from tiny_encoders import encoder_folder

from structviews.batches.pairs import Further
from structviews.batches.reader import CorpusReader
from structviews.errors import InputError
from structviews.pretrained import stored_states
from structviews.pretrained.states import ContextualWords, FrozenEncoder
from structviews.pretrained.stored_states import StoredStates, folder_of, store_states
from structviews.runtime import seals

# Half of float16's last bit, of states below 4.
ROUNDING = 2**-10


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    encoder_folder(folder / "tiny", "roberta")
    return topic_corpus(folder / "x.parsed", documents=10), folder / "tiny"


@pytest.fixture
def place(given, tmp_path):
    """A corpus of three shards, and an encoder that counts the sentences that it reads."""
    shutil.copytree(given[0], tmp_path / "x.parsed")
    encoder = FrozenEncoder.open(str(given[1]), "mean")
    encoder.read = 0

    def states(sentences):
        encoder.read += len(sentences)
        return FrozenEncoder.states(encoder, sentences)

    encoder.states = states
    return SimpleNamespace(corpus=opened(tmp_path / "x.parsed"), encoder=encoder, tmp_path=tmp_path)


def store(place, announce=lambda words, size: None, progress=None):
    return store_states(place.corpus, place.encoder, announce, progress)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_batch_from_disk_is_one_computed_on_the_fly(place):
    """Also with further sentences, which are computed beside those on disk."""
    store(place)
    vocabularies = {"contextual": ContextualWords(FrozenEncoder.open(str(place.encoder.folder), "mean"))}
    pairs = opened(topic_corpus(place.tmp_path / "pairs.parsed", documents=2, seed=3))
    further = Further(np.array([0, 3, 4]), np.array([1, 0, 0]), np.array([False, True, True]))
    stored = StoredStates.find(place.corpus, place.encoder)
    for cut_off in (0, 3):
        same = place.corpus, vocabularies, ["tokens"], False, cut_off
        here, there = (CorpusReader(*same, states, pairs=pairs) for states in ({}, {"contextual": stored}))
        for rows, beside in (([0, 1, 2], None), ([28, 29, 30, 31, 59, 60, 79], None), ([2, 31, 32], further)):
            one, other = (reader.batch(np.array(rows), beside).ids["contextual"] for reader in (here, there))
            assert one.inverse.tolist() == other.inverse.tolist()
            assert one.further.dtype == other.further.dtype
            np.testing.assert_allclose(one.further, other.further, rtol=ROUNDING, atol=ROUNDING)
    assert place.encoder.read == 80


def test_what_cannot_be_stored_is_one_line(place, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(stored_states.shutil, "disk_usage", lambda path: namedtuple("Usage", "free")(1000))
        with pytest.raises(InputError, match=r"takes 0\.00 GB, and the disk has 0\.00 GB: make room"):
            store(place)
    assert place.encoder.read == 0
    monkeypatch.setattr(place.encoder, "states", lambda sentences: 1e6 * FrozenEncoder.states(place.encoder, sentences))
    with pytest.raises(InputError, match="a state exceeds the range of float16: choose other layers"):
        store(place)
    shutil.rmtree(folder_of(place.corpus, place.encoder).parent)
    folder_of(place.corpus, place.encoder).parent.write_text("")
    with pytest.raises(InputError, match="copy the corpus to a folder where you may write"):
        store(place)


def test_a_stopped_job_goes_on_where_it_was(place):
    said, words = [], place.corpus.manifest["tokens"]
    whole = content(store(place, lambda *sizes: said.append((*sizes, place.encoder.read))))
    assert 2 * 32 * words <= sum(map(len, whole.values())) < 2 * 32 * words + 3 * 4096
    store(place, lambda *sizes: said.append((*sizes, place.encoder.read)))
    assert said == [(words, 2 * 32 * words, 0), (0, 0, 80)]
    shutil.rmtree(folder_of(place.corpus, place.encoder))
    place.encoder.read = 0

    def stop(done, total):
        if done == 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store(place, progress=stop)
    assert StoredStates.find(place.corpus, place.encoder) is None
    assert len(content(folder_of(place.corpus, place.encoder))) == 2
    counts = []
    folder = store(place, progress=lambda done, total: counts.append((done, total)))
    assert counts == [(80, 80)]
    assert place.encoder.read == 80
    assert content(folder) == whole


def test_what_is_damaged_missing_or_of_another_shard_is_named_and_made_again(place):
    folder = store(place)
    whole = content(folder)
    victim = folder / "shard-00001.safetensors"
    data = bytearray(victim.read_bytes())
    data[-5] ^= 1
    another = partial(shutil.copy, folder / "shard-00000.safetensors", victim)
    for damage, reason in (
        (lambda: victim.write_bytes(data), "damaged: its content does not match its digest"),
        (another, "damaged: it is not of this shard of the corpus"),
        (victim.unlink, "no such file"),
    ):
        stored = StoredStates.find(place.corpus, place.encoder)
        expected = np.array(stored.shard(1))
        damage()
        assert bool(StoredStates.find(place.corpus, place.encoder)) == victim.exists()
        again = StoredStates(place.corpus, place.encoder)
        place.encoder.read = 0
        with pytest.warns(UserWarning, match=f"^{victim}: {reason}.*: it is made again when it is needed$"):
            np.testing.assert_array_equal(again.shard(1), expected)
        assert place.encoder.read == 30
        assert content(folder) == whole
        damage()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store(place)
        assert content(folder) == whole


def test_a_file_is_checked_once_however_often_it_is_opened(place, monkeypatch):
    store(place)
    checked = []
    monkeypatch.setattr(seals, "check_data", lambda path, *rest: checked.append(path.name))
    monkeypatch.setattr(stored_states, "OPEN_SHARDS", 1)
    stored = StoredStates.find(place.corpus, place.encoder)
    first = [stored.shard(number).tobytes() for number in (0, 1, 0)]
    assert first[0] == first[2] != first[1]
    assert checked == ["shard-00000.safetensors", "shard-00001.safetensors"]


def test_states_of_another_corpus_encoder_layer_or_pooling_are_others(place, given, monkeypatch):
    store(place)
    other = topic_corpus(place.tmp_path / "y.parsed", documents=3)
    changed = encoder_folder(place.tmp_path / "tiny", "roberta", seed=1)
    same = FrozenEncoder.open(str(given[1]), "mean")
    assert StoredStates.find(place.corpus, same)
    assert StoredStates.find(place.corpus, FrozenEncoder.open(f"{given[1]}:2", "mean"))
    assert not StoredStates.find(opened(other), same)
    assert not StoredStates.find(place.corpus, FrozenEncoder.open(f"{given[1]}:1", "mean"))
    assert not StoredStates.find(place.corpus, FrozenEncoder.open(str(given[1]), "first"))
    assert not StoredStates.find(place.corpus, FrozenEncoder.open(str(changed), "mean"))
    monkeypatch.setattr(stored_states.alignment, "VERSION", 2)
    assert not StoredStates.find(place.corpus, same)


def test_commands(command, given, tmp_path):
    """Training says where the states come from, and finds those that are there."""
    shutil.copytree(given[0], tmp_path / "x.parsed")
    words = ("--encoder", f"{given[1]}:1..2", "--word-pooling", "first")

    def ran(*arguments, code=0):
        found, out, error = command(*arguments)
        assert found == code, error
        return out, error

    def trained(out):
        small = ("--hidden", 8, "--batch-size", 16, "--epochs", 1, "--views", "seq,avg")
        return ran("train", *small, "--channels", "contextual", *words, "-o", out)[1]

    computed = r"states of .*tiny:1..2: computed for each batch; `structviews corpus states` comp"
    assert re.search(computed, trained("one"))
    out, error = ran("corpus", "states", "x.parsed", *words)
    assert re.search(r"x.parsed: [\d,]+ words to compute, which take 0\.00 GB on disk", error)
    assert re.search(r"x\.parsed\.states/tiny-\w{8}: [\d,]+ words, 32 dimensions", out)
    assert re.search(r"states of .*tiny:1..2: read from .*x\.parsed\.states/tiny-\w{8}", trained("two"))
    (file,) = tmp_path.glob("x.parsed.states/*/shard-00000.safetensors")
    file.write_bytes(file.read_bytes()[:-3])
    assert ran("verify", "x.parsed.states", code=1)[0].count("it is made again when it is needed") == 1
    file.unlink()
    shutil.rmtree(tmp_path / "x.parsed")
    topic_corpus(tmp_path / "x.parsed", documents=3)
    error = ran("corpus", "states", "x.parsed", *words)[1]
    assert re.search(r"tiny-\w{8}: 0\.00 GB of an earlier version of the corpus or of structviews: delete it", error)
    assert "encoder = '': give a folder with a model" in ran("corpus", "states", "x.parsed", code=2)[1]
