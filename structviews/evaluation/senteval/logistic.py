"""Logistic regression as a protocol's classifier, and its solver, which fits a whole grid at once.

Shapes: n examples, d features, r = d + 1 weights per column (the last is the intercept), F training parts,
S strengths, P problems solved together, K score columns per problem (1 for two classes, else the number of classes).
While solving, the n examples are only those of blocks that something is learnt from.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from scipy.special import log_expit, log_softmax
from torch import Tensor

from structviews.errors import InputError
from structviews.evaluation.senteval.design import Design, Rough, Weighted
from structviews.evaluation.senteval.protocols.protocol import Blocks, Classifier, Fitted, Grid, Plan, Select
from structviews.runtime.device import to_tensor

TOLERANCE = 1e-7
MAX_ITERATIONS = 1000
IDLE_STEPS = 10  # this many steps without a significant gain mean that only rounding error is left
MEMORY = 40  # L-BFGS correction pairs
BLOCK_ELEMENTS = 1 << 26  # most numbers held for problems solved together (256 MiB)
HESSIAN_RANGE = 4  # a Hessian also serves strengths up to this many times the one that it was calculated for
# An approximate inverse of the Hessian.
Inverse = Rough | Weighted
# Weights of the last solutions, newest first, in the next one, if they lie on a constant, a line or a parabola.
EXTRAPOLATION = ((1,), (2, -1), (3, -3, 1))


@dataclass(frozen=True)
class LogisticClassifier(Classifier):
    """Logistic regression; strengths are inverse penalties C."""

    one_vs_rest: bool  # as in liblinear, fit one classifier per class and penalise the intercept

    def fit(self, features: Blocks, labels: np.ndarray, planned: Plan, grid: Grid, select: Select) -> Fitted:
        """Fit all parts and strengths at once, the final ones too; see ``Classifier.fit``."""
        parts = [choice.train for choice in planned]
        inner = [fold for choice in planned for fold in choice.inner]
        if len(inner) > 1:  # a single inner part is the training part itself
            parts += [train for train, _ in inner]
        masks = np.stack([np.bincount(part, minlength=len(labels)) > 0 for part in parts])
        design = Design(features, np.any(masks, axis=0), centred=not self.one_vs_rest)
        fits = fit_logistic(design, labels, masks, grid, self.one_vs_rest)
        predictions = fits.predictions[-len(inner) :]
        selected = select([predicted[:, test] for predicted, (_, test) in zip(predictions, inner, strict=True)])
        logits = [fits.logits[i, s, planned[i].test] for i, s in enumerate(selected)]
        return [log_probabilities(each, self.one_vs_rest) for each in logits], int((~fits.converged).sum())

    def describe(self) -> dict[str, Any]:
        many = "one against the rest" if self.one_vs_rest else "softmax"
        intercept = " and the intercept" if self.one_vs_rest else ", none on the intercept"
        return {
            "classifier": f"logistic regression, {many} for more than two classes",
            "penalty": f"L2 on the weights{intercept}; the grid is its inverse strength C",
            "solver": "L-BFGS, preconditioned by the Hessian of all folds together, float32 products",
            "tolerance": TOLERANCE,
        }


def log_probabilities(logits: np.ndarray, one_vs_rest: bool) -> np.ndarray:
    """Logits, (n, 1) for two classes else (n, K), to log-probabilities (n, K); one-vs-rest ones are normalised."""
    logits = logits.astype(np.float64)
    if logits.shape[1] == 1:
        return np.concatenate([log_expit(-logits), log_expit(logits)], axis=1)
    logs: np.ndarray = log_expit(logits) if one_vs_rest else log_softmax(logits, axis=1)
    return logs - np.log(np.exp(logs).sum(1, keepdims=True)) if one_vs_rest else logs


@dataclass(frozen=True)
class Fits:
    """Logistic regressions fitted on ``F`` training parts with ``S`` strengths, applied to all ``n`` examples."""

    logits: np.ndarray  # (F, S, n, K) float32, for all examples, whether trained on or not; K is 1 for two classes
    objectives: np.ndarray  # (F, S) float64, the minimised sums of log losses plus |w|^2 / (2 C)
    converged: np.ndarray  # (F, S) bool, whether the fit ended within MAX_ITERATIONS

    @property
    def predictions(self) -> np.ndarray:
        """Predicted classes (F, S, n), int64."""
        return self.logits.argmax(-1) if self.logits.shape[-1] > 1 else (self.logits[..., 0] > 0).astype(np.int64)


def fit_logistic(
    design: Design, labels: np.ndarray, training: np.ndarray, strengths: Sequence[float], one_vs_rest: bool = False
) -> Fits:
    """Fit a logistic regression for each training part (F, n) and each strength (S,), ascending.

    Each minimises ``sum of log losses over its examples + |w|^2 / (2 C)``. By default the intercept is not penalised
    and more than two classes use a softmax, as in scikit-learn's ``LogisticRegression``. With ``one_vs_rest``, each
    class is a separate problem and the intercept is penalised, as in liblinear (the design must not be centred).

    Strengths are solved in ascending order. For each strength, a *pilot* is fitted on all parts together. The Hessian
    at its minimum is close to that of every part, so its Cholesky factor preconditions L-BFGS for all parts at once
    (two matrix products per step). A pilot starts where the last three point to, and a part at the pilot, moved by
    what its last three distances from it point to. With a single part, all strengths are solved at once instead.
    Products are float32, sums of losses float64.

    A problem is converged when the predicted gain of its next step (minus half its slope) is below ``TOLERANCE``
    times its objective. It is also converged after ten steps that each gained less than a tenth of that: in thousands
    of dimensions, float32 rounding can cancel the predicted gain. InputError if a part lacks a class.
    """
    classes = int(labels.max()) + 1
    for part, chosen in enumerate(training):
        if len(np.unique(labels[chosen])) < classes:
            raise InputError(f"training part {part} has no example of some class; use the complete task")
    columns = 1 if classes == 2 else classes
    labels, training = labels[design.rows], training[:, design.rows]
    device = design.mean.device
    goals = to_tensor(np.asarray(labels, np.int64)).to(device)
    goals = goals[:, None].float() if columns == 1 else torch.nn.functional.one_hot(goals, columns).float()
    parts = to_tensor(training.T).to(device).float()
    setting = _Setting(design, goals, columns > 1 and not one_vs_rest, not one_vs_rest)
    zero = goals.new_zeros(sum(design.shape), columns, 1)  # where to start, for any number of problems
    if len(training) == 1:
        inverse = Rough(design, parts[:, 0])
        groups = [strengths[i : i + inverse.at_once] for i in range(0, len(strengths), inverse.at_once)]
        solved = (setting.solve(parts.expand(-1, len(some)), some, inverse, zero) for some in groups)
        return Fits(*(np.concatenate(values)[None] for values in zip(*map(setting.arrays, solved), strict=True)))
    path = map(setting.arrays, _path(setting, parts, strengths, zero))
    return Fits(*(np.stack(values, axis=1) for values in zip(*path, strict=True)))


def _path(setting: "_Setting", parts: Tensor, strengths: Sequence[float], zero: Tensor) -> Iterator["Solved"]:
    """All parts (n, F) solved for each strength in turn."""
    everything = parts.amax(1)
    share = float(parts.mean() / everything.mean())
    inverse: Inverse = Rough(setting.design, everything)
    pilots: list[Tensor] = []
    offsets: list[Tensor] = []
    most = 0.0
    for strength in strengths:
        start = _extrapolated(pilots) if pilots else zero
        pilot, *_ = setting.solve(everything[:, None], [strength], inverse, start)
        pilots = [pilot, *pilots][: len(EXTRAPOLATION)]
        if strength > most:
            most = HESSIAN_RANGE * strength
            logits = pilot[setting.design.shape[1] :, :, 0]
            inverse = Weighted(setting.design, setting.softmax, logits, everything * share)
        start = pilot + _extrapolated(offsets) if offsets else pilot
        solved = setting.solve(parts, [strength] * parts.shape[1], inverse, start)
        offsets = [solved[0] - pilot, *offsets][: len(EXTRAPOLATION)]
        yield solved


def _extrapolated(points: Sequence[Tensor]) -> Tensor:
    """The next point of a path, from its last ones, newest first: strengths are evenly spaced on a log scale."""
    return reduce(torch.add, map(torch.mul, points, EXTRAPOLATION[len(points) - 1]))


# Points (r + n, K, P) of P problems, weights and below them their logits; with the other fields of ``Fits``, (P,) each.
Solved = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class _Setting:
    """What all problems share: the design (n, r), the target probabilities (n, K) and the kind of problem."""

    design: Design
    goals: Tensor
    softmax: bool
    free_intercept: bool

    def solve(self, training: Tensor, strengths: Sequence[float], inverse: Inverse, start: Tensor) -> Solved:
        """Solve problems with examples ``training`` (n, P) and strengths (P,), as many at a time as memory allows."""
        (n, r), problems = self.design.shape, len(strengths)
        penalties = 1 / torch.tensor(strengths, dtype=torch.float32, device=training.device)
        ridge = penalties.expand(r, 1, problems).clone()
        if self.free_intercept:
            ridge[-1] = 0
        start = start.expand(-1, -1, problems)
        size = max(1, BLOCK_ELEMENTS // ((n * 4 + r * (2 * MEMORY + 4)) * self.goals.shape[1]))
        blocks = []
        for some in torch.arange(problems, device=training.device).split(size):
            blocks.append(_Problems(self, training[:, some], ridge[..., some], inverse, start[..., some]).solve())
        points, objectives, converged = zip(*blocks, strict=True)
        return torch.cat(points, -1), torch.cat(objectives), torch.cat(converged)

    def arrays(self, solved: Solved) -> list[np.ndarray]:
        """Logits (P, ., K) of all examples, and the other fields of ``Fits``."""
        point, *rest = solved
        logits = self.design.all_logits(*point.split(self.design.shape[::-1]))
        return [value.cpu().numpy() for value in (logits.permute(2, 0, 1), *rest)]


class _Problems:
    """Problems solved together by preconditioned L-BFGS; converged ones are removed, so the products shrink.

    Takes training examples (n, P), the ridge (r, 1, P) and a starting point (r + n, K, P): elementwise operations run
    along the problems.
    """

    def __init__(self, setting: _Setting, training: Tensor, ridge: Tensor, inverse: Inverse, start: Tensor) -> None:
        self.design, self.softmax = setting.design, setting.softmax
        self.goals, self.signs = setting.goals[..., None], 1 - 2 * setting.goals[..., None]
        self.training, self.ridge, self.inverse = training[:, None], ridge, inverse
        problems = training.shape[1]
        self.point = start
        self.history: list[tuple[Tensor, Tensor, Tensor]] = []
        self.number = torch.arange(problems, device=training.device)
        self.objectives = torch.zeros(problems, dtype=torch.float64, device=training.device)
        self.converged = torch.zeros(problems, dtype=torch.bool)
        self.activate(start.clone())

    def activate(self, point: Tensor) -> None:
        """Go on, in place, from a point of the problems that are left."""
        self.active = point
        self.weights, self.logits = self.active.split([len(self.ridge), len(self.goals)])

    def solve(self) -> Solved:
        """Fit every problem."""
        losses, errors = self.losses(self.logits)
        gradient, certainty = self.derivatives(errors)
        least, idle = torch.full_like(losses, torch.inf), torch.zeros_like(losses)
        for iteration in range(MAX_ITERATIONS + 1):
            objectives = losses + _sum(self.ridge * self.weights**2) / 2
            if iteration == MAX_ITERATIONS:
                self.record(torch.ones_like(losses, dtype=torch.bool), objectives, False)
                break
            direction = self.direction(gradient, certainty)
            slope = _sum(gradient * direction)
            idle = torch.where(least - objectives > TOLERANCE / 10 * objectives, 0, idle + 1)
            least = torch.minimum(least, objectives)
            done = (-slope / 2 <= TOLERANCE * objectives) | (idle >= IDLE_STEPS)
            if done.any():
                self.record(done, objectives, True)
                left = ~done
                if not left.any():
                    break
                losses, least, idle, slope = losses[left], least[left], idle[left], slope[left]
                gradient, direction = gradient[..., left], direction[..., left]
                self.number, self.training = self.number[left], self.training[..., left]
                self.ridge = self.ridge[..., left]
                self.history = [(s[..., left], y[..., left], inverse[left]) for s, y, inverse in self.history]
                self.activate(self.active[..., left])
            step, losses, errors = self.search(direction, slope, losses)
            self.weights += step
            before = gradient
            gradient, certainty = self.derivatives(errors)
            change = gradient - before
            curvature = _sum(step * change)
            # Ignore pairs from steps lost to rounding.
            inverse = torch.where(curvature > 1e-12, 1 / curvature, 0.0)
            self.history = [*self.history, (step, change, inverse)][-MEMORY:]
        return self.point, self.objectives, self.converged

    def losses(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Sums of the log losses over the training examples, (P,), and their derivatives by the logits, (n, K, P).

        A loss is ``softplus`` of the log-odds against the gold class, which keeps small ones precise.
        """
        if self.softmax:
            margins = logits - (logits * self.goals).sum(1, keepdim=True)
            against = margins.masked_fill(self.goals > 0, -torch.inf).logsumexp(1, keepdim=True)
            losses = torch.nn.functional.softplus(against)
            errors = torch.where(self.goals > 0, -against.sigmoid(), (margins - losses).exp_())
        else:
            against = self.signs * logits
            losses, errors = torch.nn.functional.softplus(against), against.sigmoid().mul_(self.signs)
        return _sum(losses * self.training), errors.mul_(self.training)

    def derivatives(self, errors: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient (r, K, P) of the objectives, and the sum of ``p (1 - p)`` of each column, (K, P)."""
        certainty = (errors.abs() - errors.square()).sum(0)
        return self.design.gradient(errors) + self.ridge * self.weights, certainty

    def direction(self, gradient: Tensor, certainty: Tensor) -> Tensor:
        """The L-BFGS direction (r, K, P): Nocedal and Wright (2006), algorithm 7.4."""
        q = -gradient
        parts = []
        for s, y, inverse in reversed(self.history):
            part = (_sum(s * q) * inverse).float()
            q -= part * y
            parts.append(part)
        q = self.inverse(q, certainty, self.ridge[0, 0])
        if self.softmax:
            # A softmax is invariant to a shift of all its columns; remove it from the step.
            q -= q.mean(1, keepdim=True)
        for (s, y, inverse), part in zip(self.history, reversed(parts), strict=True):
            q += s * (part - _sum(y * q) * inverse).float()
        return q

    def search(self, direction: Tensor, slope: Tensor, losses: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Backtracking line search: returns steps (r, K, P), new losses (P,) and their derivatives.

        Halves each problem's step until the objective decreases enough. The logits are linear in the step, so trial
        steps need no matrix product.
        """
        moved = self.design.logits(direction)
        penalty = _sum(self.ridge * self.weights * direction)
        bend = _sum(self.ridge * direction**2) / 2
        size = torch.ones_like(slope)
        for _ in range(30):
            new, errors = self.losses(self.logits + size.float() * moved)
            gain = losses - new - size * penalty - size**2 * bend
            short = gain < -1e-4 * size * slope - TOLERANCE * losses
            if not short.any():
                break
            size = torch.where(short, size / 2, size)
        self.logits += size.float() * moved
        return size.float() * direction, new, errors

    def record(self, which: Tensor, objectives: Tensor, converged: bool) -> None:
        """Store what was found for the problems of a mask."""
        numbers = self.number[which]
        self.point[..., numbers] = self.active[..., which]
        self.objectives[numbers] = objectives[which]
        self.converged[numbers.cpu()] = converged


def _sum(values: Tensor) -> Tensor:
    """Sum over all but the problems, in float64: (r, K, P) to (P,)."""
    return values.sum((0, 1), dtype=torch.float64)
