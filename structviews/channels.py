"""Where the words of a run's channels come from (quick-thoughts 4.4.1, structured views 4.1)."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from structviews.cache import ParsedCorpus
from structviews.config import FIXED, Parsed, TrainConfig
from structviews.errors import InputError
from structviews.vocabulary import Vocabulary
from structviews.word_vectors import Progress, WordVectors


def vocabulary_file(channel: str) -> str:
    """Where a run keeps a channel's words."""
    return f"vocabulary.{channel}.txt"


def save_vocabularies(run: Path, vocabularies: dict[str, Vocabulary]) -> None:
    """Write the words of a run's channels."""
    for channel, vocabulary in vocabularies.items():
        vocabulary.save(run / vocabulary_file(channel))


def load_vocabularies(run: Path, config: TrainConfig) -> dict[str, Vocabulary]:
    """The words of a run's channels.

    Raises:
        InputError: if they are missing or damaged.
    """
    return {channel: Vocabulary.load(run / vocabulary_file(channel)) for channel in config.channels}


def open_vectors(config: TrainConfig, progress: Progress | None = None) -> WordVectors | None:
    """The vector file of the fixed channel; None without one.

    Args:
        config: names it.
        progress: see ``WordVectors.open``.

    Raises:
        InputError: if it is missing, or is not one.
    """
    return WordVectors.open(config.vectors, progress) if FIXED in config.channels else None


def corpus_words(
    config: TrainConfig, corpus: ParsedCorpus, vectors: WordVectors | None
) -> tuple[dict[str, Vocabulary], Tensor | None]:
    """The words that a run's channels have of a corpus, and the fixed channel's table, see ``fixed_words``."""
    vocabularies, table = {}, None
    for channel in config.channels:
        if vectors and channel == FIXED:
            vocabularies[channel], table = fixed_words(corpus, vectors)
        else:
            vocabularies[channel] = Vocabulary.of_corpus(corpus, config.vocabulary)
    return vocabularies, table


def fixed_words(corpus: ParsedCorpus, vectors: WordVectors) -> tuple[Vocabulary, Tensor]:
    """The words of a corpus that have a vector, and the table ``(words, dim)`` of these vectors.

    The row of unknown words is zeros (multi-view 3.1).

    Raises:
        InputError: if the file has none of them.
    """
    every = Vocabulary.of_corpus(corpus)
    places = vectors.find(every.words[1:])
    if (places < 0).all():
        raise InputError(f"{vectors.path}: has none of the words of {corpus.path}: give vectors of its language")
    known = np.concatenate([[True], places >= 0])
    words = [word for word, keep in zip(every.words, known.tolist(), strict=True) if keep]
    occurrences = np.array(every.counts)
    counts = occurrences[known]
    counts[0] += occurrences[~known].sum()
    table = vectors.rows(np.concatenate([[-1], places[places >= 0]]))
    return Vocabulary(words, counts), torch.from_numpy(table)


def empty_table(vocabularies: dict[str, Vocabulary], parsed: Parsed) -> Tensor | None:
    """Room for the table of a run's fixed channel; None without one."""
    return torch.zeros(len(vocabularies[FIXED]), parsed.vectors["dim"]) if FIXED in vocabularies else None
