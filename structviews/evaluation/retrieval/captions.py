"""Image-caption retrieval from precomputed image features (Kiros et al. 2014): the files, the scores and their table.

Shapes: n images, 5 n captions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch

from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.retrieval.joint_space import (
    AMONG,
    CAPTION_PROTOCOLS,
    CAPTIONS,
    DIRECTIONS,
    FOLD,
    MEDIAN,
    CaptionProtocol,
    Pairs,
    fit,
    fold_means,
    recall_intervals,
    split_ranks,
)
from structviews.evaluation.scores.results import CAPTION_TASK
from structviews.evaluation.senteval.task_trees import TaskTrees
from structviews.evaluation.senteval.tasks.reading import Tokens
from structviews.runtime.array_files import read_arrays
from structviews.runtime.documents import parse_json
from structviews.runtime.files import file_hash, text_lines
from structviews.runtime.terminal import Table
from structviews.runtime.wording import counted

SPLITS = ("train", "dev", "test")


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


def read_captions(folder: Path, least: int = 0) -> Captioned:
    """Read ``train``, ``dev`` and ``test``, each an ``.npz`` and a ``.jsonl`` (see ``docs/retrieval.md``).

    Args:
        folder: the files.
        least: training needs more captions than this.

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
    if len(splits["train"].captions) <= least:
        raise InputError(f"{folder / 'train.jsonl'}: fewer than {least + 1} captions: give more images")
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


def evaluate_captions(
    embedder: Embedder,
    data: Captioned,
    protocol: CaptionProtocol = CAPTION_PROTOCOLS["senteval"],
    trees: TaskTrees | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """The entry of ``results.json`` for the task.

    Args:
        embedder: encodes each distinct caption once.
        data: the images and their captions.
        protocol: how the maps are trained.
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
    table = embedder.encode(trees.find(list(distinct), CAPTION_TASK) if trees else list(distinct))
    if not np.isfinite(table).all():
        raise InputError("caption vectors contain NaN or infinite numbers: train the run again with a lower --lr")
    pairs = {
        name: Pairs(torch.from_numpy(each.features), torch.from_numpy(table[rows[name]]))
        for name, each in data.splits.items()
    }
    model, best = fit(pairs["train"], pairs["dev"], protocol, progress)
    ranks = split_ranks(model, pairs["test"])
    return {
        "scores": fold_means(ranks),
        "intervals": recall_intervals(ranks),
        "dev": best,
        "protocol": protocol.describe() | {"folds": len(ranks), "images": min(FOLD, len(pairs["test"].features))},
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
        caption=f"protocol {protocol['name']}; mean over {counted(protocol['folds'], 'fold')} of "
        f"{counted(protocol['images'], 'test image')}",
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
