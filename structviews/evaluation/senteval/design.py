"""The features of the evaluation's classifiers, the products with them that the solver needs, and its preconditioners.

Shapes: n examples, d features, r = d + 1 weights per column (the last is the intercept), m examples for training,
K score columns, P problems.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from scipy.linalg.blas import ssyrk

from structviews.runtime.device import best_device, to_tensor

CHUNK_ELEMENTS = 1 << 22  # most feature values copied at a time
FACTOR_ELEMENTS = 42 * 10**7  # most numbers held in cached Cholesky factors (1.7 GB), unless a single one is larger
FEW_FACTORS = 4
HESSIAN_EXAMPLES = 4  # examples per weight used to estimate the rough Hessian
NEGLIGIBLE = 0.02  # share of the importance that a Hessian may lack: half of the examples have less, at high strengths


class Design:
    """The feature matrix with intercept that all problems share; on the GPU if there is one.

    Args:
        features: blocks (n_i, d) that together form the (n, d) matrix; on the CPU, float32 blocks are not copied. A
            block without training examples takes no part in the products, but for the final logits.
        training: (n,) bool, the examples used for training by any problem. The weights are linear combinations
            of these m examples, so if m < d / 2 the features are replaced by m coordinates that preserve all
            inner products with them (Cholesky factor of the Gram matrix, float64).
        centred: subtract the mean for better conditioning; an unpenalised intercept absorbs it. Do not use with a
            penalised intercept.
    """

    def __init__(self, features: Sequence[np.ndarray], training: np.ndarray, centred: bool = True) -> None:
        device = best_device()
        self.blocks = [to_tensor(np.asarray(x, np.float32)).to(device) for x in features]
        sizes = [len(block) for block in self.blocks]
        n, d = sum(sizes), self.blocks[0].shape[1]
        # In chunks: summing in float64 first makes a float64 copy.
        rows = (some for block in self.blocks for some in block.split(max(1, CHUNK_ELEMENTS // d)))
        total = torch.stack([some.sum(0, dtype=torch.float64) for some in rows]).sum(0)
        self.mean = (total / n).float() if centred else torch.zeros(d, device=device)
        chosen = torch.from_numpy(training).to(device)
        m = int(chosen.sum())
        if d > 2 * m:  # otherwise it costs more than it saves
            self.blocks = list(self._reduced(chosen).split(sizes))
            self.mean = torch.zeros(m, device=device)
        self.learnt = [bool(some.any()) for some in chosen.split(sizes)]
        self.parts = [block for block, learnt in zip(self.blocks, self.learnt, strict=True) if learnt]
        self.rows = np.repeat(self.learnt, sizes)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of examples in the parts, and of weights per column, ``(n, r)``."""
        return sum(map(len, self.parts)), len(self.mean) + 1

    def logits(self, weights: torch.Tensor, blocks: Sequence[torch.Tensor] = ()) -> torch.Tensor:
        """Weights (r, ...) to logits (n, ...) of the parts, or of other blocks."""
        flat = weights.flatten(1)
        # With few columns, both products are several times faster when transposed.
        product = torch.cat([flat[:-1].T @ block.T for block in blocks or self.parts], dim=1).T
        return (product + (flat[-1] - self.mean @ flat[:-1])).reshape(-1, *weights.shape[1:])

    def all_logits(self, weights: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Logits of the examples of all blocks, given those (n, ...) of the parts and the weights (r, ...)."""
        of_parts = iter(logits.split([len(part) for part in self.parts]))
        each = zip(self.blocks, self.learnt, strict=True)
        return torch.cat([next(of_parts) if learnt else self.logits(weights, [block]) for block, learnt in each])

    def gradient(self, errors: torch.Tensor) -> torch.Tensor:
        """Derivatives (n, ...) by the logits to the gradient (r, ...)."""
        flat = errors.flatten(1)
        total = flat.sum(0, keepdim=True)
        rows = flat.split([len(part) for part in self.parts])
        product = torch.stack([some.T @ part for some, part in zip(rows, self.parts, strict=True)]).sum(0).T
        return torch.cat([product - self.mean[:, None] * total, total]).reshape(-1, *errors.shape[1:])

    def hessian(self, importance: torch.Tensor) -> torch.Tensor:
        """Sum over the examples of ``x x^T``, weighted by ``importance`` (n,): (r, r), lower triangle."""
        _, r = self.shape
        total = torch.zeros(r, r, device=self.mean.device)
        # One buffer for all chunks: separate arrays would fragment the heap by gigabytes.
        buffer = self.mean.new_empty(max(1, CHUNK_ELEMENTS // r), r)
        for part, weights in zip(self.parts, importance.split([len(part) for part in self.parts]), strict=True):
            for some in weights.nonzero()[:, 0].split(len(buffer)):
                rows = buffer[: len(some)]
                torch.index_select(part, 0, some, out=rows[:, :-1])
                rows[:, :-1] -= self.mean
                rows[:, -1] = 1
                rows.mul_(weights[some, None].sqrt())
                if rows.is_cuda:
                    total.addmm_(rows.T, rows)
                else:
                    # BLAS is column-major: our lower triangle is its upper one, and ``rows`` its transpose.
                    added = ssyrk(1, rows.numpy().T, beta=1, c=total.numpy().T, overwrite_c=1, lower=0)
                    total = torch.from_numpy(added.T)
        return total

    def _reduced(self, chosen: torch.Tensor) -> torch.Tensor:
        """Coordinates (n, m) of all examples in the span of the ``m`` chosen ones."""
        n, d = len(chosen), len(self.mean)
        gram = torch.zeros(n, int(chosen.sum()), dtype=torch.float64, device=chosen.device)
        for some in torch.arange(d, device=chosen.device).split(max(1, CHUNK_ELEMENTS // n)):
            columns = torch.cat([block[:, some] for block in self.blocks]).double() - self.mean[some]
            gram.addmm_(columns, columns[chosen].T)
        own = gram[chosen]
        own.diagonal().add_(1e-10 * own.diagonal().mean())  # for linearly dependent examples
        factor = torch.linalg.cholesky(own)
        coordinates: torch.Tensor = torch.linalg.solve_triangular(factor.T, gram, upper=True, left=False)
        return coordinates.float()


class Rough:
    """Inverse of ``s (X^T X + ridge / s)``, where ``s`` is a column's mean certainty; ``ridge / s`` is rounded.

    Because of the rounding, a handful of Cholesky factors serve all columns and strengths. If factors are large, only
    a few are cached and the rounding is coarser, so that they are not recomputed repeatedly.
    """

    def __init__(self, design: Design, training: torch.Tensor) -> None:
        rows = training.nonzero()[:, 0]
        chosen = rows[:: max(1, len(rows) // (HESSIAN_EXAMPLES * design.shape[1]))]
        importance = torch.zeros_like(training)
        importance[chosen] = len(rows) / len(chosen)
        self.count = len(rows)
        self.gram = design.hessian(importance)
        self.factors: dict[float, torch.Tensor] = {}  # by level, the least recently used first
        self.most = max(1, FACTOR_ELEMENTS // len(self.gram) ** 2)
        self.at_once = max(1, self.most // 2)  # strengths to solve together
        self.base = 4.0 if self.most > FEW_FACTORS else 16.0

    def __call__(self, q: torch.Tensor, certainty: torch.Tensor, ridge: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(q)
        scales = (certainty / self.count).clamp_min(1e-6)
        levels = (ridge / scales).log2().div(math.log2(self.base)).round()
        for level in levels.unique().tolist():
            factor = self.factors.pop(level, None)
            if factor is None:
                while len(self.factors) >= self.most:  # before the new one, which needs the memory
                    del self.factors[next(iter(self.factors))]
                factor = _factor(self.gram, self.base**level)
            self.factors[level] = factor
            here = levels == level
            result[:, here] = _solve(factor, q[:, here]) / scales[here]
        return result


class Weighted:
    """Inverse of the block-diagonal Hessian at a pilot's logits (n, K), a block per column, with example weights.

    It changes slowly along the path and costs as much as several steps, so only the ridge is that of each strength.
    """

    def __init__(self, design: Design, softmax: bool, logits: torch.Tensor, training: torch.Tensor) -> None:
        shares = logits.softmax(1) if softmax else logits.sigmoid()
        importance = shares * (1 - shares) * training[:, None]
        hessians = []
        for column in importance.T:  # without the examples that have least
            ascending = column.sort().values
            least = ascending[ascending.cumsum(0) >= NEGLIGIBLE * ascending.sum()][0]
            hessians.append(design.hessian(torch.where(column >= least, column, 0)))
        self.factors = lru_cache(1)(lambda ridge: [_factor(hessian, ridge) for hessian in hessians])

    def __call__(self, q: torch.Tensor, certainty: torch.Tensor, ridge: torch.Tensor) -> torch.Tensor:
        factors = self.factors(float(ridge[0]))
        return torch.stack([_solve(factor, q[:, k]) for k, factor in enumerate(factors)], dim=1)


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
    return torch.linalg.solve_triangular(factor.T, half, upper=True)
