"""Solvers of the evaluation's classifiers: many logistic regressions at once, and SentEval's relatedness model.

Shape legend: n examples, d features, r columns of the design, P problems, K score columns of a problem
(1 for two classes, else the number of classes).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr

from structviews.errors import InputError

TOLERANCE = 1e-7
MAX_ITERATIONS = 1000
MEMORY = 40  # correction pairs of L-BFGS
BLOCK_ELEMENTS = 1 << 26  # numbers that the problems solved together may take (512 MiB)


@dataclass(frozen=True)
class Fits:
    """What ``P`` logistic regressions say of all ``n`` examples.

    Attributes:
        predictions: (P, n) int64, the predicted class of every example, trained on or not.
        objectives: (P,) float64, the minimised sum of log losses plus ``|w|^2 / (2 C)``.
        iterations: (P,) int64, steps taken.
        converged: (P,) bool, whether the tolerance was reached.
    """

    predictions: np.ndarray
    objectives: np.ndarray
    iterations: np.ndarray
    converged: np.ndarray


def rotated_design(features: np.ndarray) -> torch.Tensor:
    """Features (n, d) as a design (n, r): centred, rotated to principal axes, a column of ones at the end.

    A ridge penalty does not see a rotation, and a free intercept absorbs the centring, so every
    logistic regression has the same minimum and the same predictions in these coordinates. There its
    Hessian is nearly diagonal, which is what makes :func:`fit_logistic` quick, and with more features
    than examples only ``n`` columns are left. Labels are not used.
    """
    centred = torch.from_numpy(np.ascontiguousarray(features, dtype=np.float64))
    centred = centred - centred.mean(0)
    if centred.shape[1] > centred.shape[0]:
        centred = torch.linalg.qr(centred.T).R.T
    axes = torch.linalg.eigh(centred.T @ centred).eigenvectors
    return torch.cat([centred @ axes, torch.ones(len(centred), 1, dtype=torch.float64)], dim=1)


def fit_logistic(
    design: torch.Tensor, labels: np.ndarray, training: np.ndarray, strengths: Sequence[float] | np.ndarray
) -> Fits:
    """Fit ``P`` logistic regressions that share their features, by preconditioned L-BFGS.

    Problem ``p`` minimises ``sum of log losses over its examples + |w|^2 / (2 C_p)`` with a free
    intercept: scikit-learn's ``LogisticRegression(C=C_p)``, softmax over the classes when there are more
    than two. Every step is two matrix products for all problems together. A problem is finished when
    ``g' H^-1 g / 2`` (gradient ``g``, approximate diagonal Hessian ``H``), an estimate of what is still
    to gain, is below ``TOLERANCE`` of its objective.

    Args:
        design: (n, r) float64 from :func:`rotated_design`.
        labels: (n,) classes 0..K-1.
        training: (P, n) bool, the examples that each problem learns from.
        strengths: (P,) inverse penalties ``C``.

    Raises:
        InputError: if a problem's examples lack a class.
    """
    classes = int(labels.max()) + 1
    for p, chosen in enumerate(training):
        if len(np.unique(labels[chosen])) < classes:
            raise InputError(f"problem {p} has no training example of some class; use fewer folds or more examples")
    columns = 1 if classes == 2 else classes
    width = (len(design) * 4 + design.shape[1] * (2 * MEMORY + 4)) * columns
    size = max(1, BLOCK_ELEMENTS // width)
    blocks = [
        _Block(
            design,
            torch.from_numpy(np.ascontiguousarray(labels, dtype=np.int64)),
            columns,
            torch.from_numpy(np.ascontiguousarray(training[i : i + size].T)).double(),
            torch.as_tensor(np.asarray(strengths[i : i + size]), dtype=torch.float64),
        ).solve()
        for i in range(0, len(training), size)
    ]
    return Fits(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


class _Block:
    """Problems solved together; those that finish leave, so that the products shrink.

    Made from a design (n, r), labels (n,), the number K of columns, training examples (n, P) and
    strengths (P,). Problems are the last dimension: what is done per element runs along it.
    """

    def __init__(
        self, design: torch.Tensor, labels: torch.Tensor, columns: int, training: torch.Tensor, strengths: torch.Tensor
    ) -> None:
        (n, r), problems = design.shape, len(strengths)
        self.design = design
        # Every example's own class: the column that holds it, or for two classes the one column and a sign.
        self.own = (torch.arange(n), labels if columns > 1 else torch.zeros_like(labels))
        self.signs = (2 * labels - 1).double()[:, None]
        self.spread = design.square().mean(0)[:, None, None]
        self.training = training[:, None]
        free = design.new_ones(r, 1, 1)
        free[-1] = 0  # the intercept is not penalised
        self.ridge = free / strengths
        self.weights = design.new_zeros(r, columns, problems)
        self.logits = design.new_zeros(n, columns, problems)
        self.history: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self.number = torch.arange(problems)
        self.predictions = torch.zeros(problems, n, dtype=torch.int64)
        self.objectives = torch.zeros(problems, dtype=torch.float64)
        self.iterations = torch.full((problems,), MAX_ITERATIONS)
        self.converged = torch.zeros(problems, dtype=torch.bool)

    def solve(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return predictions, objectives, iterations and convergence of every problem."""
        losses, shares = self.losses(self.logits)
        gradient, hessian = self.derivatives(shares)
        for iteration in range(MAX_ITERATIONS):
            objectives = losses + _sum(self.ridge * self.weights**2) / 2
            done = _sum(gradient**2 / hessian) / 2 <= TOLERANCE * objectives
            if done.any():
                self.record(done, objectives, iteration)
                keep = ~done
                if not keep.any():
                    break
                losses, gradient, hessian = losses[keep], gradient[..., keep], hessian[..., keep]
                self.keep(keep)
            step, losses, shares = self.search(self.direction(gradient, hessian), gradient, losses)
            self.weights += step
            before = gradient
            gradient, hessian = self.derivatives(shares)
            self.remember(step, gradient - before)
        else:
            everything = torch.ones(len(self.number), dtype=torch.bool)
            self.record(everything, losses + _sum(self.ridge * self.weights**2) / 2, MAX_ITERATIONS)
            self.converged[self.number] = False
        return self.predictions.numpy(), self.objectives.numpy(), self.iterations.numpy(), self.converged.numpy()

    def losses(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sums of the log losses over the training examples, (P,), and probabilities (n, K, P)."""
        if logits.shape[1] == 1:
            losses = torch.nn.functional.softplus(-self.signs * logits[:, 0])
            shares = logits.sigmoid()
        else:
            shares = logits.softmax(1)
            losses = -shares[self.own].log()
        return (losses * self.training[:, 0]).sum(0), shares

    def derivatives(self, shares: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradient and approximate Hessian diagonal of the objectives, both (r, K, P)."""
        certainty = (shares * (1 - shares) * self.training).sum(0).clamp_min(1e-6)
        errors = shares.clone()
        errors[self.own] -= 1 if shares.shape[1] > 1 else (self.signs > 0).double()
        errors *= self.training
        gradient = (self.design.T @ errors.flatten(1)).view_as(self.weights) + self.ridge * self.weights
        return gradient, self.spread * certainty + self.ridge

    def direction(self, gradient: torch.Tensor, hessian: torch.Tensor) -> torch.Tensor:
        """The L-BFGS direction, (r, K, P): Nocedal and Wright (2006), algorithm 7.4."""
        q = -gradient
        parts = []
        for s, y, inverse in reversed(self.history):
            part = _sum(s * q) * inverse
            q -= part * y
            parts.append(part)
        q /= hessian
        for (s, y, inverse), part in zip(self.history, reversed(parts), strict=True):
            q += s * (part - _sum(y * q) * inverse)
        return q

    def remember(self, step: torch.Tensor, change: torch.Tensor) -> None:
        curvature = _sum(step * change)
        # A step lost to rounding teaches nothing: its pair has no weight.
        inverse = torch.where(curvature > 1e-12, 1 / curvature, 0.0)
        self.history = [*self.history, (step, change, inverse)][-MEMORY:]

    def search(
        self, direction: torch.Tensor, gradient: torch.Tensor, losses: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Halve each problem's step until it gains; returns steps (r, K, P), new losses (P,) and probabilities.

        The logits are linear in the step, so a trial needs no matrix product.
        """
        moved = (self.design @ direction.flatten(1)).view_as(self.logits)
        slope = _sum(gradient * direction)
        penalty = _sum(self.ridge * self.weights * direction)
        bend = _sum(self.ridge * direction**2) / 2
        size = torch.ones_like(slope)
        for _ in range(30):
            new, shares = self.losses(self.logits + size * moved)
            gain = losses - new - size * penalty - size**2 * bend
            short = gain < -1e-4 * size * slope - 1e-12 * losses
            if not short.any():
                break
            size = torch.where(short, size / 2, size)
        self.logits += size * moved
        return size * direction, new, shares

    def record(self, which: torch.Tensor, objectives: torch.Tensor, iteration: int) -> None:
        numbers = self.number[which]
        logits = self.logits[..., which]
        classes = (logits[:, 0] > 0).long() if logits.shape[1] == 1 else logits.argmax(1)
        self.predictions[numbers] = classes.T
        self.objectives[numbers] = objectives[which]
        self.iterations[numbers] = iteration
        self.converged[numbers] = True

    def keep(self, which: torch.Tensor) -> None:
        self.number = self.number[which]
        self.training, self.ridge = self.training[..., which], self.ridge[..., which]
        self.weights, self.logits = self.weights[..., which], self.logits[..., which]
        self.history = [(s[..., which], y[..., which], inverse[which]) for s, y, inverse in self.history]


def _sum(values: torch.Tensor) -> torch.Tensor:
    """Sums over everything but the problems: (r, K, P) to (P,)."""
    return values.sum((0, 1))


def soft_labels(scores: np.ndarray, classes: int = 5) -> np.ndarray:
    """Scores (n,) in 0..classes as (n, classes) float32 weights of the two classes around each.

    As in Tai, Socher and Manning (2015): 3.7 is 0.3 of class 3 and 0.7 of class 4. Classes start at 1,
    so a score under 1, which only STS has, leaves part of its weight on no class, as in SentEval.
    """
    labels = np.zeros((len(scores), classes + 2), dtype=np.float32)
    below = np.floor(scores).astype(int)
    rows = np.arange(len(scores))
    labels[rows, below] = below + 1 - scores
    labels[rows, below + 1] = scores - below
    return labels[:, 1 : classes + 1]


def fit_relatedness(
    features: dict[str, np.ndarray], scores: dict[str, np.ndarray], order: np.ndarray, seed: int
) -> tuple[float, np.ndarray]:
    """SentEval's relatedness model: a softmax layer fitted to soft labels, its expected class as score.

    Adam (1e-3) on the mean squared error of the probabilities, batches of 64; after every 50 epochs the
    dev set's Pearson correlation is taken, the best model kept, and training ends at the fourth round
    that is no better, or after 1,000 epochs (SentEval, ``senteval/tools/relatedness.py``).

    Args:
        features: (n, d) of ``train``, ``dev`` and ``test`` each.
        scores: (n,) gold scores in 0..5, of ``train`` and ``dev`` at least.
        order: (n,) rows of ``train``, in the order that is shuffled.
        seed: for the first weights and the order of the examples.

    Returns:
        The best dev Pearson correlation and the predicted scores of the test examples, (t,) float64.

    Raises:
        InputError: if the dev correlation is undefined, as for vectors that are all equal.
    """
    inputs = {split: torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)) for split, x in features.items()}
    examples, targets = inputs["train"], torch.from_numpy(soft_labels(scores["train"]))
    shuffling = np.random.RandomState(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = torch.nn.Linear(examples.shape[1], targets.shape[1])
    optimiser = torch.optim.Adam(layer.parameters(), fused=True)

    def expected_class(split: str) -> np.ndarray:
        with torch.no_grad():
            shares = layer(inputs[split]).softmax(1)
        return shares.double().numpy() @ np.arange(1, targets.shape[1] + 1)

    best, best_test, misses, epochs = -np.inf, np.empty(0), 0, 0
    while misses <= 3 and epochs <= 1000:
        for _ in range(50):
            shuffled = torch.from_numpy(order[shuffling.permutation(len(order))])
            for x, y in zip(examples[shuffled].split(64), targets[shuffled].split(64), strict=True):
                optimiser.zero_grad()
                torch.nn.functional.mse_loss(layer(x).softmax(1), y).backward()
                optimiser.step()
        epochs += 50
        score = correlation("pearson", expected_class("dev"), scores["dev"])
        if score > best:
            best, best_test = score, expected_class("test")
        else:
            misses += 1
    return best, best_test


def correlation(kind: str, predicted: np.ndarray, gold: np.ndarray) -> float:
    """Pearson or Spearman correlation of two (n,) arrays.

    Raises:
        InputError: where it is undefined: fewer than two values, or all values equal.
    """
    for name, values in (("predicted", predicted), ("gold", gold)):
        if len(values) < 2 or np.ptp(values) == 0:
            raise InputError(f"the correlation of {len(values)} scores is undefined: the {name} ones do not differ")
    return float((pearsonr if kind == "pearson" else spearmanr)(predicted, gold)[0])
