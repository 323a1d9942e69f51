"""MTEB's own evaluation of a run, on tasks made here."""

import numpy as np
import pytest
from corpora import RandomParser
from scipy.stats import spearmanr

from structviews.encoding.preparation import Preparer
from structviews.errors import InputError
from structviews.runs.folder import model_checksum
from structviews.runs.which_vectors import Representation

PAIRS = [
    ("The bird sings.", "A bird is singing.", 5.0),
    ("The dead tree fell.", "It sings of the tree.", 2.0),
    ("It sings.", "The bird of the tree sings.", 4.0),
    ("A black bird", "The tree is dead and it fell.", 1.0),
    ("A bird and a tree", " ", 0.0),
    ("The tree", "A tree.", 4.5),
]


@pytest.fixture(scope="session")
def mteb():
    return pytest.importorskip("mteb", reason="needs the extra structviews[mteb]")


@pytest.fixture(scope="session")
def wrapped(mteb, run):
    """The run with some options as an encoder of MTEB."""
    from structviews.adapters.mteb import MTEBEncoder

    return lambda *options: MTEBEncoder(run, *options)


@pytest.fixture
def encoder(wrapped):
    return wrapped(RandomParser())


@pytest.fixture(scope="session")
def sts(mteb):
    """A task with a data set in memory."""
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    about = {"name": "SmallSTS", "type": "STS", "description": "Made for a test.", "eval_langs": ["eng-Latn"]}
    source = {"path": "none", "revision": "none"}

    class STS(AbsTaskSTS):
        metadata = TaskMetadata(dataset=source, main_score="cosine_spearman", **about)

        def load_data(self, **kwargs):
            first, second, scores = zip(*PAIRS, strict=True)
            columns = {"sentence1": list(first), "sentence2": list(second), "score": list(scores)}
            self.dataset = DatasetDict({"test": Dataset.from_dict(columns)})
            self.data_loaded = True

    return STS()


def scored(mteb, encoder, task, cache=None, **options):
    """The task's scores."""
    result = mteb.evaluate(encoder, task, cache=cache, co2_tracker=False, show_progress_bar=False, **options)
    return result.task_results[0].scores["test"][0]


def test_similarity_is_scored_with_the_vectors_for_it(mteb, encoder, sts, embedder):
    gold = [score for _, _, score in PAIRS]

    def expected(embedder):
        first, second = (embedder.encode([pair[i].strip() or "." for pair in PAIRS]) for i in (0, 1))
        cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
        return spearmanr(cosines, gold)[0]

    assert isinstance(encoder, mteb.models.EncoderProtocol)
    found = scored(mteb, encoder, sts)["cosine_spearman"]
    assert found == pytest.approx(expected(embedder.for_similarity()))
    assert found != pytest.approx(expected(embedder), abs=0.01)


def test_results_are_kept_for_these_weights_and_these_vectors(mteb, wrapped, encoder, sts, run, tmp_path):
    meta = encoder.mteb_model_meta
    assert (meta.name, meta.revision) == ("structviews/dep-const", model_checksum(run))
    assert (meta.languages, meta.embed_dim, meta.training_datasets) == (["eng-Latn"], 16, None)
    cache = mteb.ResultCache(tmp_path)
    other = wrapped(RandomParser(), Representation("pooled"))
    own = [scored(mteb, each, sts, cache)["cosine_pearson"] for each in (encoder, other)]
    assert own[0] != pytest.approx(own[1], abs=1e-3)
    parser = encoder.model.preparer._parser
    parsed = parser.n_parsed
    assert scored(mteb, encoder, sts, cache)["cosine_pearson"] == pytest.approx(own[0], abs=1e-5)
    assert parser.n_parsed == parsed


def test_a_run_of_another_language_is_not_said_to_be_english(wrapped, monkeypatch):
    monkeypatch.setattr(Preparer, "language", property(lambda _: "de", lambda *_: None), raising=False)
    assert wrapped(RandomParser()).mteb_model_meta.languages is None


def test_another_precision_is_one_line(mteb, encoder, sts):
    with pytest.raises(InputError, match=r"^precision = int8: only float32 is supported"):
        scored(mteb, encoder, sts, encode_kwargs={"precision": "int8"})
