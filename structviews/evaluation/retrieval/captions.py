"""Image-caption retrieval from precomputed image features (Kiros et al. 2014).

Linear maps of images and captions into one space are trained, where an image is to be nearer to its own captions than
to others; the scores are of the ranks there. Two protocols: SentEval's (``senteval/rank.py``,
``senteval/tools/ranking.py``) and that of the skip-thought scripts (Kiros et al. 2015; ``eval_rank.py`` of
ryankiros/skip-thoughts), which quick-thoughts follows. ``docs/retrieval.md`` lists how they differ from the originals.

Shapes: n images, p = 5 n captions, B pairs in a batch, c contrastive examples per pair, d dimensions of the
projection.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.retrieval.neighbours import Ranks
from structviews.evaluation.scores.intervals import proportion
from structviews.evaluation.scores.results import CAPTION_TASK
from structviews.evaluation.senteval.suite import OnStage
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks.reading import Tokens
from structviews.runtime.array_files import read_arrays
from structviews.runtime.arrays import Array
from structviews.runtime.device import best_device
from structviews.runtime.documents import parse_json
from structviews.runtime.files import file_hash, text_lines
from structviews.runtime.terminal import Table, number_table
from structviews.runtime.wording import counted

SPLITS = ("train", "dev", "test")
DIM, MARGIN = 1000, 0.2
CAPTIONS, FOLD = 5, 1000  # captions of an image, and images that are ranked together
AMONG = (1, 5, 10)
MEDIAN = "median rank"
DIRECTIONS = ("image to text", "text to image")


class Captions(TypedDict):
    """A line of ``SPLIT.jsonl``: the image's name in ``SPLIT.npz``, and its captions."""

    image: str | int
    captions: list[str]


class Images(NamedTuple):
    """A split: float32 ``features`` (n, ·), 5 n tokenised ``captions``, grouped by image, and its files' SHA-256."""

    features: Array
    captions: list[Tokens]
    checksums: dict[str, str]


def read_captions(folder: Path, least: int = 0) -> dict[str, Images]:
    """Read ``train``, ``dev`` and ``test``, each an ``.npz`` and a ``.jsonl`` (see ``docs/retrieval.md``).

    InputError if a file is missing or malformed, the two files of a split do not match, or ``train`` has no more than
    ``least`` captions.
    """
    splits = {}
    for split in SPLITS:
        files = (folder / f"{split}.npz", folder / f"{split}.jsonl")
        features, names = _read_features(files[0])
        splits[split] = Images(features, _read_texts(files[1], names), {file.name: file_hash(file) for file in files})
        first = splits["train"].features.shape[1]
        if features.shape[1] != first:
            raise InputError(f"{folder / split}.npz: features has {features.shape[1]} columns, those of train {first}")
    if len(splits["train"].captions) <= least:
        raise InputError(f"{folder / 'train.jsonl'}: fewer than {least + 1} captions: give more images")
    return splits


def _read_features(path: Path) -> tuple[Array, list[str]]:
    features, names = read_arrays(path, ("features", "images"))
    if features.ndim != 2 or features.dtype.kind != "f" or not features.size:
        raise InputError(f"{path}: features is {features.dtype} of shape {features.shape}, not floats (images, size)")
    if names.shape != (len(features),) or names.dtype.kind not in "Uiu":
        expected = f"one name or number for each of {len(features)} rows of features"
        raise InputError(f"{path}: images is {names.dtype} of shape {names.shape}, not {expected}")
    features = features.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if len(bad):
        raise InputError(f"{path}: row {bad[0]} of features contains NaN or infinite numbers: leave that image out")
    return features, [str(name) for name in names]


def _read_texts(path: Path, names: list[str]) -> list[Tokens]:
    """The first five captions of each image; the lines must be in the order of ``names``."""
    lines = text_lines(path)
    captions = []
    for number, (line, name) in enumerate(zip(lines, names, strict=False), 1):
        caption = parse_json(line.encode(), Captions, f"{path}:{number}", "fix the line")
        image, texts = caption["image"], caption["captions"]
        if str(image) != name:
            raise InputError(f"{path}:{number}: image {image!r}, but {name!r} in the npz: use the same order")
        words = [tuple(text.split()) for text in texts[:CAPTIONS]]
        if len(words) < CAPTIONS or not all(words):
            raise InputError(f"{path}:{number}: fewer than {CAPTIONS} non-empty captions: leave the image out")
        captions += words
    if len(lines) != len(names):
        raise InputError(f"{path}:{len(lines)}: {len(lines)} lines for {len(names)} images in the npz: give one each")
    return captions


