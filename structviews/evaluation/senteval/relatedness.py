"""The relatedness model: a softmax over scores from 1 to 5 (Tai et al. 2015)."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr

from structviews.errors import InputError
from structviews.runtime.device import best_device, to_tensor

BySplit = dict[str, np.ndarray]
CLASSES = 5
RATE, BETAS, EPSILON = 1e-3, (0.9, 0.999), 1e-8  # Adam's


def soft_labels(scores: np.ndarray) -> np.ndarray:
    """Soft labels (n, 5), float32, from scores (n,) in 0..5: each score is split between its two classes.

    As in Tai, Socher and Manning (2015): 3.7 is 0.3 of class 3 and 0.7 of class 4. Classes start at 1, so the
    weights of a score below 1 (only in STS) sum to less than 1, as in SentEval.
    """
    labels = np.zeros((len(scores), CLASSES + 2), dtype=np.float32)
    below = np.floor(scores).astype(int)
    rows = np.arange(len(scores))
    labels[rows, below] = below + 1 - scores
    labels[rows, below + 1] = scores - below
    return labels[:, 1 : CLASSES + 1]


@dataclass(frozen=True)
class RelatednessTraining:
    """Training settings of a relatedness model: Adam (1e-3), early stopping by Pearson correlation on dev."""

    loss: str  # "squared error" or "cross-entropy" between the probabilities and the soft labels
    batch: int
    shuffled: bool  # whether to reshuffle the examples every epoch
    epochs: int  # between two evaluations on dev
    misses: int  # stop after this many evaluations without improvement, consecutive or not
    most: int  # train no further once this many epochs are exceeded
    glorot: bool  # initialise as Glorot and Bengio (2010), with zero biases, not with torch's default


SENTEVAL_RELATEDNESS = RelatednessTraining("squared error", 64, True, 50, 4, 1000, False)
# Keras (2015) defaults: batches of 128, 100 epochs per call of ``fit``, and Glorot initialisation.
KIROS_RELATEDNESS = RelatednessTraining("cross-entropy", 128, False, 100, 1, 100_000, True)


def fit_relatedness(
    features: BySplit, scores: BySplit, order: np.ndarray, seed: int, training: RelatednessTraining
) -> tuple[float, np.ndarray]:
    """Fit a softmax layer to soft labels; a pair's score is the expected class.

    Keeps the best model by Pearson correlation on dev (SentEval, ``senteval/tools/relatedness.py``; skip-thoughts,
    ``eval_sick.py``). ``features`` (n, d) are those of ``train``, ``dev`` and ``test``, ``scores`` (n,) in 0..5 at
    least of ``train`` and ``dev``, and ``order`` (n,) are rows of ``train`` in training order, before any shuffling.
    Returns the best dev correlation, InputError if undefined, and log-probabilities (t, 5), float64, of the test part.
    """
    device = best_device()
    inputs = {split: to_tensor(np.asarray(x, np.float32)).to(device) for split, x in features.items()}
    targets = torch.from_numpy(soft_labels(scores["train"])).to(device)
    shuffling = np.random.RandomState(seed)
    model = _Model(inputs["train"].shape[1], seed, training, device)
    best, best_test, misses, epochs = -np.inf, np.empty(0), 0, 0
    while misses < training.misses and epochs <= training.most:
        for _ in range(training.epochs):
            rows = torch.from_numpy(order[shuffling.permutation(len(order))] if training.shuffled else order).to(device)
            for chosen, wanted in zip(rows.split(training.batch), targets[rows].split(training.batch), strict=True):
                model.learn(inputs["train"], chosen, wanted)
        epochs += training.epochs
        score = correlation("pearson", expected_class(model.logs(inputs["dev"])), scores["dev"])
        if score > best:
            best, best_test = score, model.logs(inputs["test"])
        else:
            misses += 1
    return best, best_test


class _Model:
    """A softmax over a linear layer (K, d), trained by Adam (Kingma and Ba, 2015, algorithm 1).

    A batch is so small that autograd, an optimiser's bookkeeping and new memory for its rows take longer than the
    products. So the gradient is by formula, and what a step needs stays in place.
    """

    def __init__(self, d: int, seed: int, training: RelatednessTraining, device: torch.device) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layer = torch.nn.Linear(d, CLASSES)
            if training.glorot:
                torch.nn.init.xavier_uniform_(layer.weight)
                torch.nn.init.zeros_(layer.bias)
        self.point = torch.nn.utils.parameters_to_vector(layer.parameters()).detach().to(device)
        self.gradient, self.mean, self.square = (torch.zeros_like(self.point) for _ in range(3))
        parts = [(values[:-CLASSES].view(CLASSES, d), values[-CLASSES:]) for values in (self.point, self.gradient)]
        (self.weights, self.bias), (self.weights_gradient, self.bias_gradient) = parts
        self.rows = torch.empty(training.batch, d, device=device)
        self.loss, self.steps = training.loss, 0

    def logs(self, inputs: torch.Tensor) -> np.ndarray:
        """Log-probabilities (n, K), float64, of examples (n, d)."""
        logits = torch.addmm(self.bias, inputs, self.weights.T)
        return logits.double().log_softmax(1).cpu().numpy()

    def learn(self, examples: torch.Tensor, chosen: torch.Tensor, targets: torch.Tensor) -> None:
        """Take a step on some rows ``chosen`` (b,) of the examples (n, d), with soft labels ``targets`` (b, K)."""
        rows = torch.index_select(examples, 0, chosen, out=self.rows[: len(chosen)])
        shares = torch.addmm(self.bias, rows, self.weights.T).softmax(1)
        if self.loss == "squared error":  # the derivative of the mean loss by the probabilities
            slopes = (shares - targets) * (2 / shares.numel())
        else:
            clipped = shares.clamp(1e-7, 1 - 1e-7)  # as in Keras
            slopes = -targets / clipped * (clipped == shares) / len(shares)
        errors = shares * slopes
        errors = errors.addcmul_(shares, errors.sum(1, keepdim=True), value=-1)  # through the softmax
        torch.mm(errors.T, rows, out=self.weights_gradient)
        torch.sum(errors, 0, out=self.bias_gradient)
        self.steps += 1
        self.mean.lerp_(self.gradient, 1 - BETAS[0])
        self.square.mul_(BETAS[1]).addcmul_(self.gradient, self.gradient, value=1 - BETAS[1])
        scale = self.square.sqrt().div_(math.sqrt(1 - BETAS[1] ** self.steps)).add_(EPSILON)
        self.point.addcdiv_(self.mean, scale, value=-RATE / (1 - BETAS[0] ** self.steps))


def expected_class(logs: np.ndarray) -> np.ndarray:
    """Expected classes (n,), counted from 1, from log-probabilities (n, K); equal rows give bitwise equal scores."""
    return (np.exp(logs) * np.arange(1, logs.shape[1] + 1)).sum(1)


def correlation(kind: str, predicted: np.ndarray, gold: np.ndarray) -> float:
    """Pearson or Spearman correlation of two (n,) arrays; InputError if it is undefined."""
    for name, values in (("predicted", predicted), ("gold", gold)):
        # Scores of equal vectors may differ by float32 rounding.
        if len(values) < 2 or np.ptp(values) <= 1e-6 * np.abs(values).max():
            raise InputError(f"the correlation of {len(values)} scores is undefined: the {name} scores are all equal")
    return float((pearsonr if kind == "pearson" else spearmanr)(predicted, gold)[0])
