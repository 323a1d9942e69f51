"""Solvers of the evaluation's classifiers: a grid of logistic regressions at once, and relatedness models.

Shape legend: n examples, d features, r = d + 1 weights of a column (the last is the intercept), F training parts,
S strengths, P problems solved together, K score columns of a problem (1 for two classes, else their number).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg.blas import dsyrk, ssyrk
from scipy.stats import pearsonr, spearmanr

from structviews.errors import InputError

TOLERANCE = 1e-7
MAX_ITERATIONS = 1000
IDLE_STEPS = 10  # after so many without a gain that counts there is only rounding
MEMORY = 40  # correction pairs of L-BFGS
BLOCK_ELEMENTS = 1 << 26  # numbers that the problems solved together may take (256 MiB)
CHUNK_ELEMENTS = 1 << 22  # numbers of the features that are copied at a time
FACTOR_ELEMENTS = 42 * 10**7  # numbers that kept Cholesky factors may take (1.7 GB), unless one alone takes more
FEW_FACTORS = 4
HESSIAN_EXAMPLES = 4  # examples per weight that estimate a Hessian which few problems share


@dataclass(frozen=True)
class Fits:
    """What logistic regressions say of all ``n`` examples, for ``F`` training parts and ``S`` strengths.

    Attributes:
        logits: (F, S, n, K) float32, of every example, trained on or not; ``K`` is 1 for two classes.
        objectives: (F, S) float64, the minimised sum of log losses plus ``|w|^2 / (2 C)``.
        iterations: (F, S) int64, steps taken.
        converged: (F, S) bool, whether it ended before the most steps.
    """

    logits: np.ndarray
    objectives: np.ndarray
    iterations: np.ndarray
    converged: np.ndarray

    @property
    def predictions(self) -> np.ndarray:
        """Classes (F, S, n) int64."""
        return self.logits.argmax(-1) if self.logits.shape[-1] > 1 else (self.logits[..., 0] > 0).astype(np.int64)


class Design:
    """Features with an intercept, as all problems share them; on the GPU if there is one.

    Args:
        features: of the examples, in parts (n_i, d) that stand for one (n, d); float32 ones are not copied on the CPU.
        training: (n,) bool, the examples that some problem learns from. Its weights are combinations of
            these, so when they are fewer than half of ``d`` the features are replaced by as many coordinates
            in which all inner products with them are the same (Cholesky factor of the Gram matrix, float64).
        centred: subtract the mean, which a free intercept absorbs and which makes the problem better
            conditioned; not for an intercept with a penalty.
    """

    def __init__(self, features: Sequence[np.ndarray], training: np.ndarray, centred: bool = True) -> None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.parts = [torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)).to(device) for x in features]
        n, d = sum(map(len, self.parts)), self.parts[0].shape[1]
        # Some rows at a time: a sum in float64 begins with a copy in float64.
        rows = (some for part in self.parts for some in part.split(max(1, CHUNK_ELEMENTS // d)))
        total = torch.stack([some.sum(0, dtype=torch.float64) for some in rows]).sum(0)
        self.mean = (total / n).float() if centred else torch.zeros(d, device=device)
        chosen = torch.from_numpy(training).to(device)
        m = int(chosen.sum())
        if d > 2 * m:  # else it costs more than it saves
            self.parts = [self._reduced(chosen)]
            self.mean = torch.zeros(m, device=device)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of examples and of weights, ``(n, r)``."""
        return sum(map(len, self.parts)), len(self.mean) + 1

    def logits(self, weights: torch.Tensor) -> torch.Tensor:
        """Weights (r, ...) to logits (n, ...)."""
        flat = weights.flatten(1)
        # Transposed, both products are several times faster with few columns.
        product = torch.cat([flat[:-1].T @ part.T for part in self.parts], dim=1).T
        return (product + (flat[-1] - self.mean @ flat[:-1])).reshape(-1, *weights.shape[1:])

    def gradient(self, errors: torch.Tensor) -> torch.Tensor:
        """Errors (n, ...) of the logits to the gradient (r, ...)."""
        flat = errors.flatten(1)
        total = flat.sum(0, keepdim=True)
        rows = flat.split([len(part) for part in self.parts])
        product = torch.stack([some.T @ part for some, part in zip(rows, self.parts, strict=True)]).sum(0).T
        return torch.cat([product - self.mean[:, None] * total, total]).reshape(-1, *errors.shape[1:])

    def hessian(self, importance: torch.Tensor) -> torch.Tensor:
        """Sum of ``importance`` (n,) times ``x x^T`` over the examples: (r, r), lower triangle."""
        _, r = self.shape
        total = torch.zeros(r, r, device=self.mean.device)
        # One buffer for all chunks: with arrays of their own they leave holes in the heap, gigabytes in all.
        buffer = self.mean.new_empty(max(1, CHUNK_ELEMENTS // r), r)
        for part, weights in zip(self.parts, importance.split([len(part) for part in self.parts]), strict=True):
            for some in weights.nonzero()[:, 0].split(len(buffer)):
                rows = buffer[: len(some)]
                torch.index_select(part, 0, some, out=rows[:, :-1])
                rows[:, :-1] -= self.mean
                rows[:, -1] = 1
                total = _add_gram(total, rows.mul_(weights[some, None].sqrt()))
        return total

    def _reduced(self, chosen: torch.Tensor) -> torch.Tensor:
        """Coordinates (n, m) of the examples in the span of the ``m`` chosen ones."""
        n, d = len(chosen), len(self.mean)
        gram = torch.zeros(n, int(chosen.sum()), dtype=torch.float64, device=chosen.device)
        for some in torch.arange(d, device=chosen.device).split(max(1, CHUNK_ELEMENTS // n)):
            columns = torch.cat([part[:, some] for part in self.parts]).double() - self.mean[some]
            gram.addmm_(columns, columns[chosen].T)
        own = gram[chosen]
        own.diagonal().add_(1e-10 * own.diagonal().mean())  # examples that are combinations of others
        factor = torch.linalg.cholesky(own)
        return torch.linalg.solve_triangular(factor.T, gram, upper=True, left=False).float()


def _add_gram(total: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """``total + part^T part``, of which only the lower triangle counts."""
    if part.is_cuda:
        return total.addmm_(part.T, part)
    update = ssyrk if part.dtype == torch.float32 else dsyrk
    # BLAS counts columns first, where the lower triangle is our upper one and ``part`` is its transpose.
    return torch.from_numpy(update(1, part.numpy().T, beta=1, c=total.numpy().T, overwrite_c=1, lower=0).T)


def _factor(matrix: torch.Tensor, ridge: float) -> torch.Tensor:
    """Cholesky factor (r, r) ``L`` of ``matrix + ridge I``, lower triangle; float32 may need a larger ridge."""
    ridge += 1e-6 * float(matrix.diagonal().mean())
    while True:
        # LAPACK counts columns first: to it this is the upper triangle, which it factors in place.
        factor = matrix.clone().T
        factor.diagonal().add_(ridge)
        info = torch.empty(0, dtype=torch.int32, device=matrix.device)
        if not torch.linalg.cholesky_ex(factor, upper=True, out=(factor, info)).info:
            return factor.T
        ridge *= 10


def _solve(factor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """``(L L^T)^-1`` of values (r, k), for a factor ``L``, which ``torch.cholesky_solve`` would copy."""
    half = torch.linalg.solve_triangular(factor, values, upper=False)
    return torch.linalg.solve_triangular(factor.T, half, upper=True)


def fit_logistic(
    design: Design, labels: np.ndarray, training: np.ndarray, strengths: Sequence[float], one_vs_rest: bool = False
) -> Fits:
    """Fit a logistic regression for each training part and each strength, all in the same coordinates.

    Each minimises ``sum of log losses over its examples + |w|^2 / (2 C)``. By default the intercept is free and
    more than two classes have a softmax, as in scikit-learn's ``LogisticRegression``; ``one_vs_rest`` gives every
    class a problem of its own and the intercept a penalty, as liblinear does (the design is then not centred).

    Strengths are taken in turn. At each, one *pilot* learns from all parts together, starting where the last
    strength's ended; the Hessian at its minimum is nearly that of every part, so its Cholesky factor
    preconditions the L-BFGS of all parts at once (two matrix products a step), which start where the pilot
    moved since the last strength says. With one part, all strengths are solved at once instead. Products are
    float32, sums of losses float64. A problem is finished when the gain that its next step promises (half of minus its
    slope) is below ``TOLERANCE`` of its objective. So is one whose last ten steps gained less than a tenth of that
    each: in thousands of dimensions float32 may promise what rounding then takes.

    Args:
        design: of the features of ``n`` examples.
        labels: (n,) classes 0..K-1.
        training: (F, n) bool, the examples of each part.
        strengths: (S,) inverse penalties ``C``, ascending.
        one_vs_rest: see above.

    Raises:
        InputError: if a part lacks a class.
    """
    classes = int(labels.max()) + 1
    for part, chosen in enumerate(training):
        if len(np.unique(labels[chosen])) < classes:
            raise InputError(f"training part {part} has no example of some class; use fewer folds or more examples")
    columns = 1 if classes == 2 else classes
    device = design.mean.device
    goals = torch.from_numpy(np.ascontiguousarray(labels, dtype=np.int64)).to(device)
    goals = goals[:, None].float() if columns == 1 else torch.nn.functional.one_hot(goals, columns).float()
    parts = torch.from_numpy(np.ascontiguousarray(training.T)).to(device).float()
    setting = _Setting(design, goals, columns > 1 and not one_vs_rest, not one_vs_rest)
    if len(training) == 1:
        inverse = _Rough(design, parts[:, 0])
        blocks = [strengths[i : i + inverse.at_once] for i in range(0, len(strengths), inverse.at_once)]
        found = (setting.solve(parts.expand(-1, len(some)), some, inverse, setting.zero) for some in blocks)
        arrays = zip(*(each.as_arrays() for each in found), strict=True)
        return Fits(*(np.concatenate(values)[None] for values in arrays))
    path = _path(setting, parts, strengths)
    return Fits(*(np.stack(values, axis=1) for values in zip(*(each.as_arrays() for each in path), strict=True)))


def _path(setting: "_Setting", parts: torch.Tensor, strengths: Sequence[float]) -> Iterator["_Solved"]:
    """All parts (n, F) solved for each strength in turn."""
    everything = parts.amax(1)
    share = float(parts.mean() / everything.mean())
    inverse: _Rough | _Weighted = _Rough(setting.design, everything)
    pilot, points = setting.zero, setting.zero
    for strength in strengths:
        before, pilot = pilot, setting.solve(everything[:, None], [strength], inverse, pilot).point
        inverse = _Weighted(setting, pilot.logits[..., 0], everything * share, 1 / strength)
        solved = setting.solve(parts, [strength] * parts.shape[1], inverse, points.moved(before, pilot))
        points = solved.point
        yield solved


@dataclass(frozen=True)
class _Setting:
    """What problems have in common: a design (n, r), the goals (n, K) of the probabilities, and the kind of problem."""

    design: Design
    goals: torch.Tensor
    softmax: bool
    free_intercept: bool

    @property
    def zero(self) -> "_Point":
        """The start of all, for any number of problems."""
        _, r = self.design.shape
        return _Point(self.goals.new_zeros(r, self.goals.shape[1], 1), torch.zeros_like(self.goals)[..., None])

    def solve(
        self, training: torch.Tensor, strengths: Sequence[float], inverse: "_Rough | _Weighted", start: "_Point"
    ) -> "_Solved":
        """Problems that learn from ``training`` (n, P) with strengths (P,), as many at a time as memory allows."""
        (n, r), problems = self.design.shape, len(strengths)
        ridge = (
            (1 / torch.tensor(strengths, dtype=torch.float32, device=training.device)).expand(r, 1, problems).clone()
        )
        if self.free_intercept:
            ridge[-1] = 0
        start = start.repeated(problems)
        size = max(1, BLOCK_ELEMENTS // ((n * 4 + r * (2 * MEMORY + 4)) * self.goals.shape[1]))
        blocks = []
        for some in torch.arange(problems, device=training.device).split(size):
            blocks.append(_Problems(self, training[:, some], ridge[..., some], inverse, start[some]))
            blocks[-1].solve()
        point = _Point(*(torch.cat([getattr(b.point, x) for b in blocks], -1) for x in ("weights", "logits")))
        rest = (torch.cat([getattr(b, x) for b in blocks]) for x in ("objectives", "iterations", "converged"))
        return _Solved(point, *rest)


@dataclass(frozen=True)
class _Solved:
    """Minima of problems and what ``Fits`` has of them, each (P,)."""

    point: "_Point"
    objectives: torch.Tensor
    iterations: torch.Tensor
    converged: torch.Tensor

    def as_arrays(self) -> list[np.ndarray]:
        """Logits (P, n, K) and the rest."""
        values = (self.point.logits.permute(2, 0, 1), self.objectives, self.iterations, self.converged)
        return [value.cpu().numpy() for value in values]


class _Point:
    """Weights (r, K, P) and the logits (n, K, P) that they give."""

    def __init__(self, weights: torch.Tensor, logits: torch.Tensor) -> None:
        self.weights, self.logits = weights, logits

    def __getitem__(self, which: slice | torch.Tensor) -> "_Point":
        return _Point(self.weights[..., which], self.logits[..., which])

    def repeated(self, problems: int) -> "_Point":
        """The same start for several problems, where it is one."""
        return _Point(*(x.expand(-1, -1, problems).clone() for x in (self.weights, self.logits)))

    def moved(self, start: "_Point", end: "_Point") -> "_Point":
        """As far from here as another point has moved."""
        return _Point(self.weights + (end.weights - start.weights), self.logits + (end.logits - start.logits))


class _Rough:
    """Inverse of ``s (X^T X + ridge / s)`` where ``s`` is a column's mean certainty; ``ridge / s`` is rounded.

    So a handful of Cholesky factors serve all columns and strengths. Of large ones few are kept, and rounding is
    coarser, so that they need not be made again and again.

    Attributes:
        at_once: strengths that may be solved together.
    """

    def __init__(self, design: Design, training: torch.Tensor) -> None:
        rows = training.nonzero()[:, 0]
        chosen = rows[:: max(1, len(rows) // (HESSIAN_EXAMPLES * design.shape[1]))]
        importance = torch.zeros_like(training)
        importance[chosen] = len(rows) / len(chosen)
        self.count = len(rows)
        self.gram = design.hessian(importance)
        self.factors: dict[float, torch.Tensor] = {}
        self.most = max(1, FACTOR_ELEMENTS // len(self.gram) ** 2)
        self.at_once = max(1, self.most // 2)
        self.base = 4.0 if self.most > FEW_FACTORS else 16.0

    def __call__(self, q: torch.Tensor, certainty: torch.Tensor, ridge: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(q)
        scales = (certainty / self.count).clamp_min(1e-6)
        levels = (ridge / scales).log2().div(math.log2(self.base)).round()
        for level in levels.unique().tolist():
            here = levels == level
            result[:, here] = _solve(self.factor(level), q[:, here]) / scales[here]
        return result

    def factor(self, level: float) -> torch.Tensor:
        """Cholesky factor with a ridge of ``base ** level``; of too many that which was not used for longest goes."""
        found = self.factors.pop(level, None)
        if found is None:
            while len(self.factors) >= self.most:
                del self.factors[next(iter(self.factors))]
            found = _factor(self.gram, self.base**level)
        self.factors[level] = found
        return found


class _Weighted:
    """Inverse of the Hessian at a pilot's logits (n, K), a block for each column, of examples weighted by (n,)."""

    def __init__(self, setting: _Setting, logits: torch.Tensor, training: torch.Tensor, ridge: float) -> None:
        shares = logits.softmax(1) if setting.softmax else logits.sigmoid()
        importance = shares * (1 - shares) * training[:, None]
        self.factors = [_factor(setting.design.hessian(column), ridge) for column in importance.T.contiguous()]

    def __call__(self, q: torch.Tensor, certainty: torch.Tensor, ridge: torch.Tensor) -> torch.Tensor:
        return torch.stack([_solve(factor, q[:, k]) for k, factor in enumerate(self.factors)], dim=1)


class _Problems:
    """Problems solved together, by preconditioned L-BFGS; those that finish leave, so that the products shrink.

    Made from training examples (n, P), the ridge (r, 1, P) and a start. Problems are the last dimension: what is done
    per element runs along it.
    """

    def __init__(
        self,
        setting: _Setting,
        training: torch.Tensor,
        ridge: torch.Tensor,
        inverse: "_Rough | _Weighted",
        start: _Point,
    ) -> None:
        self.design, self.softmax = setting.design, setting.softmax
        self.goals, self.signs = setting.goals[..., None], 1 - 2 * setting.goals[..., None]
        self.training, self.ridge, self.inverse = training[:, None], ridge, inverse
        problems = training.shape[1]
        self.active = _Point(start.weights.clone(), start.logits.clone())
        self.point = _Point(start.weights.clone(), start.logits.clone())
        self.history: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self.number = torch.arange(problems, device=training.device)
        self.objectives = torch.zeros(problems, dtype=torch.float64, device=training.device)
        self.iterations = torch.full((problems,), MAX_ITERATIONS)
        self.converged = torch.zeros(problems, dtype=torch.bool)

    def solve(self) -> None:
        """Fill ``point``, ``objectives``, ``iterations`` and ``converged`` of every problem."""
        losses, errors = self.losses(self.active.logits)
        gradient, certainty = self.derivatives(errors)
        least, idle = torch.full_like(losses, torch.inf), torch.zeros_like(losses)
        for iteration in range(MAX_ITERATIONS):
            objectives = losses + _sum(self.ridge * self.active.weights**2) / 2
            direction = self.direction(gradient, certainty)
            slope = _sum(gradient * direction)
            idle = torch.where(least - objectives > TOLERANCE / 10 * objectives, 0, idle + 1)
            least = torch.minimum(least, objectives)
            done = (-slope / 2 <= TOLERANCE * objectives) | (idle >= IDLE_STEPS)
            if done.any():
                self.record(done, objectives, iteration, True)
                keep = ~done
                if not keep.any():
                    return
                losses, least, idle, slope = losses[keep], least[keep], idle[keep], slope[keep]
                gradient, direction = gradient[..., keep], direction[..., keep]
                self.keep(keep)
            step, losses, errors = self.search(direction, slope, losses)
            self.active.weights += step
            before = gradient
            gradient, certainty = self.derivatives(errors)
            self.remember(step, gradient - before)
        objectives = losses + _sum(self.ridge * self.active.weights**2) / 2
        self.record(torch.ones_like(losses, dtype=torch.bool), objectives, MAX_ITERATIONS, False)

    def losses(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Sums of the log losses over the training examples, (P,), and their derivatives by the logits, (n, K, P).

        A loss is ``softplus(against)``, where ``against`` is what the other classes have over the right one: so small
        losses and derivatives keep their digits.
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

    def derivatives(self, errors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradient (r, K, P) of the objectives, and each column's sum of ``p (1 - p)``, (K, P)."""
        certainty = (errors.abs() - errors.square()).sum(0)
        return self.design.gradient(errors) + self.ridge * self.active.weights, certainty

    def direction(self, gradient: torch.Tensor, certainty: torch.Tensor) -> torch.Tensor:
        """The L-BFGS direction, (r, K, P): Nocedal and Wright (2006), algorithm 7.4."""
        q = -gradient
        parts = []
        for s, y, inverse in reversed(self.history):
            part = (_sum(s * q) * inverse).float()
            q -= part * y
            parts.append(part)
        q = self.inverse(q, certainty, self.ridge[0, 0])
        if self.softmax:
            # A softmax does not see what is added to all its columns; nor should a step have any of it.
            q -= q.mean(1, keepdim=True)
        for (s, y, inverse), part in zip(self.history, reversed(parts), strict=True):
            q += s * (part - _sum(y * q) * inverse).float()
        return q

    def remember(self, step: torch.Tensor, change: torch.Tensor) -> None:
        curvature = _sum(step * change)
        # A step lost to rounding teaches nothing: its pair has no weight.
        inverse = torch.where(curvature > 1e-12, 1 / curvature, 0.0)
        self.history = [*self.history, (step, change, inverse)][-MEMORY:]

    def search(
        self, direction: torch.Tensor, slope: torch.Tensor, losses: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Halve each problem's step until it gains; returns steps (r, K, P), new losses (P,) and their derivatives.

        The logits are linear in the step, so a trial needs no matrix product.
        """
        moved = self.design.logits(direction)
        penalty = _sum(self.ridge * self.active.weights * direction)
        bend = _sum(self.ridge * direction**2) / 2
        size = torch.ones_like(slope)
        for _ in range(30):
            new, errors = self.losses(self.active.logits + size.float() * moved)
            gain = losses - new - size * penalty - size**2 * bend
            short = gain < -1e-4 * size * slope - TOLERANCE * losses
            if not short.any():
                break
            size = torch.where(short, size / 2, size)
        self.active.logits += size.float() * moved
        return size.float() * direction, new, errors

    def record(self, which: torch.Tensor, objectives: torch.Tensor, iteration: int, converged: bool) -> None:
        numbers = self.number[which]
        self.point.weights[..., numbers] = self.active.weights[..., which]
        self.point.logits[..., numbers] = self.active.logits[..., which]
        self.objectives[numbers] = objectives[which]
        self.iterations[numbers.cpu()] = iteration
        self.converged[numbers.cpu()] = converged

    def keep(self, which: torch.Tensor) -> None:
        self.number, self.active = self.number[which], self.active[which]
        self.training, self.ridge = self.training[..., which], self.ridge[..., which]
        self.history = [(s[..., which], y[..., which], inverse[which]) for s, y, inverse in self.history]


def _sum(values: torch.Tensor) -> torch.Tensor:
    """Sums over everything but the problems, float64: (r, K, P) to (P,)."""
    return values.sum((0, 1), dtype=torch.float64)


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


@dataclass(frozen=True)
class RelatednessTraining:
    """How a relatedness model is trained: Adam (1e-3), stopped by the Pearson correlation on dev.

    Attributes:
        loss: ``squared error`` of the probabilities, or ``cross-entropy``, against the soft labels.
        batch: examples of a step.
        shuffled: whether every epoch has an order of its own.
        epochs: between two looks at dev.
        misses: looks without a gain, in all, at which training ends.
        most: no look after more epochs than this.
        glorot: weights from Glorot and Bengio's (2010) uniform distribution and intercepts 0, not torch's.
    """

    loss: str
    batch: int
    shuffled: bool
    epochs: int
    misses: int
    most: int
    glorot: bool


SENTEVAL_RELATEDNESS = RelatednessTraining("squared error", 64, True, 50, 4, 1000, False)
# Keras (2015) by default has batches of 128, 100 epochs a call of ``fit``, and Glorot's weights.
KIROS_RELATEDNESS = RelatednessTraining("cross-entropy", 128, False, 100, 1, 100_000, True)


def fit_relatedness(
    features: dict[str, np.ndarray],
    scores: dict[str, np.ndarray],
    order: np.ndarray,
    seed: int,
    training: RelatednessTraining = SENTEVAL_RELATEDNESS,
) -> tuple[float, np.ndarray]:
    """A softmax layer fitted to soft labels, whose expected class is a pair's score.

    The best model by the Pearson correlation on dev is kept (SentEval, ``senteval/tools/relatedness.py``;
    skip-thoughts, ``eval_sick.py``).

    Args:
        features: (n, d) of ``train``, ``dev`` and ``test`` each.
        scores: (n,) gold scores in 0..5, of ``train`` and ``dev`` at least.
        order: (n,) rows of ``train``, in the order that is taken or shuffled.
        seed: for the first weights and the order of the examples.
        training: loss, batches and stopping.

    Returns:
        The best dev Pearson correlation and the log-probabilities of the test examples, (t, 5) float64.

    Raises:
        InputError: if the dev correlation is undefined, as for vectors that are all equal.
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
    loss = torch.nn.functional.mse_loss if training.loss == "squared error" else _soft_cross_entropy

    def logs(split: str) -> np.ndarray:
        with torch.no_grad():
            return layer(inputs[split]).double().log_softmax(1).cpu().numpy()

    best, best_test, misses, epochs = -np.inf, np.empty(0), 0, 0
    while misses < training.misses and epochs <= training.most:
        for _ in range(training.epochs):
            rows = order[shuffling.permutation(len(order))] if training.shuffled else order
            for chosen in torch.from_numpy(rows).to(device).split(training.batch):  # which fit into the cache
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
    """The scores (n,) of log-probabilities (n, K) of classes from 1; equal ones get equal scores, to the last bit."""
    return (np.exp(logs) * np.arange(1, logs.shape[1] + 1)).sum(1)


def _soft_cross_entropy(shares: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean over the examples; probabilities are kept from 0 as Keras keeps them."""
    return -(targets * shares.clamp(1e-7, 1 - 1e-7).log()).sum(1).mean()


def correlation(kind: str, predicted: np.ndarray, gold: np.ndarray) -> float:
    """Pearson or Spearman correlation of two (n,) arrays.

    Raises:
        InputError: where it is undefined: fewer than two values, or all values equal.
    """
    for name, values in (("predicted", predicted), ("gold", gold)):
        # Equal vectors may get scores that differ by float32's rounding.
        if len(values) < 2 or np.ptp(values) <= 1e-6 * np.abs(values).max():
            raise InputError(f"the correlation of {len(values)} scores is undefined: the {name} ones do not differ")
    return float((pearsonr if kind == "pearson" else spearmanr)(predicted, gold)[0])
