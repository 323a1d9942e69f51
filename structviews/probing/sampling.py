"""Which examples are taken: documents and words dealt to parts, classes balanced."""

import numpy as np

from structviews.arrays import Array

PARTS = ("tr", "va", "te")
SHARES = (0.7, 0.15, 0.15)
LEFT_OUT = -1
MOST_CORRELATION = 0.1


def deal_documents(documents: Array, rng: np.random.Generator) -> Array:
    """The part of each sentence, 0 to 2 as in ``PARTS``, the same for all sentences of a document.

    Args:
        documents: (B,) document of each sentence.
        rng: shuffles the documents.
    """
    names, index, counts = np.unique(documents, return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    # A document goes where its middle sentence falls when all stand in a row.
    middle = np.cumsum(counts[order]) - counts[order] / 2
    part = np.empty(len(names), dtype=np.int64)
    part[order] = np.searchsorted(np.cumsum(SHARES)[:-1], middle / counts.sum(), side="right")
    return part[index]


def deal_words(words: Array, parts: Array, rng: np.random.Generator) -> Array:
    """The part that each word's examples are taken from: where it has most of them, for the part's size.

    So no word is a target in two parts, and rare words, which are most, lose few examples.

    Args:
        words: (k,) target word of each example.
        parts: (k,) part of the example's document.
        rng: decides between equals.

    Returns:
        Whether each example is kept; (k,) bool.
    """
    names, index = np.unique(words, return_inverse=True)
    counts = np.bincount(index * len(PARTS) + parts, minlength=len(names) * len(PARTS)).reshape(-1, len(PARTS))
    density = counts / np.bincount(parts, minlength=len(PARTS)).clip(1)
    home = (density + 1e-12 * rng.random(density.shape)).argmax(axis=1)
    return home[index] == parts


def balance(labels: Array, strata: Array, parts: Array, most: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Examples such that in every part and stratum all classes are equally frequent.

    Args:
        labels: (k,) class of each example.
        strata: (k,) what must not give the class away, as a number from 0.
        parts: (k,) part of each example; those of none, -1, are never taken.
        most: how many examples each part may have.
        rng: draws the examples.

    Returns:
        The examples taken, by part, within it at random.
    """
    n_classes, n_strata = int(labels.max(initial=0)) + 1, int(strata.max(initial=0)) + 1
    cells = (parts * n_strata + strata) * n_classes + labels
    available = np.bincount(cells[parts >= 0], minlength=len(PARTS) * n_strata * n_classes)
    quota = available.reshape(len(PARTS), n_strata, n_classes).min(axis=2)
    fraction = np.minimum(1, np.array(most) / (n_classes * quota.sum(axis=1)).clip(1))
    quota = _rounded(quota * fraction[:, None], np.array(most) // n_classes)
    return draw(cells, np.repeat(quota.ravel(), n_classes), parts, rng)


def draw(cells: Array, quotas: Array, parts: Array, rng: np.random.Generator) -> Array:
    """As many examples of each cell as its quota says, by part, within it at random.

    Args:
        cells: (k,) cell of each example.
        quotas: (c,) how many of each cell.
        parts: (k,) part of each example; those of none, -1, are never taken.
        rng: draws.
    """
    shuffled = rng.permutation(np.flatnonzero(parts >= 0))
    by_cell = shuffled[np.argsort(cells[shuffled], kind="stable")]
    rank = np.arange(len(by_cell)) - np.searchsorted(cells[by_cell], cells[by_cell])
    taken = rng.permutation(by_cell[rank < quotas[cells[by_cell]]])
    return taken[np.argsort(parts[taken], kind="stable")]


def _rounded(quota: Array, most: Array) -> Array:
    """Quotas (parts, strata) as whole numbers; what rounding down lost goes to the strata that lost most."""
    whole = np.floor(quota + 1e-9).astype(np.int64)
    spare = np.minimum(np.round(quota.sum(axis=1)).astype(np.int64), most) - whole.sum(axis=1)
    order = np.argsort(whole - quota, axis=1, kind="stable")
    ranks = np.argsort(order, axis=1, kind="stable")
    return whole + ((ranks < spare[:, None]) & (quota > whole))


def decorrelate(available: Array, most: int) -> Array:
    """How many examples to take of each cell of a table so that row and column tell little of each other.

    After Conneau et al. (2018), who sampled a subset that matches a bivariate Gaussian with a diagonal covariance: the
    quotas follow the product of two Gaussians with the rows' and columns' means and deviations, as far as the examples
    go. The more are taken, the less far they go: this is the largest sample whose correlation is at most 0.1, else that
    with the smallest.

    Args:
        available: (rows, columns) how many examples there are.
        most: how many to take at most.

    Returns:
        (rows, columns) how many to take.
    """
    target = np.outer(*(_gaussian(available.sum(axis=axis)) for axis in (1, 0)))
    sizes = most * 0.9 ** np.arange(80)
    quotas = [np.minimum(available, np.round(size * target).astype(np.int64)) for size in sizes]
    correlations = [abs(correlation(quota)) for quota in quotas]
    good = [quota for quota, r in zip(quotas, correlations, strict=True) if r <= MOST_CORRELATION]
    return good[0] if good else quotas[int(np.argmin(correlations))]


def correlation(counts: Array) -> float:
    """Pearson correlation of row and column number in a table of counts; 1 where it is undefined."""
    total = counts.sum()
    rows, columns = np.indices(counts.shape)
    if not total:
        return 1.0
    row, column = rows - (counts * rows).sum() / total, columns - (counts * columns).sum() / total
    spread = np.sqrt((counts * row**2).sum() * (counts * column**2).sum())
    return float((counts * row * column).sum() / spread) if spread else 1.0


def _gaussian(counts: Array) -> Array:
    """Share of each place under the Gaussian that has the mean and deviation of the counts, scaled to sum 1."""
    places = np.arange(len(counts))
    mean = np.average(places, weights=counts)
    deviation = np.sqrt(np.average((places - mean) ** 2, weights=counts))
    density = np.exp(-((places - mean) ** 2) / (2 * max(deviation, 1e-9) ** 2))
    return density / density.sum()
