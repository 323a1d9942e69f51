"""The words of a run: the vocabularies of its channels, and the sub-words of a packed one."""

from pathlib import Path
from typing import Annotated, TypedDict

import torch
from msgspec import Meta
from torch import Tensor

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.pretrained.encoder_name import EncoderName, Identity
from structviews.pretrained.loading import Blueprint, files_digest, found_folder
from structviews.pretrained.states import ContextualWords, FrozenEncoder
from structviews.runs.config import TrainConfig
from structviews.runs.folder import CONFIG, ENCODER, REMEDY, SUB_WORDS, vocabulary_file
from structviews.runs.settings_file import PARSED, Parsed, PretrainedEncoder
from structviews.runtime.documents import checked
from structviews.runtime.seals import damaged, read_arrays, read_head, write_arrays
from structviews.runtime.terminal import OnProgress
from structviews.words import CONTEXTUAL, FIXED
from structviews.words.sub_words import LONGEST_NGRAM, SubWords
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import Vocabulary


def save_vocabularies(run: Path, vocabularies: dict[str, Vocabulary]) -> None:
    """Write the vocabularies of a run's channels; that of the contextual one is empty."""
    for channel, vocabulary in vocabularies.items():
        if channel != CONTEXTUAL:
            vocabulary.save(run / vocabulary_file(channel))


def load_vocabularies(run: Path, config: TrainConfig, parsed: Parsed) -> dict[str, Vocabulary]:
    """Read the vocabularies of a run's channels.

    Raises:
        InputError: if they are missing or damaged, or the encoder of the contextual channel is missing or has changed.
    """
    uncased = {FIXED: parsed.vectors.get("uncased", False)}
    return {
        channel: ContextualWords(_encoder_of(run, config, parsed))
        if channel == CONTEXTUAL
        else Vocabulary.load(run / vocabulary_file(channel), uncased.get(channel, False))
        for channel in config.words.channels
    }


def _encoder_of(run: Path, config: TrainConfig, parsed: Parsed) -> FrozenEncoder:
    """The encoder of a run, named from where it was trained, or from here."""
    name, about = EncoderName.of(config.words.encoder).name, parsed.encoder
    if PretrainedEncoder.__annotations__.keys() - about.keys():
        raise InputError(f"{run / CONFIG}: [{PARSED}.encoder] does not say which encoder it was: restore the file")
    try:
        folder = found_folder(name, run.absolute().parents)
    except InputError as error:
        raise InputError(
            f"{run}: its encoder is missing: {error}: put it back, or write where it is to encoder in {run / CONFIG}"
        ) from None
    if files_digest(folder) != about["files"]:
        raise InputError(
            f"{run}: its encoder {folder} is not the one that it was trained with: restore that, or write where it is "
            f"to encoder in {run / CONFIG}"
        )
    identity = Identity(about["files"], tuple(about["layers"]), config.words.pooling, about["dim"])
    return FrozenEncoder(name, folder, identity)


def load_blueprint(run: Path, config: TrainConfig) -> Blueprint | None:
    """What makes the encoder of a run's transformer; None if no view is one.

    Raises:
        InputError: if it is missing or damaged, or of another run.
    """
    return Blueprint.read(run / ENCODER, REMEDY) if config.reads_pieces else None


def open_vectors(config: TrainConfig, progress: OnProgress | None = None) -> WordVectors | None:
    """The vector file of the fixed channel; None without that channel.

    Args:
        config: names the file.
        progress: see ``WordVectors.open``.

    Raises:
        InputError: if it is missing, or not a vector file.
    """
    return WordVectors.open(config.words.vectors, progress) if FIXED in config.words.channels else None


def open_encoder(config: TrainConfig) -> FrozenEncoder | None:
    """The encoder that the contextual channel reads or a view begins from; None if there is neither.

    Raises:
        InputError: if it is missing, or does not have the layers that are named.
    """
    words = config.words
    return FrozenEncoder.open(words.encoder, words.pooling) if words.encoder else None


def identified(config: TrainConfig, corpus: ParsedCorpus) -> Parsed:
    """What identifies the data of a run that is trained on this corpus now.

    Raises:
        InputError: as ``open_vectors`` and ``open_encoder``.
    """
    encoder = open_encoder(config)
    return Parsed.of(corpus, open_vectors(config), encoder.identity if encoder else None)


def empty_table(vocabularies: dict[str, Vocabulary], parsed: Parsed) -> Tensor | None:
    """Zeros ``(words, dim)`` for the table of a run's fixed channel, int8 in a packed run; None without it."""
    if FIXED not in vocabularies:
        return None
    if "dim" not in parsed.vectors:
        raise InputError(f"{CONFIG}: [{PARSED}.vectors] lacks the dimension of the word vectors: restore the file")
    numbers = torch.int8 if parsed.vectors.get("packed") else torch.float32
    return torch.zeros(len(vocabularies[FIXED]), parsed.vectors["dim"], dtype=numbers)


class Lengths(TypedDict):
    """What the file of sub-words says beside the rows; see ``SubWords``."""

    shortest: Annotated[int, Meta(ge=0)]
    longest: Annotated[int, Meta(le=LONGEST_NGRAM)]


def save_sub_words(run: Path, sub_words: SubWords) -> None:
    """Write the n-grams of a run's word vectors, 8 bits a number."""
    rows, scales = sub_words.quantised()
    lengths = Lengths(shortest=sub_words.shortest, longest=sub_words.longest)
    write_arrays(run / SUB_WORDS, {"rows": rows, "scales": scales}, lengths)


def load_sub_words(run: Path, dim: int) -> SubWords:
    """Read the n-grams of a run's word vectors of ``dim`` dimensions.

    Raises:
        InputError: if they are missing, damaged, or of other vectors.
    """
    path = run / SUB_WORDS
    lengths: Lengths = checked(read_head(path, REMEDY).notes, Lengths, path, REMEDY)
    arrays = read_arrays(path, REMEDY)
    found = {name: (each.dtype.name, each.shape) for name, each in arrays.items()}
    buckets = len(arrays.get("scales", ()))
    if found != {"rows": ("int8", (buckets, dim)), "scales": ("float32", (buckets,))}:
        raise damaged(path, "its n-grams are not of this run's words", REMEDY)
    return SubWords(arrays["rows"], arrays["scales"], lengths["shortest"], lengths["longest"])
