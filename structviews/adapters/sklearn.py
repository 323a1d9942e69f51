"""A run as a transformer of scikit-learn: sentences to vectors, in pipelines and searches.

make_pipeline(SentenceVectorizer("runs/dep-const"), LogisticRegression()).fit(texts, labels)
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from structviews.adapters import encodable
from structviews.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.results import model_checksum
from structviews.preparation import Sentence
from structviews.sentence import ParsedSentence
from structviews.shipped import run_folder

# The parameters that say which vectors a run gives, as in ``Representation``.
REPRESENTATION = ("pooling", "remove_component", "normalise", "join")


class SentenceVectorizer(TransformerMixin, BaseEstimator):
    """The vectors ``(n, d)`` that a run gives sentences.

    Nothing is learnt in ``fit``: the run was trained before. It may be left out. A fitted one remembers the run's
    checksum, and is pickled without the run, which has to stay in its folder.

    Args:
        run: folder of a run of any kind.
        view: give this view alone, see ``Embedder.alone``.
        pooling, remove_component, normalise, join: which vectors, see ``Representation``; None for the run's own.
        batch_size: sentences encoded together.

    Attributes:
        checksum_: of the run that it was fitted with.
    """

    def __init__(
        self,
        run: str | Path,
        *,
        view: str | None = None,
        pooling: str | None = None,
        remove_component: bool | None = None,
        normalise: bool | None = None,
        join: str | None = None,
        batch_size: int = 256,
    ):
        self.run = run
        self.view = view
        self.pooling = pooling
        self.remove_component = remove_component
        self.normalise = normalise
        self.join = join
        self.batch_size = batch_size

    def fit(self, X: Iterable[Sentence], y: Any = None) -> Self:  # noqa: N803 - scikit-learn's own name for it
        """Load the run.

        Args:
            X: sentences, which are only looked at.
            y: anything.

        Raises:
            InputError: if ``run`` is not one, it does not have these vectors, or ``X`` are no sentences.
        """
        _texts(X)
        self.checksum_ = model_checksum(run_folder(self.run))
        self._embedder()
        return self

    def transform(self, X: Iterable[Sentence]) -> np.ndarray:  # noqa: N803
        """Vectors ``(n, d)``, float32.

        Args:
            X: raw strings, lists of tokens or parsed sentences: a list, a column of a table, an array of one dimension.

        Raises:
            InputError: if ``X`` are no sentences or one cannot be parsed, or the run is not that of ``fit`` any more.
        """
        return self._embedder().encode(_texts(X), self.batch_size)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names ``(d,)`` of the columns, such as ``dep_0``: the view and a number.

        Args:
            input_features: not looked at, as sentences have no names.
        """
        embedder = self._embedder()
        parts = list(zip(embedder.view_names, embedder.widths, strict=True))
        if embedder.only is not None:
            parts = [parts[embedder.only]]
        elif embedder.representation.join == "average":
            parts = [("average", embedder.dim)]
        return np.array([f"{name}_{i}" for name, width in parts for i in range(width)], dtype=object)

    def _embedder(self) -> Embedder:
        """The run with these parameters; loaded again if they have changed."""
        fitted = getattr(self, "checksum_", None)
        settings = (fitted, str(self.run), self.view, *(getattr(self, name) for name in REPRESENTATION))
        if getattr(self, "_loaded", (None,))[0] != settings:
            run = run_folder(self.run)
            if fitted and model_checksum(run) != fitted:
                raise InputError(f"{run}: not the run that it was when this was fitted: fit again, or restore the run")
            changes = {name: getattr(self, name) for name in REPRESENTATION if getattr(self, name) is not None}
            embedder = Embedder.load(run).represented(**changes)
            self._loaded = settings, embedder if self.view is None else embedder.alone(self.view)
        return self._loaded[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_loaded"}

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = []  # float32, whatever is given
        tags.requires_fit = False
        return tags


def _texts(given: Iterable[Sentence]) -> list[Sentence]:
    """Sentences as a list.

    Raises:
        InputError: if they are one string, a table, or have something among them that is no sentence.
    """
    shape = getattr(given, "shape", (0,))
    if isinstance(given, str) or len(shape) != 1:
        what = repr(given[:40]) if isinstance(given, str) else f"of shape {tuple(shape)}"
        raise InputError(f"X is {what}: give a list of sentences, or one column, by its name in a ColumnTransformer")
    texts = encodable(given)
    for i, text in enumerate(texts):
        if not isinstance(text, str | Sequence | ParsedSentence):
            raise InputError(f"X has {text!r} at {i}: not a text: leave it out, or give an empty one in its place")
    return texts