@dataclass(frozen=True)
class CaptionProtocol:
    """How the maps are trained, by Adam.

    ``kiros`` is as the skip-thought scripts do: contrasts are drawn from all pairs, not only from outside the batch;
    images are scaled to length 1 for ranks only, not in the loss; first weights are uniform within sqrt(2 / inputs),
    first biases 0.
    """

    name: str
    batch: int  # pairs
    contrasts: int  # other images, and other captions, for each pair
    epochs: int
    lr: float
    seed: int
    check_every: int = 0  # updates between scores on dev; 0 for one after each epoch
    patience: int = 0  # stop at so many scores without a gain, in all; 0 for never
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
    # SentEval counts its epochs to 20, from 0.
    "senteval": CaptionProtocol("senteval", 128, contrasts=30, epochs=21, lr=1e-3, seed=1111, patience=4),
    "kiros": CaptionProtocol("kiros", 100, contrasts=50, epochs=15, lr=2e-4, seed=1234, check_every=500, kiros=True),
}


class Projections(nn.Module):
    """Linear maps of images and captions, of these dimensions, to unit vectors; ``kiros`` as in ``CaptionProtocol``."""

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
    """Hinge loss with ``MARGIN`` between the scores of pairs (B, d) and of contrastive examples (B, c, d), summed."""
    pair = (images * captions).sum(dim=1, keepdim=True)
    wrong_caption = torch.einsum("bd,bcd->bc", images, other_captions)
    wrong_image = torch.einsum("bd,bcd->bc", captions, other_images)
    return (MARGIN - pair + wrong_caption).clamp(min=0).sum() + (MARGIN - pair + wrong_image).clamp(min=0).sum()


def fold_ranks(scores: Array) -> dict[str, Ranks]:
    """Ranks by direction, from (n, p) scores, five captions per image in turn.

    They are of each image's best own caption among all captions, and of each caption's own image among all images.
    """
    captions = np.arange(scores.shape[1])
    own = scores[captions // CAPTIONS, captions].reshape(-1, CAPTIONS)
    best = own.max(axis=1, keepdims=True)
    higher, tied = Ranks.among(scores, best)
    of_images = Ranks(higher, tied - (own == best).sum(axis=1) + 1)
    return dict(zip(DIRECTIONS, (of_images, Ranks.among(scores.T, own.reshape(-1, 1))), strict=True))


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
    """Image ``features`` (n, ·), and the vectors of their ``captions`` (p, ·), five per image, grouped by image."""

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
        found.append(fold_ranks((model.images(features[start:stop]) @ captions.T).cpu().numpy()))
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


def fit(train: Pairs, dev: Pairs, protocol: CaptionProtocol, progress: OnStage) -> tuple[Projections, float]:
    """Train the projections; returns those with the highest sum of recalls on dev, and that sum.

    ``train`` has more pairs than a batch. ``progress`` is called with a description of each epoch.
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
            images, others = (map_images(train.features[each // CAPTIONS].to(device)) for each in (pair, other_images))
            captions, wrong = (model.captions(train.captions[each].to(device)) for each in (pair, other_captions))
            loss = ranking_loss(images, captions, others, wrong)
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


def evaluate_captions(
    embedder: Embedder, data: dict[str, Images], protocol: CaptionProtocol, trees: TaskTrees | None, progress: OnStage
) -> dict[str, Any]:
    """The entry of ``results.json`` for the task; each distinct caption is encoded once.

    Without ``trees``, captions are parsed if the embedder needs trees. ``progress`` is called with a description of
    each stage. InputError if a caption has no trees, or vectors are not finite.
    """
    distinct: dict[Tokens, int] = {}
    splits = data.items()
    rows = {name: np.array([distinct.setdefault(c, len(distinct)) for c in each.captions]) for name, each in splits}
    progress(f"encoding {counted(len(distinct), 'caption')}")
    table = embedder.encode(trees.find(list(distinct), CAPTION_TASK) if trees else list(distinct))
    if not np.isfinite(table).all():
        raise InputError("caption vectors contain NaN or infinite numbers: train the run again with a lower --lr")
    pairs = {name: Pairs(torch.from_numpy(each.features), torch.from_numpy(table[rows[name]])) for name, each in splits}
    model, best = fit(pairs["train"], pairs["dev"], protocol, progress)
    ranks = split_ranks(model, pairs["test"])
    return {
        "scores": fold_means(ranks),
        "intervals": recall_intervals(ranks),
        "dev": best,
        "protocol": protocol.describe() | {"folds": len(ranks), "images": min(FOLD, len(pairs["test"].features))},
        "examples": {name: len(each.captions) for name, each in splits},
        "dim": table.shape[1],
        "partial": {},
        "data": {file: checksum for each in data.values() for file, checksum in each.checksums.items()},
    }


def caption_table(scored: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    """Table with one row per run and direction, from pairs of the run's name and its entry of ``results.json``."""
    protocol = scored[0][1]["protocol"]
    table = number_table(
        ["run", "direction"],
        [*(f"R@{k}" for k in AMONG), MEDIAN],
        title="Image-caption retrieval: R@k in per cent, median rank",
        caption=f"protocol {protocol['name']}; mean over {counted(protocol['folds'], 'fold')} of "
        f"{counted(protocol['images'], 'test image')}",
    )
    for run, entry in scored:
        for way in DIRECTIONS:
            found = [score for name, score in entry["scores"].items() if name.startswith(way)]
            table.add_row(run, way, *(f"{score:.1f}" for score in found))
    return table
