"""What a run computes with: its weights, its words and their n-grams. Reading them cannot execute code."""

import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn

from structviews.errors import InputError
from structviews.pretrained.encoder_name import EncoderName, Identity
from structviews.pretrained.loading import files_digest, found_folder
from structviews.pretrained.states import ContextualWords, FrozenEncoder
from structviews.runs.config import TrainConfig
from structviews.runs.folder import CONFIG, REMEDY, SUB_WORDS, WEIGHTS, WORDS
from structviews.runs.settings_file import PARSED, Parsed, PretrainedEncoder, load_run
from structviews.runtime.device import TooLargeError, Unfilled
from structviews.runtime.documents import checked
from structviews.runtime.seals import damaged, read_arrays, read_head, read_tensors, write_arrays
from structviews.runtime.wording import reason
from structviews.words import CONTEXTUAL, FIXED
from structviews.words.sub_words import LONGEST_NGRAM, SubWords
from structviews.words.vocabulary import Vocabulary


def write_weights(run: Path, weights: Mapping[str, Tensor], notes: Mapping[str, Any] | None = None) -> None:
    """Write ``model.safetensors`` from weights by name, atomically; ``notes`` say what else identifies the model."""
    write_arrays(run / WEIGHTS, weights, notes)


Built = TypeVar("Built", bound=nn.Module)
# Numbers that a model may hold beside its weights, such as tables of positions.
BESIDE = 2**24


def build_for_weights(run: Path, build: Callable[[], Built]) -> Built:
    """Build a model for a run's weights, which takes no more memory than they need, whatever its settings ask for.

    Its first weights are not drawn. Raises InputError if the weights are missing or damaged, or the model is larger.
    """
    shapes = read_head(_weights(run), REMEDY).shapes
    try:
        with torch.random.fork_rng(devices=[]), Unfilled(BESIDE + sum(map(math.prod, shapes.values()))):
            return build()
    except TooLargeError:
        raise _other_weights(run, "its settings ask for larger ones") from None


def load_weights(run: Path, model: nn.Module) -> None:
    """Read ``model.safetensors`` into a model; raises InputError if it is missing, damaged, or of another model."""
    shapes = read_head(_weights(run), REMEDY).shapes
    for name, tensor in model.state_dict().items():
        _check_shape(run, name, shapes.get(name), tuple(tensor.shape))
    # Buffers of bytes are digests of what else the model reads, such as a tokeniser.
    digests = {name: each.clone() for name, each in model.named_buffers() if each.dtype == torch.uint8}
    try:
        model.load_state_dict(read_weights(run))
    except RuntimeError as error:
        raise _other_weights(run, reason(error)) from None
    for name, digest in digests.items():
        if not torch.equal(model.get_buffer(name), digest):
            raise InputError(
                f"{run / WEIGHTS}: not trained with this run's {name.rpartition('.')[2]}: one of its files or settings "
                f"is another run's: {REMEDY}"
            )


@torch.no_grad()
def start_from(run: Path, model: nn.Module, n_words: int, fresh: Collection[str] = ()) -> None:
    """Copy a run's weights into another model, whose word tables have the run's ``n_words`` rows, then further ones.

    Weights whose names have a part in ``fresh``, such as ``.objective.``, are left as they are.
    """
    weights = read_weights(run)
    for name, tensor in model.state_dict().items():
        if any(part in name for part in fresh):
            continue
        target = tensor[:n_words] if ".words." in name else tensor
        _check_shape(run, name, tuple(weights[name].shape) if name in weights else None, tuple(target.shape))
        target.copy_(weights[name])


def read_weights(run: Path) -> dict[str, Tensor]:
    """The weights of a run by name; raises InputError if they are missing or damaged."""
    return read_tensors(_weights(run), REMEDY)[0]


def _weights(run: Path) -> Path:
    if not (run / WEIGHTS).is_file():
        raise InputError(f"{run / WEIGHTS}: no such file: the run has no checkpoint yet; train it first")
    return run / WEIGHTS


def _check_shape(run: Path, name: str, found: tuple[int, ...] | None, wanted: tuple[int, ...]) -> None:
    if found != wanted:
        there = "is missing" if found is None else f"has shape {found}"
        raise _other_weights(run, f"{name} {there}, expected {wanted}")


def _other_weights(run: Path, why: str) -> InputError:
    return InputError(f"{run / WEIGHTS}: not the weights of this run's model: {why}: train it again with --out")


def save_vocabularies(run: Path, vocabularies: Mapping[str, Vocabulary]) -> None:
    """Write ``words.safetensors``: the UTF-8 text of each channel's words, one a line; the contextual one has none."""
    texts = {name: "\n".join(each.words) for name, each in vocabularies.items() if name != CONTEXTUAL}
    if texts:
        write_arrays(run / WORDS, {name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()})


def load_words(run: Path, channel: str, uncased: bool = False) -> Vocabulary:
    """Read the vocabulary of one of a run's channels; ``uncased`` if its words are looked up in lower case."""
    path = run / WORDS
    text = read_arrays(path, REMEDY).get(channel)
    if text is None:
        raise damaged(path, f"it has no words of the channel {channel!r}", REMEDY)
    try:
        return Vocabulary(text.tobytes().decode().split("\n"), uncased=uncased)
    except ValueError as error:
        raise damaged(path, str(error), REMEDY) from None


def load_vocabularies(run: Path, config: TrainConfig, parsed: Parsed) -> dict[str, Vocabulary]:
    """Read the vocabularies of a run's channels; raises InputError if one, or the encoder, is missing or changed."""
    return {
        channel: ContextualWords(_encoder_of(run, config, parsed))
        if channel == CONTEXTUAL
        else load_words(run, channel, channel == FIXED and parsed.vectors.get("uncased", False))
        for channel in config.words.channels
    }


def fixed_vectors(run: Path) -> tuple[list[str], np.ndarray]:
    """The words ``(V,)`` of a run's fixed channel, most frequent first, and their vectors ``(V, dim)``.

    They are float32, also of a packed run. Raises InputError if the run has no such channel, or a damaged file.
    """
    config, _ = load_run(run)
    if FIXED not in config.words.channels:
        raise InputError(f"{run}: has no word vectors of a file: give a run with the channel {FIXED!r}")
    weights = read_weights(run)
    table, scale = (weights.get(f"channels.{FIXED}.words.0.{name}") for name in ("weight", "scale"))
    words = load_words(run, FIXED).words
    if table is None or len(table) != len(words):
        raise _other_weights(run, "they are not of its words")
    vectors = table.float() if scale is None else table * scale[:, None]
    return words[1:], vectors[1:].numpy()  # row 0 is for unknown words


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
    """Read the n-grams of a run's word vectors of ``dim`` dimensions; raises InputError if they are not that."""
    path = run / SUB_WORDS
    lengths: Lengths = checked(read_head(path, REMEDY).notes, Lengths, path, REMEDY)
    arrays = read_arrays(path, REMEDY)
    found = {name: (each.dtype.name, each.shape) for name, each in arrays.items()}
    buckets = len(arrays.get("scales", ()))
    if found != {"rows": ("int8", (buckets, dim)), "scales": ("float32", (buckets,))}:
        raise damaged(path, "its n-grams are not of this run's words", REMEDY)
    return SubWords(arrays["rows"], arrays["scales"], lengths["shortest"], lengths["longest"])
