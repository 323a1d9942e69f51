"""Linear maps of images and captions into one space, where an image is to be nearer to its own captions than to others;
and the ranks there.

Two protocols: SentEval's (``senteval/rank.py``, ``senteval/tools/ranking.py``) and that of the skip-thought scripts
(Kiros et al. 2015; ``eval_rank.py`` of ryankiros/skip-thoughts), which quick-thoughts follows.
``docs/retrieval.md`` lists how they differ from the originals.

Shapes: n images, p = 5 n captions, B pairs in a batch, c contrastive examples per pair, d dimensions of the
projection.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from structviews.evaluation.retrieval.ranking import Ranks
from structviews.evaluation.scores.intervals import proportion
from structviews.runtime.device import best_device

DIM = 1000
MARGIN = 0.2
CAPTIONS = 5
FOLD = 1000
AMONG = (1, 5, 10)
MEDIAN = "median rank"
DIRECTIONS = ("image to text", "text to image")


@dataclass(frozen=True)
class CaptionProtocol:
    """How the maps are trained.

    Attributes:
        name: as in ``tasks captions --protocol``.
        batch: pairs in a batch.
        contrasts: other images, and other captions, for each pair.
        epochs: passes over the pairs, at most.
        lr: learning rate of Adam.
        seed: of the first weights and all draws.
        check_every: updates between scores on dev; 0 for one after each epoch.
        patience: stop at so many scores without a gain, in all; 0 for never.
        kiros: as the skip-thought scripts do: contrasts are drawn from all pairs, not only from outside the batch;
            images are scaled to length 1 for ranks only, not in the loss; first weights are uniform within
            sqrt(2 / inputs), first biases 0.
    """

    name: str
    batch: int
    contrasts: int
    epochs: int
    lr: float
    seed: int
    check_every: int = 0
    patience: int = 0
    kiros: bool = False

    def describe(self) -> dict[str, Any]:
        """For ``results.json``."""
        when = f"every {self.check_every} updates and at the end" if self.check_every else "after each epoch"
        stop = f"; ended by the {self.patience}th without a gain, in all" * bool(self.patience)
        return {
            "name": self.name,
            "margin": MARGIN,
            "projection": DIM,
            "batch": self.batch,
            "contrasts": self.contrasts,
            "optimiser": f"Adam, {self.lr:g}",
            "epochs": f"at most {self.epochs}",
            "dev": f"the recalls {when}{stop}",
            "seed": self.seed,
        }


CAPTION_PROTOCOLS = {
    each.name: each
    for each in (
        # SentEval counts its epochs to 20, from 0.
        CaptionProtocol("senteval", batch=128, contrasts=30, epochs=21, lr=1e-3, seed=1111, patience=4),
        CaptionProtocol("kiros", 100, contrasts=50, epochs=15, lr=2e-4, seed=1234, check_every=500, kiros=True),
    )
}


class Projections(nn.Module):
    """Linear maps of images and captions to unit vectors.

    Args:
        images: dimensions of the image features.
        captions: dimensions of the caption vectors.
        dim: d.
        kiros: see ``CaptionProtocol``.
    """

    def __init__(self, images: int, captions: int, dim: int, kiros: bool = False):
        super().__init__()
        self.of_images = nn.Linear(images, dim)
        self.of_captions = nn.Linear(captions, dim)
        for layer in (self.of_images, self.of_captions) if kiros else ():
            bound = (2 / layer.in_features) ** 0.5
            nn.init.uniform_(layer.weight, -bound, bound)
            nn.init.zeros_(layer.bias)

    def images(self, features: Tensor) -> Tensor:
        return normalize(self.of_images(features), dim=-1)

    def captions(self, vectors: Tensor) -> Tensor:
        return normalize(self.of_captions(vectors), dim=-1)


def ranking_loss(images: Tensor, captions: Tensor, other_images: Tensor, other_captions: Tensor) -> Tensor:
    """Hinge loss with ``MARGIN`` between the scores of pairs and of contrastive examples, summed.

    Args:
        images, captions: (B, d) pairs.
        other_images, other_captions: (B, c, d) contrastive examples for each pair.
    """
    pair = (images * captions).sum(dim=1, keepdim=True)
    wrong_caption = torch.einsum("bd,bcd->bc", images, other_captions)
    wrong_image = torch.einsum("bd,bcd->bc", captions, other_images)
    return (MARGIN - pair + wrong_caption).clamp(min=0).sum() + (MARGIN - pair + wrong_image).clamp(min=0).sum()


def image_ranks(scores: np.ndarray) -> Ranks:
    """Rank of each image's best own caption among all captions.

    Args:
        scores: (n, p) scores of images with captions, five per image, grouped by image.
    """
    n = len(scores)
    own = scores.reshape(n, n, CAPTIONS)[np.arange(n), np.arange(n)]
    best = own.max(axis=1, keepdims=True)
    level = (scores == best).sum(axis=1) - (own == best).sum(axis=1)
    return Ranks((scores > best).sum(axis=1), level + 1)


def caption_ranks(scores: np.ndarray) -> Ranks:
    """Rank of each caption's own image among all images; ``scores`` as in :func:`image_ranks`."""
    captions = np.arange(scores.shape[1])
    own = scores[captions // CAPTIONS, captions]
    return Ranks((scores > own).sum(axis=0), (scores == own).sum(axis=0))


def fold_means(ranks: Sequence[dict[str, Ranks]]) -> dict[str, float]:
    """R@k in per cent, and the median rank, rounded down as SentEval does, in both directions; means over folds."""
    scores = {}
    for way in DIRECTIONS:
        for k in AMONG:
            scores[f"{way} R@{k}"] = [100 * float(fold[way].recalled(k).mean()) for fold in ranks]
        scores[f"{way} {MEDIAN}"] = [float(np.floor(fold[way].median())) for fold in ranks]
    return {name: float(np.mean(values)) for name, values in scores.items()}


def recall_intervals(ranks: Sequence[dict[str, Ranks]]) -> dict[str, list[float]]:
    """95 % intervals of the recalls in per cent; the bootstrap draws images, each with its captions."""
    found = {}
    for way in DIRECTIONS:
        for k in AMONG:
            hits = np.concatenate([fold[way].recalled(k) for fold in ranks])
            share = proportion(hits, np.arange(len(hits)) // (1 if way == DIRECTIONS[0] else CAPTIONS))
            found[f"{way} R@{k}"] = [100 * share.low, 100 * share.high]
    return found


class Pairs(NamedTuple):
    """Images and the captions that go with them.

    Attributes:
        features: (n, ·) image features.
        captions: (p, ·) caption vectors, five per image, grouped by image.
    """

    features: Tensor
    captions: Tensor


@torch.no_grad()
def split_ranks(model: Projections, pairs: Pairs) -> list[dict[str, Ranks]]:
    """Ranks by direction, for each fold of 1,000 images, without the remainder; for all images if there are fewer."""
    device = next(model.parameters()).device
    features, vectors = pairs.features.to(device), pairs.captions.to(device)
    n, found = len(features), []
    for start in range(0, n - FOLD + 1, FOLD) or [0]:
        stop = min(start + FOLD, n)
        captions = model.captions(vectors[CAPTIONS * start : CAPTIONS * stop])
        scores = (model.images(features[start:stop]) @ captions.T).cpu().numpy()
        found.append(dict(zip(DIRECTIONS, (image_ranks(scores), caption_ranks(scores)), strict=True)))
    return found


def drawn_batches(n: int, protocol: CaptionProtocol, rng: np.random.Generator) -> Iterator[tuple[Tensor, ...]]:
    """The batches of an epoch over n pairs: the pairs (B,), and those (B, c) of the other images and other captions.

    The others are drawn with replacement, from outside the batch unless the protocol is that of Kiros.
    """
    permutation = rng.permutation(n)
    for start in range(0, n, protocol.batch):
        pairs = permutation[start : start + protocol.batch]
        left_out = 0 if protocol.kiros else len(pairs)
        contrasts = []
        for _ in range(2):
            drawn = rng.integers(n - left_out, size=(len(pairs), protocol.contrasts))
            contrasts.append(permutation[drawn + (drawn >= start) * left_out])
        yield tuple(torch.from_numpy(each) for each in (pairs, *contrasts))


def fit(
    train: Pairs, dev: Pairs, protocol: CaptionProtocol, progress: Callable[[str], None] = lambda stage: None
) -> tuple[Projections, float]:
    """Train the projections; returns those with the highest sum of recalls on dev, and that sum.

    Args:
        train: more pairs than a batch has.
        dev: selects the projections.
        protocol: how.
        progress: called with a description of each epoch.
    """
    device, rng, n = best_device(), np.random.default_rng(protocol.seed), len(train.captions)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(protocol.seed)
        model = Projections(train.features.shape[1], train.captions.shape[1], DIM, protocol.kiros).to(device)
    map_images = model.of_images if protocol.kiros else model.images
    optimiser = torch.optim.Adam(model.parameters(), lr=protocol.lr)
    best, best_model, without_gain, updates, last = -1.0, model, 0, 0, -(-n // protocol.batch)
    for epoch in range(1, protocol.epochs + 1):
        progress(f"epoch {epoch} of at most {protocol.epochs}, best sum of dev recalls {max(best, 0):.1f} of 600")
        for pair, other_images, other_captions in drawn_batches(n, protocol, rng):
            loss = ranking_loss(
                map_images(train.features[pair // CAPTIONS].to(device)),
                model.captions(train.captions[pair].to(device)),
                map_images(train.features[other_images // CAPTIONS].to(device)),
                model.captions(train.captions[other_captions].to(device)),
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            updates += 1
            if updates % (protocol.check_every or last) and updates < protocol.epochs * last:
                continue
            score = sum(value for name, value in fold_means(split_ranks(model, dev)).items() if "R@" in name)
            if score > best:
                best, best_model = score, copy.deepcopy(model)
            else:
                without_gain += 1
                if without_gain == protocol.patience:
                    return best_model, best
    return best_model, best
