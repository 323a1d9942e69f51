"""The protocols of SentEval, of skip-thoughts and of SimCSE. ``docs/protocols.md`` lists their differences."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from structviews.evaluation.senteval.adam_classifier import AdamClassifier
from structviews.evaluation.senteval.logistic import LogisticClassifier
from structviews.evaluation.senteval.protocols import PROTOCOLS
from structviews.evaluation.senteval.protocols.protocol import FOLDS, Protocol
from structviews.evaluation.senteval.relatedness import KIROS_RELATEDNESS, SENTEVAL_RELATEDNESS
from structviews.evaluation.senteval.tasks.reading import Examples


def senteval_order(examples: Examples) -> np.ndarray:
    """Rows (n,) of the examples in SentEval's order, by length and then target, which determines the folds."""
    lengths = [[len(s) for s in sentences] for sentences in (examples.first, examples.second) if sentences]
    keys: list[Any] = [examples.targets, *reversed(lengths)]  # np.lexsort: the last key is the primary one
    return np.lexsort(keys)


def kiros_order(examples: Examples) -> np.ndarray:
    """Rows (n,) of the examples in the order that the skip-thought scripts shuffle them to, before or in ``KFold``."""
    rows = np.arange(len(examples))
    np.random.RandomState(1234).shuffle(rows)
    return rows


# The folds, seeds and grids of ``senteval/tools/validation.py`` with its scikit-learn classifier (Conneau and Kiela,
# 2018; ``usepytorch`` False).
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
# With SentEval's default classifier, that of most published SentEval scores (``usepytorch`` True, no hidden layer).
SENTEVAL_TORCH = replace(
    SENTEVAL,
    name="senteval-torch",
    classifier=AdamClassifier(SENTEVAL.seed),
    # SentEval's code shortens the training of SNLI (senteval/snli.py): to the first evaluation after 15 epochs.
    own_classifiers={"SNLI": AdamClassifier(SENTEVAL.seed, epochs=1, rounds=16)},
    grids={name: (1e-9,) if name == "SNLI" else (1e-5, 1e-4, 1e-3, 1e-2) for name in SENTEVAL.grids},
)
# The skip-thought scripts (Kiros et al., 2015): ``eval_classification.py``, ``eval_trec.py``, ``eval_msrp.py`` and
# ``eval_sick.py`` of ryankiros/skip-thoughts.
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
# The literature since SimCSE (Gao et al., 2021, appendix B): Spearman's correlation over all pairs of a year, without
# anything learnt.
SIMCSE = replace(SENTEVAL, name="simcse", learns=False, correlations=("spearman all",))
for protocol in (SENTEVAL, SENTEVAL_TORCH, KIROS, SIMCSE):
    PROTOCOLS.register(protocol.name, protocol)
