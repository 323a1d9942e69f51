"""A run within scikit-learn: its own checks, pipelines, searches, tables."""

import pickle
import shutil
import warnings

import numpy as np
import pytest
from corpora import small_config, tiny_corpus
from safetensors.numpy import load_file
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.utils import estimator_checks
from sklearn.utils.validation import validate_data

from structviews.adapters.sklearn import SentenceVectorizer
from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.runtime.seals import write_arrays
from structviews.training.loop import train

TEXTS = ["A bird sings.", "The tree is dead.", "It is a bird.", "The dead tree fell", "A black bird", "Trees fall."]
LABELS = [1, 0, 1, 0, 1, 0]


@pytest.fixture(scope="session")
def words_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    corpus = tiny_corpus(folder / "x.parsed")
    return train(small_config(corpus, folder / "avg-seq", ("avg", "seq"), epochs=1))


@pytest.fixture
def vectorizer(words_run):
    return SentenceVectorizer(words_run)


@pytest.fixture(scope="session")
def embedder(words_run):
    return Embedder.load(words_run)


class OfNumbers(SentenceVectorizer):
    """Takes a table of numbers, as scikit-learn's checks give it, and makes each row a sentence of its columns."""

    def _sentences(self, X, reset):  # noqa: N803
        X = validate_data(self, X, reset=reset)  # noqa: N806
        words = ["bird", "tree", "dead", "it"]
        return [[words[(i + int(value * 100)) % 4] for i, value in enumerate(row)] for row in X]

    def fit(self, X, y=None):  # noqa: N803
        return super().fit(self._sentences(X, True), y)

    def transform(self, X):  # noqa: N803
        if not hasattr(self, "n_features_in_"):
            self.fit(X)
        return super().transform(self._sentences(X, False))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


def test_scikit_learns_own_checks(words_run):
    """On sentences made of its tables, since it has none of texts."""
    # This one asks for equality to nine digits.
    rounding = {"check_methods_sample_order_invariance": "float32 is equal to rounding"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = estimator_checks.check_estimator(OfNumbers(words_run), on_fail=None, expected_failed_checks=rounding)
    by_status = {}
    for each in done:
        by_status.setdefault(each["status"], {})[each["check_name"]] = each["exception"]
    assert "failed" not in by_status, "\n".join(map(repr, by_status["failed"].items()))
    assert len(by_status["passed"]) > 30


@pytest.mark.parametrize(
    ("parameters", "view", "names"),
    [
        ({}, None, ["avg_0", "seq_7"]),
        ({}, "seq", ["seq_0", "seq_7"]),
        ({"pooling": "mean", "normalise": True, "join": "average"}, None, ["average_0", "average_7"]),
        ({"pooling": "pooled", "remove_component": True}, None, ["avg_0", "seq_31"]),
    ],
)
def test_parameters_choose_the_vectors(vectorizer, embedder, parameters, view, names):
    vectors = vectorizer.set_params(view=view, **parameters).fit_transform(TEXTS)
    expected = embedder.with_representation(**parameters)
    np.testing.assert_allclose(vectors, (expected.with_view(view) if view else expected).encode(TEXTS), atol=1e-6)
    found = vectorizer.get_feature_names_out()
    assert [found[0], found[-1]] == names
    assert len(set(found)) == vectors.shape[1]


def test_in_a_pipeline_and_a_search(vectorizer):
    pipeline = make_pipeline(vectorizer, LogisticRegression(C=100))
    assert clone(pipeline).fit(TEXTS, LABELS).score(TEXTS, LABELS) == 1
    grid = {"sentencevectorizer__view": [None, "seq"]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(TEXTS, LABELS)
    assert search.best_estimator_.predict(TEXTS).shape == (6,)
    union = make_union(vectorizer, clone(vectorizer).set_params(view="seq")).fit(TEXTS)
    assert union.transform(TEXTS).shape == (6, 24)


def test_tables(vectorizer, embedder):
    pandas = pytest.importorskip("pandas", reason="needs pandas, which mteb brings")
    column = pandas.Series(TEXTS, index=list("uvwxyz"))
    table = vectorizer.set_output(transform="pandas").fit_transform(column)
    assert list(table.columns) == list(vectorizer.get_feature_names_out())
    assert list(table.index) == list("uvwxyz")
    np.testing.assert_allclose(table, embedder.encode(TEXTS), atol=1e-6)
    both = pandas.DataFrame({"text": TEXTS, "n": range(6)})
    chosen = ColumnTransformer([("v", vectorizer, "text")], remainder="passthrough")
    assert list(chosen.set_output(transform="pandas").fit_transform(both).columns)[-2:] == ["v__seq_7", "remainder__n"]


def test_it_is_pickled_without_the_run(words_run, tmp_path):
    run = shutil.copytree(words_run, tmp_path / "run")
    fitted = SentenceVectorizer(run).fit(TEXTS)
    pickled = pickle.dumps(fitted)
    assert len(pickled) < 1000
    again = pickle.loads(pickled)
    np.testing.assert_array_equal(again.transform(TEXTS), fitted.transform(TEXTS))
    weights = load_file(run / "model.safetensors")
    write_arrays(run / "model.safetensors", {name: weight * 2 for name, weight in weights.items()})
    with pytest.raises(InputError, match="changed since this vectorizer was fitted: fit again, or restore the run"):
        pickle.loads(pickled).transform(TEXTS)
    pickle.loads(pickled).fit(TEXTS).transform(TEXTS)
