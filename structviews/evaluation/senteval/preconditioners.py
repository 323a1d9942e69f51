"""Approximate inverses of the classifiers' Hessians, by which the solver preconditions its steps.

Shapes: n examples, r weights per column (the last is the intercept), K score columns, P problems.
"""

import math

import torch

from structviews.evaluation.senteval.design import Design

FACTOR_ELEMENTS = 42 * 10**7  # most numbers held in cached Cholesky factors (1.7 GB), unless a single one is larger
FEW_FACTORS = 4
HESSIAN_EXAMPLES = 4  # examples per weight used to estimate the rough Hessian
NEGLIGIBLE = 0.02  # share of the importance that a Hessian may lack: half of the examples have less, at high strengths


class Rough:
    """Inverse of ``s (X^T X + ridge / s)``, where ``s`` is a column's mean certainty; ``ridge / s`` is rounded.

    Because of the rounding, a handful of Cholesky factors serve all columns and strengths. If factors are large, only
    a few are cached and the rounding is coarser, so that they are not recomputed repeatedly.

    Attributes:
        at_once: most strengths to solve together.
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
        """Cholesky factor with a ridge of ``base ** level``, from a least-recently-used cache."""
        found = self.factors.pop(level, None)
        if found is None:
            while len(self.factors) >= self.most:
                del self.factors[next(iter(self.factors))]
            found = _factor(self.gram, self.base**level)
        self.factors[level] = found
        return found


class Weighted:
    """Inverse of the block-diagonal Hessian at a pilot's logits (n, K), a block per column, with example weights.

    It changes slowly along the path and costs as much as several steps, so only the ridge is that of each strength.
    """

    def __init__(self, design: Design, softmax: bool, logits: torch.Tensor, training: torch.Tensor) -> None:
        shares = logits.softmax(1) if softmax else logits.sigmoid()
        importance = shares * (1 - shares) * training[:, None]
        self.hessians = [design.hessian(_without_least(column)) for column in importance.T]
        self.ridge = math.nan
        self.factors: list[torch.Tensor] = []

    def __call__(self, q: torch.Tensor, certainty: torch.Tensor, ridge: torch.Tensor) -> torch.Tensor:
        if self.ridge != float(ridge[0]):
            self.ridge = float(ridge[0])
            self.factors = [_factor(hessian, self.ridge) for hessian in self.hessians]
        return torch.stack([_solve(factor, q[:, k]) for k, factor in enumerate(self.factors)], dim=1)


def _without_least(importance: torch.Tensor) -> torch.Tensor:
    """Importance (n,) of examples, but 0 for the least important ones, which together have a ``NEGLIGIBLE`` share."""
    ascending = importance.sort().values
    least = ascending[ascending.cumsum(0) >= NEGLIGIBLE * ascending.sum()][0]
    return torch.where(importance >= least, importance, 0)


def _factor(matrix: torch.Tensor, ridge: float) -> torch.Tensor:
    """Cholesky factor ``L`` (r, r) of ``matrix + ridge I``, lower triangle; raises the ridge where float32 needs it."""
    ridge += 1e-6 * float(matrix.diagonal().mean())
    while True:
        # LAPACK is column-major: to it this is the upper triangle, which it factors in place.
        factor = matrix.clone().T
        factor.diagonal().add_(ridge)
        info = torch.empty(0, dtype=torch.int32, device=matrix.device)
        if not torch.linalg.cholesky_ex(factor, upper=True, out=(factor, info)).info:
            return factor.T
        ridge *= 10


def _solve(factor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """``(L L^T)^-1 values`` for values (r, k); unlike ``torch.cholesky_solve``, does not copy the factor ``L``."""
    half = torch.linalg.solve_triangular(factor, values, upper=False)
    solved: torch.Tensor = torch.linalg.solve_triangular(factor.T, half, upper=True)
    return solved
