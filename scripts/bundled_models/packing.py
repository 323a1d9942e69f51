"""Make a trained run small enough to ship, like the bundled models (docs/default-model.md)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import RunVectors
from structviews.errors import InputError
from structviews.hub.card import model_card
from structviews.hub.portable import CARD, read_sources, stage, write_sources
from structviews.runs.folder import COMPONENTS, SOURCES
from structviews.runs.settings_file import PARSED, load_run, read_settings, run_kind, write_settings
from structviews.runs.weights import load_vocabularies, read_weights, save_sub_words, save_vocabularies, write_weights
from structviews.runtime.files import new_folder
from structviews.words import CONTEXTUAL, FIXED, TRAINED
from structviews.words.sub_words import quantise
from structviews.words.vocabulary import Vocabulary

# The fixed word table and its scales, see ``words.sub_words.quantise``.
TABLE, SCALE = (f"channels.{FIXED}.words.0.{name}" for name in ("weight", "scale"))


def pack(run: Path, out: Path, words: int) -> list[str]:
    """Copy a run with its most frequent words only and without local paths.

    Fixed word vectors are rounded to 8 bits a number, other weights to half precision. Sentences of kept words get the
    same vectors as from the run, up to rounding. The packed run looks for no file of word vectors: other words are
    composed of the file's sub-words, which it then stores in 8 bits, or are unknown. Returns notes on what is left out,
    and why; raises InputError if the run is not fully trained, ``out`` exists, or a weight overflows half precision.
    """
    if words < 1:
        raise InputError(f"words = {words}: give at least 1")
    kind = run_kind(run)
    if kind != "trained":
        raise InputError(f"{run}: a run of kind {kind!r}: give a run made by structviews train")
    if not (run / COMPONENTS).exists():
        raise InputError(f"{run}: training has not finished: resume it with structviews train --resume {run}")
    config, parsed = load_run(run)
    if CONTEXTUAL in config.words.channels:
        raise InputError(f"{run}: reads states of an encoder, which cannot be packed: share it with structviews push")
    vocabularies = load_vocabularies(run, config, parsed)
    if config.data.init_from and words < len(vocabularies.get(TRAINED, ())) - 1:
        raise InputError(
            f"{run}: its words are not sorted by frequency, because it started from {config.data.init_from}: keep all "
            f"with --words {len(vocabularies[TRAINED]) - 1}"
        )
    n_rows = words + 1  # row 0 is for unknown words
    with new_folder(out) as folder:
        notes = stage(run, folder)
        settings = read_settings(folder)
        if about := settings[PARSED]["vectors"]:
            notes += _keep_sub_words(RunVectors.of(run, config, parsed), folder, about)
            about["packed"] = True
        write_settings(folder, settings)
        for scores in folder.glob("results*.json"):  # they belong to the original weights
            scores.unlink()
        save_vocabularies(folder, {name: Vocabulary(each.words[:n_rows]) for name, each in vocabularies.items()})
        write_weights(folder, dict(_packed(run, n_rows)))
        Embedder.load(folder)
    return notes


def _keep_sub_words(vectors: RunVectors | None, folder: Path, about: dict[str, Any]) -> list[str]:
    """Store the sub-words of a run's file in a packed run, and say so ``about`` its vectors; return notes."""
    if vectors and vectors.sub_words:
        save_sub_words(folder, vectors.sub_words)
        about["sub_words"] = True
    if vectors is None or vectors.available:
        return []
    return [f"{vectors.path}: not there, or changed: if it has sub-words, they are left out, and further words unknown"]


def _packed(run: Path, n_rows: int) -> Iterator[tuple[str, Tensor]]:
    """A run's weights by name, rounded; only the first rows of what has one for each word."""
    weights = read_weights(run)
    if TABLE in weights and SCALE not in weights:  # else the run was packed before
        rows, scales = quantise(weights[TABLE].numpy())
        weights |= {TABLE: torch.from_numpy(rows), SCALE: torch.from_numpy(scales)}
    for name, weight in weights.items():
        packed = weight[:n_rows] if ".words." in name else weight
        packed = packed if name in (TABLE, SCALE) else packed.half()
        if not torch.isfinite(packed).all():
            raise InputError(f"{run}: {name} overflows half precision: train with a lower --lr")
        yield name, packed


def ship(
    packed: Path,
    out: Path,
    licence: str,
    *,
    sources: Sequence[Path] = (),
    baselines: Sequence[Path] = (),
    published: str = "",
    about: str = "",
) -> None:
    """Create the folder of a bundled model: a packed run with its sources, scores and model card, and nothing else.

    The ``sources`` are tables of the texts that it was trained on; for the rest, and for errors, see ``model_card``.
    """
    with new_folder(out) as folder:
        stage(packed, folder)
        if sources:
            write_sources(folder / SOURCES, [row for file in sources for row in read_sources(file)])
        card = model_card(
            folder,
            out.name,
            Embedder.load(folder, precision="fp32"),
            licence,
            bundled=True,
            baselines=baselines,
            published=published,
            about=about,
        )
        (folder / CARD).write_text(card, "utf-8")
