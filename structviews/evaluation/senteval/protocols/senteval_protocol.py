"""SentEval's protocol: the folds, seeds and grids of ``senteval/tools/validation.py`` with its scikit-learn classifier
(Conneau and Kiela, 2018; ``usepytorch`` False). ``docs/evaluation.md`` lists the differences.
"""

from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from structviews.evaluation.senteval.logistic_classifier import LogisticClassifier
from structviews.evaluation.senteval.protocols import PROTOCOLS
from structviews.evaluation.senteval.protocols.protocol import FOLDS, Protocol
from structviews.evaluation.senteval.relatedness import (
    SENTEVAL_RELATEDNESS,
)
from structviews.evaluation.senteval.tasks.reading import Examples


def senteval_order(examples: Examples) -> np.ndarray:
    """Rows (n,) of the examples in SentEval's order, by length and then target, which determines the folds."""
    lengths = [[len(s) for s in sentences] for sentences in (examples.first, examples.second) if sentences]
    keys: list[Any] = [examples.targets, *reversed(lengths)]  # np.lexsort: the last key is the primary one
    return np.lexsort(keys)


SENTEVAL = Protocol(
    name="senteval",
    seed=1111,
    order=senteval_order,
    splitter=StratifiedKFold(n_splits=FOLDS, shuffle=True, random_state=1111),
    classifier=LogisticClassifier(one_vs_rest=False),
    grids={
        "all": tuple(2.0**t for t in range(-2, 4)),
        "train/test": tuple(2.0**t for t in range(-1, 6)),
        "train/dev/test": tuple(2.0**t for t in range(-2, 4)),
        "SNLI": (1e9,),  # "noreg"
    },
    decimals=2,
    f1_chooses=False,
    relatedness=SENTEVAL_RELATEDNESS,
    similarity=True,
    normalise=False,
)
PROTOCOLS.add(SENTEVAL.name, SENTEVAL)
