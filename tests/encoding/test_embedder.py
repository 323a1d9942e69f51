import itertools
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from corpora import RandomParser, opened, random_trees, small_config, tiny_corpus, tiny_rows, topic_rows

from structviews.batches.reader import CorpusReader
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.trained import TrainedEmbedder
from structviews.errors import InputError
from structviews.model import build_model
from structviews.runs.settings_file import Parsed, read_settings, write_settings
from structviews.training.loop import train
from structviews.views import VIEWS
from structviews.words.vocabulary import UNKNOWN, Vocabulary

SENTENCES = [row.sentence for row in [*topic_rows(3, 5), *tiny_rows()]]
LEARNING = [name for name in VIEWS if VIEWS[name].learns and not VIEWS[name].reads_pieces]
PAIRS = list(itertools.pairwise([*LEARNING, LEARNING[0]]))


def untrained(names, parser=None):
    vocabularies = {"trained": Vocabulary([UNKNOWN, *sorted({word for s in SENTENCES for word in s.tokens})[::2]])}
    config = small_config("x.parsed", "run", names)
    parsed = Parsed("", RandomParser().describe(), {})
    return TrainedEmbedder(config, parsed, build_model(config, vocabularies), vocabularies, parser)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return train(small_config(tiny_corpus(folder / "x.parsed"), folder / "run", epochs=1))


@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_a_sentence_has_one_vector_alone_and_in_any_batch(names):
    embedder = untrained(names)
    together = embedder.encode(SENTENCES)
    assert together.shape == (len(SENTENCES), embedder.dim) == (len(SENTENCES), 16)
    assert together.dtype == np.float32
    alone = np.concatenate([embedder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(alone, together, atol=1e-5, rtol=0)
    assert len(np.unique(together.round(4), axis=0)) > len(SENTENCES) / 2
    order = np.random.default_rng(0).permutation(len(SENTENCES))
    shuffled = embedder.encode([SENTENCES[i] for i in order], 7)
    np.testing.assert_allclose(shuffled, together[order], atol=1e-5, rtol=0)


def test_views_stand_side_by_side():
    embedder = untrained(("bow", "seq", "dep"))
    assert embedder.views == ("bow", "seq", "dep")
    parts = embedder.encode_views(SENTENCES)
    assert [part.shape for part in parts] == [(len(SENTENCES), 8)] * 3
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), embedder.encode(SENTENCES))
    ids = embedder.vocabularies["trained"].ids(list(SENTENCES[3].tokens))
    table = embedder.model.channels["trained"].words[0].weight
    np.testing.assert_allclose(parts[0][3], table[ids].sum(dim=0).detach(), atol=1e-5)


def test_one_view_alone():
    embedder = untrained(("seq", "avg", "seq"))
    parts = embedder.encode_views(SENTENCES)
    for name, part in zip(("seq.1", "avg", "seq.2"), parts, strict=True):
        alone = embedder.with_view(name)
        np.testing.assert_array_equal(alone.encode(SENTENCES), part)
        np.testing.assert_array_equal(alone.for_similarity().encode(SENTENCES), part)
        assert alone.dim == 8
    assert np.abs(parts[0] - parts[2]).max() > 0.01
    assert embedder.dim == 24
    unit = embedder.with_view("avg").with_representation(normalise=True).encode(SENTENCES)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-5)
    with pytest.raises(InputError, match=r"no view 'seq': the run has seq\.1, avg, seq\.2"):
        embedder.with_view("seq")


def test_strings_tokens_and_trees_may_be_mixed():
    parser = RandomParser()
    embedder = untrained(("dep", "const"), parser)
    given = ["The bird sings.", ["The", "bird", "sings", "."], random_trees(["The", "bird", "sings", "."])]
    vectors = embedder.encode([*given, SENTENCES[0], ("topic0-1", "it")])
    assert parser.n_parsed == 3
    np.testing.assert_allclose(vectors[[0, 1]], vectors[[2, 2]], atol=1e-5)
    np.testing.assert_allclose(vectors[3:4], embedder.encode([SENTENCES[0]]), atol=1e-5)


def test_only_the_trees_that_views_need_must_be_there():
    parser = RandomParser()
    sentence = replace(SENTENCES[0], left=(), right=(), labels=())
    untrained(("dep", "dep-sum"), parser).encode([sentence])
    untrained(("bow", "seq"), parser).encode(["The bird sings."])
    assert parser.n_parsed == 0
    untrained(("dep", "const"), parser).encode([sentence])
    assert parser.n_parsed == 1


def test_progress_is_told():
    seen = []
    untrained(("dep", "const")).encode(SENTENCES, 10, lambda done, total: seen.append((done, total)))
    assert seen == [(10, 27), (20, 27), (27, 27)]
    assert untrained(("dep", "const")).encode([]).shape == (0, 16)
    with pytest.raises(InputError, match="batch_size = 0"):
        untrained(("bow", "seq")).encode(["x"], batch_size=0)


def test_a_vector_is_that_of_the_training_batch(run):
    """Reading from the corpus and encoding afterwards see the same words and trees."""
    embedder = Embedder.load(run)
    reader = CorpusReader(opened(embedder.config.data.corpus), embedder.vocabularies, embedder.model.needs)
    with torch.inference_mode():
        views = embedder.model.encode(reader.batch(np.arange(12)))
        expected = torch.cat([encoded.vector for view in views for encoded in view], dim=1)
    vectors = embedder.encode([row.sentence for row in tiny_rows()])
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("hidden", "reason"), [(9, r"channels\..* has shape \("), (10**6, "its settings ask for larger ones")]
)
def test_settings_of_another_size_ask_for_no_memory(run, tmp_path, hidden, reason):
    """One that came from elsewhere may say anything: 10**6 would be terabytes."""
    other = shutil.copytree(run, tmp_path / "run")
    settings = read_settings(other)
    settings["views"]["hidden"] = hidden
    write_settings(other, settings)
    with pytest.raises(InputError, match=f"not the weights of this run's model: {reason}") as error:
        Embedder.load(other)
    assert "\n" not in str(error.value)
