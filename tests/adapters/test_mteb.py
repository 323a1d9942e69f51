"""MTEB's own evaluation of a run, on tasks made here."""

import sys

import numpy as np
import pytest
from corpora import RandomParser
from scipy.stats import spearmanr

from structviews.encoding.embedder import Embedder
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


@pytest.fixture
def encoder(mteb, run):
    from structviews.adapters.mteb import MTEBEncoder

    return MTEBEncoder(run, RandomParser())


@pytest.fixture(scope="session")
def tasks(mteb):
    """A task with a data set in memory, by type."""
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    def described(kind, score):
        return TaskMetadata(
            name=f"Small{kind}",
            type=kind,
            description="Made for a test.",
            dataset={"path": "none", "revision": "none"},
            eval_langs=["eng-Latn"],
            main_score=score,
        )

    class STS(AbsTaskSTS):
        metadata = described("STS", "cosine_spearman")

        def load_data(self, **kwargs):
            first, second, scores = zip(*PAIRS, strict=True)
            columns = {"sentence1": list(first), "sentence2": list(second), "score": list(scores)}
            self.dataset = DatasetDict({"test": Dataset.from_dict(columns)})
            self.data_loaded = True

    return {"STS": STS()}


def scored(mteb, encoder, task, cache=None):
    """The task's scores."""
    result = mteb.evaluate(encoder, task, cache=cache, co2_tracker=False, show_progress_bar=False)
    return result.task_results[0].scores["test"][0]


def cosines(first, second):
    first, second = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (first, second))
    return first @ second.T


def test_a_run_is_an_encoder(mteb, encoder):
    from mteb.models import EncoderProtocol

    assert isinstance(encoder, EncoderProtocol)


def test_similarity_is_scored_with_the_vectors_for_it(mteb, encoder, tasks, run):
    embedder = Embedder.load(run, RandomParser())
    gold = [score for _, _, score in PAIRS]

    def expected(embedder):
        first, second = (embedder.encode([pair[i].strip() or "." for pair in PAIRS]) for i in (0, 1))
        return spearmanr(np.diag(cosines(first, second)), gold)[0]

    found = scored(mteb, encoder, tasks["STS"])["cosine_spearman"]
    assert found == pytest.approx(expected(embedder.for_similarity()))
    assert found != pytest.approx(expected(embedder), abs=0.01)


def test_results_are_kept_for_these_weights_and_these_vectors(mteb, encoder, tasks, run, tmp_path):
    from structviews.adapters.mteb import MTEBEncoder

    meta = encoder.mteb_model_meta
    assert (meta.name, meta.revision) == ("structviews/dep-const", model_checksum(run))
    assert (meta.languages, meta.embed_dim, meta.training_datasets) == (["eng-Latn"], 16, None)

    cache = mteb.ResultCache(tmp_path)
    other = MTEBEncoder(run, RandomParser(), Representation("pooled"))
    own = [scored(mteb, each, tasks["STS"], cache)["cosine_pearson"] for each in (encoder, other)]
    assert own[0] != pytest.approx(own[1], abs=1e-3)
    parser = encoder.model.preparer._parser
    parsed = parser.n_parsed
    assert scored(mteb, encoder, tasks["STS"], cache)["cosine_pearson"] == pytest.approx(own[0], abs=1e-5)
    assert parser.n_parsed == parsed


def test_a_run_of_another_language_is_not_said_to_be_english(mteb, encoder, run, monkeypatch):
    from structviews.adapters import mteb as adapter

    monkeypatch.setitem(encoder.model.preparer.parsed.parser, "language", "de")
    assert adapter._meta(run, encoder.model).languages is None


def test_what_cannot_be_done_is_one_line(mteb, encoder, tasks, run, tmp_path):
    from structviews.adapters.mteb import MTEBEncoder

    with pytest.raises(InputError, match="not a run"):
        MTEBEncoder(tmp_path)
    with pytest.raises(InputError, match=r"^precision = int8: only float32 is supported"):
        mteb.evaluate(encoder, tasks["STS"], cache=None, encode_kwargs={"precision": "int8"})
    with pytest.raises(InputError, match="random") as error:
        scored(mteb, MTEBEncoder(run), tasks["STS"])
    assert "\n" not in str(error.value)


def test_without_mteb_the_extra_is_named(monkeypatch):
    for name in ("mteb", "mteb.models"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "structviews.adapters.mteb", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'structviews\[mteb\]'"):
        import structviews.adapters.mteb  # noqa: F401
