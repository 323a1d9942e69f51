"""Image-caption retrieval from precomputed image features, by SentEval's protocol.

Linear maps project images and captions into a joint space, where each image should be nearer to its own captions
than to others (Kiros et al. 2014; SentEval's ``senteval/rank.py`` and ``senteval/tools/ranking.py``).

Shapes: n images, p = 5 n captions, B pairs in a batch, c contrastive examples per pair, d dimensions of the
projection.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.retrieval.ranking import Ranks
from structviews.evaluation.scores.intervals import proportion
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks.reading import Tokens
from structviews.runtime.array_files import read_arrays
from structviews.runtime.device import best_device
from structviews.runtime.documents import parse_json
from structviews.runtime.files import file_hash, text_lines
from structviews.runtime.terminal_tables import Table
from structviews.runtime.wording import counted

TASK = "COCO"
SPLITS = ("train", "dev", "test")
CAPTIONS = 5
FOLD = 1000
DIM = 1000
MARGIN = 0.2
BATCH = 128
CONTRASTS = 30
EPOCHS = 21  # SentEval counts to 20, from 0
PATIENCE = 4
SEED = 1111
AMONG = (1, 5, 10)
MEDIAN = "median rank"
DIRECTIONS = ("image to text", "text to image")
PROTOCOL = {
    "name": "senteval",
    "margin": MARGIN,
    "projection": DIM,
    "batch": BATCH,
    "contrasts": CONTRASTS,
    "optimiser": "Adam, 1e-3",
    "epochs": f"at most {EPOCHS}; ended by the {PATIENCE}th without a gain of the recalls on dev, in all",
    "seed": SEED,
}


class Captions(TypedDict):
    """A line of ``SPLIT.jsonl``: the image's name in ``SPLIT.npz``, and its captions."""

    image: str | int
    captions: list[str]


@dataclass(frozen=True)
class Images:
    """One split.

    Attributes:
        features: (n, ·) float32, one row per image.
        captions: (5 n) tokenised captions, grouped by image.
    """

    features: np.ndarray
    captions: list[Tokens]


@dataclass(frozen=True)
class Captioned:
    """The data of the task.

    Attributes:
        splits: ``train``, ``dev`` and ``test``.
        checksums: SHA-256 of every file.
    """

    splits: dict[str, Images]
    checksums: dict[str, str]


def read_captions(folder: Path) -> Captioned:
    """Read ``train``, ``dev`` and ``test``, each an ``.npz`` and a ``.jsonl`` (see ``docs/retrieval.md``).

    Raises:
        InputError: if a file is missing or malformed, or the two files of a split do not match; the message names
            the file, and the line or key.
    """
    splits = {}
    for split in SPLITS:
        features, names = _read_features(folder / f"{split}.npz")
        splits[split] = Images(features, _read_texts(folder / f"{split}.jsonl", names))
        first = splits["train"].features.shape[1]
        if features.shape[1] != first:
            raise InputError(f"{folder / split}.npz: features has {features.shape[1]} columns, those of train {first}")
    if len(splits["train"].captions) <= BATCH:
        raise InputError(f"{folder / 'train.jsonl'}: fewer than {BATCH + 1} captions: give more images")
    files = [f"{split}.{ending}" for split in SPLITS for ending in ("npz", "jsonl")]
    return Captioned(splits, {file: file_hash(folder / file) for file in files})


def _read_features(path: Path) -> tuple[np.ndarray, list[str]]:
    features, names = read_arrays(path, ("features", "images"))
    if features.ndim != 2 or features.dtype.kind != "f" or not features.size:
        raise InputError(f"{path}: features is {features.dtype} of shape {features.shape}, not floats (images, size)")
    if names.shape != (len(features),) or names.dtype.kind not in "Uiu":
        raise InputError(
            f"{path}: images is {names.dtype} of shape {names.shape}, not one name or number for each "
            f"of {len(features)} rows of features"
        )
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


