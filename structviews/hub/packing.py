"""A trained run made small, as the one that comes with the package is (docs/default-model.md)."""

from pathlib import Path

import torch
from torch import Tensor

from structviews.channels import load_vocabularies, save_vocabularies
from structviews.checkpoint import read_weights, write_weights
from structviews.config import TRAINED, load_run, run_kind
from structviews.embedder import Embedder
from structviews.errors import InputError
from structviews.hub.card import model_card
from structviews.hub.portable import CARD, stage
from structviews.representation import COMPONENTS
from structviews.runs import new_run
from structviews.shipped import NAME
from structviews.vocabulary import Vocabulary

LICENCE = "apache-2.0"


def pack(run: Path, out: Path, words: int) -> list[str]:
    """Copy a run in half precision, with its most frequent words and without paths of this machine.

    To the rounding, it gives a sentence of kept words the vector that the run gives it; other words are unknown to it.

    Args:
        run: trained to its end.
        out: folder to make.
        words: how many each channel keeps.

    Returns:
        What does not go with it, and why.

    Raises:
        InputError: if it is no such run, ``out`` is there, or a weight is too large for half precision.
    """
    if words < 1:
        raise InputError(f"words = {words}: give at least 1")
    kind = run_kind(run)
    if kind != "trained":
        raise InputError(f"{run}: a run of the kind {kind!r}: give one that structviews train made")
    if not (run / COMPONENTS).exists():
        raise InputError(f"{run}: is not trained to its end: go on with structviews train --resume {run}")
    config, _ = load_run(run)
    vocabularies = load_vocabularies(run, config)
    if config.init_from and words < len(vocabularies.get(TRAINED, ())) - 1:
        raise InputError(
            f"{run}: its words are not sorted by how frequent they are, as it began with those of {config.init_from}: "
            f"keep all with --words {len(vocabularies[TRAINED]) - 1}"
        )
    n_rows = words + 1  # that of unknown words comes first
    with new_run(out) as folder:
        notes = stage(run, folder)
        for scores in folder.glob("results*.json"):  # of the weights as they were
            scores.unlink()
        save_vocabularies(folder, {name: Vocabulary(each.words[:n_rows]) for name, each in vocabularies.items()})
        write_weights(folder, {name: _packed(run, name, each, n_rows) for name, each in read_weights(run).items()})
        Embedder.load(folder)
    return notes


def _packed(run: Path, name: str, weight: Tensor, n_rows: int) -> Tensor:
    """A weight in half precision; of a word table the first rows."""
    packed = (weight[:n_rows] if ".words." in name else weight).half()
    if not torch.isfinite(packed).all():
        raise InputError(f"{run}: {name} has numbers that half precision has not: train it with a lower --lr")
    return packed


def ship(packed: Path, out: Path, baseline: Path | None = None, search: Path | None = None) -> None:
    """Make the folder that goes into the package: a packed run, its scores, its model card, and nothing else.

    Args:
        packed: what ``pack`` made, with its scores.
        out: folder to make.
        baseline: a run whose scores stand beside them in the card.
        search: file of Markdown on how its settings were found, for the card.

    Raises:
        InputError: if ``packed`` is no run or ``out`` is there, the search cannot be read, the baseline lacks a score,
            or what makes cards is not installed.
    """
    try:
        found = search.read_text("utf-8") if search else ""
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{search}: not readable ({error}): give a text in Markdown") from None
    with new_run(out) as folder:
        stage(packed, folder)
        embedder = Embedder.load(folder)
        card = model_card(packed, NAME, embedder, LICENCE, shipped=True, baseline=baseline, search=found)
        (folder / CARD).write_text(card, "utf-8")
