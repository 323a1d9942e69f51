"""The protocol of the skip-thought scripts (Kiros et al., 2015): ``eval_classification.py``, ``eval_trec.py``,
``eval_msrp.py`` and ``eval_sick.py`` of ryankiros/skip-thoughts. ``docs/evaluation.md`` lists the differences.
"""

import numpy as np
from sklearn.model_selection import KFold

from structviews.evaluation.senteval.logistic_classifier import LogisticClassifier
from structviews.evaluation.senteval.protocols import PROTOCOLS
from structviews.evaluation.senteval.protocols.protocol import FOLDS, Protocol
from structviews.evaluation.senteval.relatedness import (
    KIROS_RELATEDNESS,
)
from structviews.evaluation.senteval.tasks.reading import Examples


def kiros_order(examples: Examples) -> np.ndarray:
    """Rows (n,) of the examples in the order that the skip-thought scripts shuffle them to, before or in ``KFold``."""
    rows = np.arange(len(examples))
    np.random.RandomState(1234).shuffle(rows)
    return rows


KIROS = Protocol(
    name="kiros",
    seed=1234,
    order=kiros_order,
    splitter=KFold(n_splits=FOLDS),
    classifier=LogisticClassifier(one_vs_rest=True),
    # The scripts do not have SST2, but the quick-thoughts paper has it among their tasks.
    grids={key: tuple(2.0**t for t in range(9)) for key in ("all", "train/test", "SST2")},
    decimals=None,
    f1_chooses=True,
    relatedness=KIROS_RELATEDNESS,
    similarity=False,
    normalise=True,
)
PROTOCOLS.add(KIROS.name, KIROS)