class Projections(nn.Module):
    """Linear maps of images and captions to unit vectors.

    Args:
        images: dimensions of the image features.
        captions: dimensions of the caption vectors.
        dim: d.
    """

    def __init__(self, images: int, captions: int, dim: int):
        super().__init__()
        self.of_images = nn.Linear(images, dim)
        self.of_captions = nn.Linear(captions, dim)

    def images(self, features: Tensor) -> Tensor:
        return normalize(self.of_images(features), dim=-1)

    def captions(self, vectors: Tensor) -> Tensor:
        return normalize(self.of_captions(vectors), dim=-1)


def ranking_loss(images: Tensor, captions: Tensor, other_images: Tensor, other_captions: Tensor) -> Tensor:
    """Hinge loss with ``MARGIN`` between the scores of pairs and of contrastive examples, summed.

    Args:
        images, captions: (B, d) pairs, unit vectors.
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


def retrieval_scores(ranks: Ranks) -> dict[str, float]:
    """R@k in per cent, and the median rank, rounded down as SentEval does."""
    shares = {f"R@{k}": 100 * float(ranks.recalled(k).mean()) for k in AMONG}
    return shares | {MEDIAN: float(np.floor(ranks.median()))}


def folds(n: int) -> list[slice]:
    """Folds of 1,000 images, without the remainder; a single fold if there are fewer."""
    return [slice(start, start + FOLD) for start in range(0, n - FOLD + 1, FOLD)] or [slice(0, n)]


@torch.no_grad()
def split_ranks(model: Projections, features: Tensor, vectors: Tensor) -> list[dict[str, Ranks]]:
    """Ranks for each fold, by direction.

    Args:
        model: the projections.
        features: (n, ·) image features.
        vectors: (p, ·) caption vectors.
    """
    found = []
    for fold in folds(len(features)):
        captions = model.captions(vectors[CAPTIONS * fold.start : CAPTIONS * fold.stop])
        scores = (model.images(features[fold]) @ captions.T).cpu().numpy()
        found.append(dict(zip(DIRECTIONS, (image_ranks(scores), caption_ranks(scores)), strict=True)))
    return found


def fold_means(ranks: Sequence[dict[str, Ranks]]) -> dict[str, float]:
    """Scores in both directions, averaged over folds."""
    found = [{f"{way} {name}": v for way in fold for name, v in retrieval_scores(fold[way]).items()} for fold in ranks]
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


def recall_intervals(ranks: Sequence[dict[str, Ranks]]) -> dict[str, list[float]]:
    """95 % intervals of the recalls in per cent; the bootstrap draws images, each with its captions."""
    found = {}
    for way in DIRECTIONS:
        for k in AMONG:
            hits = np.concatenate([fold[way].recalled(k) for fold in ranks])
            share = proportion(hits, np.arange(len(hits)) // (1 if way == DIRECTIONS[0] else CAPTIONS))
            found[f"{way} R@{k}"] = [100 * share.low, 100 * share.high]
    return found


def outside(permutation: np.ndarray, start: int, stop: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw ``count`` elements of a permutation with replacement, excluding those from ``start`` to ``stop``."""
    places = rng.integers(len(permutation) - (stop - start), size=count)
    return permutation[places + (places >= start) * (stop - start)]


