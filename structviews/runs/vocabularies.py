"""The vocabularies of a run's channels."""

from pathlib import Path

import torch
from torch import Tensor

from structviews.errors import InputError
from structviews.runs.config import TrainConfig
from structviews.runs.folder import CONFIG, vocabulary_file
from structviews.runs.settings_file import PARSED, Parsed
from structviews.runtime.progress import OnProgress
from structviews.words import FIXED
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import Vocabulary


def save_vocabularies(run: Path, vocabularies: dict[str, Vocabulary]) -> None:
    """Write the vocabularies of a run's channels."""
    for channel, vocabulary in vocabularies.items():
        vocabulary.save(run / vocabulary_file(channel))


def load_vocabularies(run: Path, config: TrainConfig) -> dict[str, Vocabulary]:
    """Read the vocabularies of a run's channels.

    Raises:
        InputError: if they are missing or damaged.
    """
    return {channel: Vocabulary.load(run / vocabulary_file(channel)) for channel in config.words.channels}


def open_vectors(config: TrainConfig, progress: OnProgress | None = None) -> WordVectors | None:
    """The vector file of the fixed channel; None without that channel.

    Args:
        config: names the file.
        progress: see ``WordVectors.open``.

    Raises:
        InputError: if it is missing, or not a vector file.
    """
    return WordVectors.open(config.words.vectors, progress) if FIXED in config.words.channels else None


def empty_table(vocabularies: dict[str, Vocabulary], parsed: Parsed) -> Tensor | None:
    """Zeros ``(words, dim)`` for the table of a run's fixed channel, int8 in a packed run; None without it."""
    if FIXED not in vocabularies:
        return None
    if "dim" not in parsed.vectors:
        raise InputError(f"{CONFIG}: [{PARSED}.vectors] lacks the dimension of the word vectors: restore the file")
    numbers = torch.int8 if parsed.vectors.get("packed") else torch.float32
    return torch.zeros(len(vocabularies[FIXED]), parsed.vectors["dim"], dtype=numbers)
