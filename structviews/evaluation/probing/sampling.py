"""Select examples: assign documents and words to parts, and balance classes."""

import numpy as np

from structviews.runtime.arrays import Array

PARTS = ("tr", "va", "te")
SHARES = (0.7, 0.15, 0.15)
LEFT_OUT = -1
MOST_CORRELATION = 0.1


def deal_documents(documents: Array, rng: np.random.Generator) -> Array:
    """Assign sentences to parts, 0 to 2 as in ``PARTS``, by their ``documents`` (B,), each of which stays whole."""
    names, index, counts = np.unique(documents, return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    # A document goes to the part that its middle sentence falls into in this order.
    middle = np.cumsum(counts[order]) - counts[order] / 2
    part = np.empty(len(names), dtype=np.int64)
    part[order] = np.searchsorted(np.cumsum(SHARES)[:-1], middle / counts.sum(), side="right")
    return part[index]


def deal_words(words: Array, parts: Array, rng: np.random.Generator) -> Array:
    """Assign each target word to the part where it is most frequent, relative to the part's size.

    So no word is a target in two parts, and rare words, which are the majority, lose few examples. Of the target words
    (k,) and the parts (k,) of their documents, returns which examples stay, (k,) bool.
    """
    names, index = np.unique(words, return_inverse=True)
    counts = np.bincount(index * len(PARTS) + parts, minlength=len(names) * len(PARTS)).reshape(-1, len(PARTS))
    density = counts / np.bincount(parts, minlength=len(PARTS)).clip(1)
    home = (density + 1e-12 * rng.random(density.shape)).argmax(axis=1)
    return home[index] == parts


def balance(labels: Array, strata: Array, parts: Array, most: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Sample examples so that in every part and stratum all classes are equally frequent.

    ``labels``, ``strata`` and ``parts`` (k,) are those of each example; a stratum, from 0, is a property that must not
    predict the class. ``most`` is the maximum number of examples in each part. Returned as by :func:`draw`.
    """
    n_classes, n_strata = int(labels.max(initial=0)) + 1, int(strata.max(initial=0)) + 1
    cells = (parts * n_strata + strata) * n_classes + labels
    available = np.bincount(cells[parts >= 0], minlength=len(PARTS) * n_strata * n_classes)
    quota = available.reshape(len(PARTS), n_strata, n_classes).min(axis=2)
    fraction = np.minimum(1, np.array(most) / (n_classes * quota.sum(axis=1)).clip(1))
    quota = quota * fraction[:, None]
    # Rounded down; the remainder goes to the strata with the largest fractions.
    whole = np.floor(quota + 1e-9).astype(np.int64)
    wanted = np.minimum(np.round(quota.sum(axis=1)).astype(np.int64), np.array(most) // n_classes)
    spare = wanted - whole.sum(axis=1)
    ranks = np.argsort(np.argsort(whole - quota, axis=1, kind="stable"), axis=1, kind="stable")
    whole += (ranks < spare[:, None]) & (quota > whole)
    return draw(cells, np.repeat(whole.ravel(), n_classes), parts, rng)


def draw(cells: Array, quotas: Array, parts: Array, rng: np.random.Generator) -> Array:
    """Draw the quota of examples of each cell; returned by part, in random order within a part.

    ``cells`` and ``parts`` (k,) are those of each example; part -1 is never selected. ``quotas`` (c,) are the cells'.
    """
    shuffled = rng.permutation(np.flatnonzero(parts >= 0))
    by_cell = shuffled[np.argsort(cells[shuffled], kind="stable")]
    rank = np.arange(len(by_cell)) - np.searchsorted(cells[by_cell], cells[by_cell])
    taken = rng.permutation(by_cell[rank < quotas[cells[by_cell]]])
    return taken[np.argsort(parts[taken], kind="stable")]


def decorrelate(available: Array, most: int) -> Array:
    """How many examples, ``most`` in all, to take from each cell so that row and column are nearly uncorrelated.

    After Conneau et al. (2018), who sampled a subset that matches a bivariate Gaussian with diagonal covariance: quotas
    follow the product of two Gaussians with the means and deviations of rows and columns, capped at the ``available``
    examples (rows, columns). Larger samples are capped more. Returns the largest sample with a correlation of at most
    0.1, or the one with the smallest correlation if there is none.
    """
    target = np.outer(*(_gaussian(available.sum(axis=axis)) for axis in (1, 0)))
    sizes = most * 0.9 ** np.arange(80)
    quotas: list[Array] = [np.minimum(available, np.round(size * target).astype(np.int64)) for size in sizes]
    correlations = [abs(correlation(quota)) for quota in quotas]
    good = [quota for quota, r in zip(quotas, correlations, strict=True) if r <= MOST_CORRELATION]
    return good[0] if good else quotas[int(np.argmin(correlations))]


def correlation(counts: Array) -> float:
    """Pearson correlation of row and column index in a table of counts; 1 if undefined."""
    total = counts.sum()
    rows, columns = np.indices(counts.shape)
    if not total:
        return 1.0
    row, column = rows - (counts * rows).sum() / total, columns - (counts * columns).sum() / total
    spread = np.sqrt((counts * row**2).sum() * (counts * column**2).sum())
    return float((counts * row * column).sum() / spread) if spread else 1.0


def _gaussian(counts: Array) -> Array:
    """Gaussian with the mean and deviation of the counts, evaluated at each index and normalised to sum 1."""
    positions = np.arange(len(counts))
    mean = np.average(positions, weights=counts)
    deviation = np.sqrt(np.average((positions - mean) ** 2, weights=counts))
    density = np.exp(-((positions - mean) ** 2) / (2 * max(deviation, 1e-9) ** 2))
    return density / density.sum()
