"""A run as a scikit-learn transformer, for pipelines and grid searches.

make_pipeline(SentenceVectorizer("runs/dep-const"), LogisticRegression()).fit(texts, labels)
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import Sentence, listed
from structviews.encoding.word_limit import BATCH_SIZE, WordLimit
from structviews.errors import InputError
from structviews.runs.bundled import run_folder
from structviews.runs.folder import model_checksum

# The parameters that select the representation, as in ``Representation``.
REPRESENTATION = ("pooling", "remove_component", "normalise", "join")


class SentenceVectorizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Encodes sentences as the vectors ``(n, d)`` of a run.

    ``fit`` learns nothing, as the run is already trained, and is optional. A fitted vectorizer stores the run's
    checksum. Pickling it does not include the run, which must stay in its folder.

    Args:
        run: folder of a run of any kind.
        view: use this view only, see ``Embedder.with_view``.
        pooling, remove_component, normalise, join: see ``Representation``; None for the run's defaults.
        batch_size: sentences per batch.
        max_tokens, overlong, precision: see ``Embedder.load``.

    Attributes:
        checksum_: checksum of the run that it was fitted with.
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
        batch_size: int = BATCH_SIZE,
        max_tokens: int = WordLimit.max_tokens,
        overlong: str = WordLimit.overlong,
        precision: str = "auto",
    ):
        self.run = run
        self.view = view
        self.pooling = pooling
        self.remove_component = remove_component
        self.normalise = normalise
        self.join = join
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        self.overlong = overlong
        self.precision = precision

    def fit(self, X: Iterable[Sentence], y: Any = None) -> Self:  # noqa: N803 - scikit-learn's own name for it
        """Load the run.

        Raises InputError if ``run`` is not a run or does not have this representation, or ``X`` is not sentences.
        """
        listed(X)
        self.checksum_ = model_checksum(run_folder(self.run))
        self._embedder()
        return self

    def transform(self, X: Iterable[Sentence]) -> np.ndarray:  # noqa: N803
        """Vectors ``(n, d)``, float32, of sentences as a list, a table column or a one-dimensional array.

        Raises InputError if ``X`` is not sentences, one is too long or cannot be parsed, or the run has changed.
        """
        return self._embedder().encode(listed(X), self.batch_size)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Column names ``(d,)``, such as ``dep_0``: the view and a number."""
        embedder = self._embedder()
        columns = [(embedder.view_names[i], embedder.widths[i]) for i in embedder.chosen]
        join = embedder.representation.join
        if embedder.only is None and join != "concatenation":
            columns = [(join, embedder.dim)]
        return np.array([f"{name}_{i}" for name, width in columns for i in range(width)], dtype=object)

    def _embedder(self) -> Embedder:
        """The run with these parameters; reloaded if they have changed."""
        settings = fitted, _ = getattr(self, "checksum_", None), self.get_params()
        if getattr(self, "_loaded", (None,))[0] != settings:
            run = run_folder(self.run)
            if fitted and model_checksum(run) != fitted:
                raise InputError(f"{run}: changed since this vectorizer was fitted: fit again, or restore the run")
            changes = {name: getattr(self, name) for name in REPRESENTATION if getattr(self, name) is not None}
            loading: dict[str, Any] = {name: getattr(self, name) for name in ("max_tokens", "overlong", "precision")}
            embedder = Embedder.load(run, **loading).with_representation(**changes)
            self._loaded = settings, embedder if self.view is None else embedder.with_view(self.view)
        return self._loaded[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_loaded"}

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.transformer_tags.preserves_dtype = []  # always float32
        tags.requires_fit = False
        return tags
