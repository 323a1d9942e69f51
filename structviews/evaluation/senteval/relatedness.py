"""The relatedness model: a softmax over scores from 1 to 5 (Tai et al. 2015)."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr

from structviews.errors import InputError
from structviews.evaluation.senteval.logistic import soft_cross_entropy


def soft_labels(scores: np.ndarray, classes: int = 5) -> np.ndarray:
    """Soft labels (n, classes), float32, from scores (n,) in 0..classes: each score is split between its two classes.

    As in Tai, Socher and Manning (2015): 3.7 is 0.3 of class 3 and 0.7 of class 4. Classes start at 1, so the
    weights of a score below 1 (only in STS) sum to less than 1, as in SentEval.
    """
    labels = np.zeros((len(scores), classes + 2), dtype=np.float32)
    below = np.floor(scores).astype(int)
    rows = np.arange(len(scores))
    labels[rows, below] = below + 1 - scores
    labels[rows, below + 1] = scores - below
    return labels[:, 1 : classes + 1]


@dataclass(frozen=True)
class RelatednessTraining:
    """Training settings of a relatedness model: Adam (1e-3), early stopping by Pearson correlation on dev.

    Attributes:
        loss: ``squared error`` or ``cross-entropy`` between the probabilities and the soft labels.
        batch: batch size.
        shuffled: whether to reshuffle the examples every epoch.
        epochs: epochs between two evaluations on dev.
        misses: stop after this many evaluations without improvement, consecutive or not.
        most: train no further once this many epochs are exceeded.
        glorot: initialise with Glorot and Bengio's (2010) uniform weights and zero biases, not with torch's default.
    """

    loss: str
    batch: int
    shuffled: bool
    epochs: int
    misses: int
    most: int
    glorot: bool


SENTEVAL_RELATEDNESS = RelatednessTraining("squared error", 64, True, 50, 4, 1000, False)
# Keras (2015) defaults: batches of 128, 100 epochs per call of ``fit``, and Glorot initialisation.
KIROS_RELATEDNESS = RelatednessTraining("cross-entropy", 128, False, 100, 1, 100_000, True)


def fit_relatedness(
    features: dict[str, np.ndarray],
    scores: dict[str, np.ndarray],
    order: np.ndarray,
    seed: int,
    training: RelatednessTraining = SENTEVAL_RELATEDNESS,
) -> tuple[float, np.ndarray]:
    """Fit a softmax layer to soft labels; a pair's score is the expected class.

    Keeps the best model by Pearson correlation on dev (SentEval, ``senteval/tools/relatedness.py``;
    skip-thoughts, ``eval_sick.py``).

    Args:
        features: (n, d) for each of ``train``, ``dev`` and ``test``.
        scores: (n,) gold scores in 0..5, at least for ``train`` and ``dev``.
        order: (n,) rows of ``train`` in training order, before any shuffling.
        seed: seed of the initial weights and the shuffling.
        training: loss, batch size and stopping criterion.

    Returns:
        The best dev Pearson correlation and the log-probabilities of the test examples, (t, 5) float64.

    Raises:
        InputError: if the dev correlation is undefined, for example because all vectors are equal.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    inputs = {
        split: torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)).to(device) for split, x in features.items()
    }
    examples, targets = inputs["train"], torch.from_numpy(soft_labels(scores["train"])).to(device)
    shuffling = np.random.RandomState(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = torch.nn.Linear(examples.shape[1], targets.shape[1])
        if training.glorot:
            torch.nn.init.xavier_uniform_(layer.weight)
            torch.nn.init.zeros_(layer.bias)
    layer.to(device)
    optimiser = torch.optim.Adam(layer.parameters(), fused=True)
    loss = torch.nn.functional.mse_loss if training.loss == "squared error" else soft_cross_entropy

    def logs(split: str) -> np.ndarray:
        with torch.no_grad():
            scores: torch.Tensor = layer(inputs[split])
            return scores.double().log_softmax(1).cpu().numpy()

    best, best_test, misses, epochs = -np.inf, np.empty(0), 0, 0
    while misses < training.misses and epochs <= training.most:
        for _ in range(training.epochs):
            rows = order[shuffling.permutation(len(order))] if training.shuffled else order
            for chosen in torch.from_numpy(rows).to(device).split(training.batch):
                optimiser.zero_grad()
                loss(layer(examples[chosen]).softmax(1), targets[chosen]).backward()
                optimiser.step()
        epochs += training.epochs
        score = correlation("pearson", expected_class(logs("dev")), scores["dev"])
        if score > best:
            best, best_test = score, logs("test")
        else:
            misses += 1
    return best, best_test


def expected_class(logs: np.ndarray) -> np.ndarray:
    """Expected classes (n,), counted from 1, from log-probabilities (n, K); equal rows give bitwise equal scores."""
    scores: np.ndarray = (np.exp(logs) * np.arange(1, logs.shape[1] + 1)).sum(1)
    return scores


def correlation(kind: str, predicted: np.ndarray, gold: np.ndarray) -> float:
    """Pearson or Spearman correlation of two (n,) arrays.

    Raises:
        InputError: if it is undefined: fewer than two values, or all values equal.
    """
    for name, values in (("predicted", predicted), ("gold", gold)):
        # Scores of equal vectors may differ by float32 rounding.
        if len(values) < 2 or np.ptp(values) <= 1e-6 * np.abs(values).max():
            raise InputError(f"the correlation of {len(values)} scores is undefined: the {name} scores are all equal")
    return float((pearsonr if kind == "pearson" else spearmanr)(predicted, gold)[0])