def fit(
    table: np.ndarray,
    rows: dict[str, np.ndarray],
    splits: dict[str, Images],
    progress: Callable[[str], None] = lambda stage: None,
) -> tuple[Projections, float]:
    """Train the projections; returns those of the epoch with the highest sum of recalls on dev, and that sum.

    Args:
        table: (u, ·) float32, vectors of the distinct captions.
        rows: (p,) rows of ``table`` for the captions of each split.
        splits: the images.
        progress: called with a description of each epoch.
    """
    device = best_device()
    rng = np.random.default_rng(SEED)
    features, texts = torch.from_numpy(splits["train"].features), torch.from_numpy(table)
    places = torch.from_numpy(rows["train"])
    dev = [torch.from_numpy(each).to(device) for each in (splits["dev"].features, table[rows["dev"]])]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = Projections(features.shape[1], table.shape[1], DIM).to(device)
    optimiser = torch.optim.Adam(model.parameters())
    best, best_model, without_gain = -1.0, model, 0
    for epoch in range(1, EPOCHS + 1):
        progress(f"epoch {epoch} of at most {EPOCHS}, best sum of dev recalls {max(best, 0):.1f} of 600")
        permutation = rng.permutation(len(places))
        for start in range(0, len(permutation), BATCH):
            pairs = permutation[start : start + BATCH]
            drawn = [pairs]
            drawn += [
                outside(permutation, start, start + len(pairs), CONTRASTS * len(pairs), rng).reshape(-1, CONTRASTS)
                for _ in range(2)
            ]
            pair, other_images, other_captions = (torch.from_numpy(each) for each in drawn)
            loss = ranking_loss(
                model.images(features[pair // CAPTIONS].to(device)),
                model.captions(texts[places[pair]].to(device)),
                model.images(features[other_images // CAPTIONS].to(device)),
                model.captions(texts[places[other_captions]].to(device)),
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        score = sum(value for name, value in fold_means(split_ranks(model, *dev)).items() if "R@" in name)
        if score > best:
            best, best_model = score, copy.deepcopy(model)
        else:
            without_gain += 1
            if without_gain == PATIENCE:
                break
    return best_model, best


def evaluate_captions(
    embedder: Embedder,
    data: Captioned,
    trees: TaskTrees | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """The entry of ``results.json`` for the task.

    Args:
        embedder: encodes each distinct caption once.
        data: the images and their captions.
        trees: trees of the captions; by default the captions are parsed if the embedder needs trees.
        progress: called with a description of each stage.

    Raises:
        InputError: if a caption has no trees, or vectors are not finite.
    """
    distinct: dict[Tokens, int] = {}
    rows = {
        name: np.array([distinct.setdefault(caption, len(distinct)) for caption in each.captions])
        for name, each in data.splits.items()
    }
    progress(f"encoding {counted(len(distinct), 'caption')}")
    table = embedder.encode(trees.find(list(distinct), TASK) if trees else list(distinct))
    if not np.isfinite(table).all():
        raise InputError("caption vectors contain NaN or infinite numbers: train the run again with a lower --lr")
    model, best = fit(table, rows, data.splits, progress)
    device = next(model.parameters()).device
    test = [torch.from_numpy(each).to(device) for each in (data.splits["test"].features, table[rows["test"]])]
    ranks = split_ranks(model, *test)
    return {
        "scores": fold_means(ranks),
        "intervals": recall_intervals(ranks),
        "dev": best,
        "protocol": PROTOCOL | {"folds": len(ranks), "images": min(FOLD, len(test[0]))},
        "examples": {name: len(each.captions) for name, each in data.splits.items()},
        "dim": table.shape[1],
        "partial": {},
        "data": data.checksums,
    }


def caption_table(scored: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    """Table with one row per run and direction, from pairs of the run's name and its entry of ``results.json``."""
    protocol = scored[0][1]["protocol"]
    table = Table(
        title="Image-caption retrieval: R@k in per cent, median rank",
        caption=f"mean over {counted(protocol['folds'], 'fold')} of {counted(protocol['images'], 'test image')}",
    )
    table.add_column("run")
    table.add_column("direction")
    for name in (*(f"R@{k}" for k in AMONG), MEDIAN):
        table.add_column(name, justify="right")
    for run, entry in scored:
        for way in DIRECTIONS:
            found = [score for name, score in entry["scores"].items() if name.startswith(way)]
            table.add_row(run, way, *(f"{score:.1f}" for score in found))
    return table
