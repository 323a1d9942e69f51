"""Finding and loading an encoder of Hugging Face: only safetensors and fast tokenisers, and no code of others.

A run whose transformer is trained keeps its configuration and tokeniser, its ``Blueprint``, in one sealed file, so it
needs nothing of the encoder that it began from.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self, TypedDict

import numpy as np
import torch

from structviews.errors import InputError
from structviews.pretrained.alignment import Aligner
from structviews.pretrained.encoder_name import HUB_ID
from structviews.runtime.documents import read_json
from structviews.runtime.files import digest
from structviews.runtime.seals import damaged, read_arrays, write_arrays
from structviews.runtime.wording import network_reason, reason

INSTALL = "pip install 'structviews[contextual]'"
REMEDY = "restore its files, or choose another encoder"
CONFIG = "config.json"
# The weights; those of a large encoder are in several files, which the index names.
WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
# A whole tokeniser, and the files that others are made of.
TOKENISER = "tokenizer.json"
MADE_OF = ("vocab*", "*.model")
# All but the weights.
DESCRIPTION = (CONFIG, "*token*.json", *MADE_OF, "merges.txt")
# Pieces at once of encoders whose positions have no limit.
LONGEST = 512
OWN_FILES: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


class Index(TypedDict):
    """The index of weights: the file of each."""

    weight_map: dict[str, str]


class Loaded(NamedTuple):
    """An encoder in memory: a ``PreTrainedModel``, the aligner of its tokeniser, and the id of padding."""

    model: Any
    aligner: Aligner
    pad: int


def found_folder(name: str, beside: Sequence[Path] = ()) -> Path:
    """The folder of an encoder: that of this name, here or in one of ``beside``; else it is fetched from the Hub."""
    if here := is_here(name, beside):
        return here
    if not HUB_ID.fullmatch(name) or os.path.isdir(name):
        layers = "; layers after a colon are numbers, as in -4..-1" if ":" in name else ""
        raise InputError(f"{name}: no folder with a model (it has no {CONFIG}): give one that has its files{layers}")
    try:
        from huggingface_hub import snapshot_download  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError(f"{name}: no such folder, and huggingface_hub is not installed: {INSTALL}") from None
    patterns: dict[str, Any] = {"allow_patterns": [*DESCRIPTION, "*.safetensors", INDEX], "ignore_patterns": ["*/*"]}
    for fetched in (True, False):  # what was fetched before needs no network
        try:
            folder = Path(snapshot_download(name, local_files_only=fetched, **patterns))
        except Exception as error:  # so many are those of the Hub's client and the network
            why = network_reason(error) or reason(error)
            continue
        # What another program fetched may be only a part.
        tokeniser = any(path.is_file() for part in (TOKENISER, *MADE_OF) for path in folder.glob(part))
        has = {"configuration": (folder / CONFIG).is_file(), "tokeniser": tokeniser}
        for path in _weight_files(folder):
            has["safetensors" if path.name == WEIGHTS else path.name] = os.path.isfile(path)
        missing = [file for file, is_there in has.items() if not is_there]
        if not missing:
            return folder
        why = f"it has no {' and no '.join(missing)}"
    raise InputError(f"{name}: neither a folder here nor a model of the Hugging Face Hub ({why}): give one") from None


def is_here(name: str, beside: Sequence[Path] = ()) -> Path | None:
    """The folder of an encoder that is named by its folder, here or in one of ``beside``; None if there is none."""
    folders = (folder / name for folder in (*beside, Path()))
    return next((folder for folder in folders if os.path.isfile(folder / CONFIG)), None)


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file() or not (folder / INDEX).is_file():
        return [folder / WEIGHTS]
    about: Index = read_json(folder / INDEX, Index, REMEDY)
    return [folder / name for name in (INDEX, *sorted(set(about["weight_map"].values())))]


def description_files(folder: Path) -> list[Path]:
    """The files of configuration and tokeniser."""
    # Not those that a whole tokeniser is also stored as: not all caches of the same encoder have them.
    whole = (folder / TOKENISER).is_file()
    parts = (part for part in DESCRIPTION if part.endswith(".json") or not whole)
    return sorted({path for part in parts for path in folder.glob(part) if path.is_file()})


def files_digest(folder: Path) -> str:
    """Digest of the files that decide an encoder's states: configuration, weights and tokeniser."""
    # Of a name that no file can have, os.path.isfile is false; Path.is_file is an error.
    files = sorted(filter(os.path.isfile, {*description_files(folder), *_weight_files(folder)}))
    # Mapped, as weights are large.
    parts = [np.memmap(path, np.uint8, "r") if path.stat().st_size else b"" for path in files]
    return digest("".join(f"{path.name} {digest(part)}\n" for path, part in zip(files, parts, strict=True)).encode())


def read_sizes(folder: Path) -> tuple[int, int]:
    """The dimension of an encoder's states, and its number of layers; InputError if transformers cannot tell them."""
    with _refusals(folder) as transformers:
        about = transformers.AutoConfig.from_pretrained(folder, **OWN_FILES)
        return int(about.hidden_size), int(about.num_hidden_layers)


def load_encoder(folder: Path) -> Loaded:
    """Load an encoder, in fp32, and its tokeniser, on the CPU, as ``save_pretrained`` writes them.

    Raises InputError if it cannot be loaded, or lacks weights or a fast tokeniser.
    """
    with _refusals(folder) as transformers:
        tokeniser = transformers.AutoTokenizer.from_pretrained(folder, **OWN_FILES)
        # A pooler that the file lacks is drawn at random: not from the numbers of the training that loads it.
        with torch.random.fork_rng(devices=[]):
            model, report = transformers.AutoModel.from_pretrained(
                folder, use_safetensors=True, dtype=torch.float32, output_loading_info=True, **OWN_FILES
            )
        missing = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
        if missing:
            raise ValueError(f"its weights lack {missing[0]}")
        loaded = _with_tokeniser(_encoder_of(model.eval()), tokeniser)
        # Try the last and the padding piece.
        about, read = loaded.model.config, torch.tensor([[len(tokeniser) - 1, loaded.pad]])
        with torch.no_grad():
            found = loaded.model(input_ids=read, attention_mask=torch.ones_like(read), output_hidden_states=True)
        shapes = [tuple(each.shape) for each in found.hidden_states]
        if shapes != [(1, 2, about.hidden_size)] * (about.num_hidden_layers + 1):
            raise ValueError(f"its states are of shapes {shapes}, not what its {CONFIG} says")
    return loaded


def _encoder_of(model: Any) -> Any:
    return model.get_encoder() if model.config.is_encoder_decoder else model


def _with_tokeniser(model: Any, tokeniser: Any) -> Loaded:
    """A model and its tokeniser; raise ValueError if that is not a fast one."""
    if not tokeniser.is_fast:
        raise ValueError("its tokeniser is not a fast one, which would need a tokenizer.json")
    named = (tokeniser.unk_token, tokeniser.mask_token, tokeniser.eos_token, "")
    unknown = next(token for token in named if token is not None)
    # How many pieces it reads at once; what the tokeniser says may be no limit.
    limits = [tokeniser.model_max_length]
    for name, part in model.named_modules():
        if name.endswith("position_embeddings") and hasattr(part, "padding_idx"):  # a table, of whatever class
            # Where padding has a position, the others come after it.
            limits.append(len(part.weight) - (0 if part.padding_idx is None else part.padding_idx + 1))
    configured = getattr(model.config, "max_position_embeddings", None)
    if configured and configured > 0:  # not of all encoders
        limits.append(configured)
    longest = min(limits) if min(limits) < 10**9 else LONGEST
    pads = (model.config.pad_token_id, tokeniser.pad_token_id, 0)
    pad = next(each for each in pads if each is not None)
    return Loaded(model, Aligner(tokeniser.backend_tokenizer, longest, unknown), pad)


@contextmanager
def _refusals(folder: Path, place: Path | None = None) -> Iterator[Any]:
    """The module transformers, without its notices; what it refuses is an InputError, which names the ``place``."""
    place = place or folder
    try:
        import transformers  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError(f"{place}: reading it needs transformers, which is not installed: {INSTALL}") from None
    with without_notices(transformers):
        try:
            yield transformers
        except Exception as error:  # transformers, tokenizers and safetensors each have their own
            why = reason(error).replace(str(folder), str(place))
            raise InputError(f"{place}: not an encoder that can be loaded: {why}: {REMEDY}") from None


@contextmanager
def without_notices(transformers: Any) -> Iterator[None]:
    """A context in which the module ``transformers`` shows no notices and no progress bars."""
    logs = transformers.utils.logging
    level, bars = logs.get_verbosity(), logs.is_progress_bar_enabled()
    logs.set_verbosity_error()
    logs.disable_progress_bar()
    try:
        yield
    finally:
        logs.set_verbosity(level)
        if bars:
            logs.enable_progress_bar()


class Blueprint:
    """An encoder without its weights: the contents of its files, by name, and their place, for messages."""

    def __init__(self, files: Mapping[str, bytes], place: Path):
        self.files = dict(files)
        self.place = place

    def __reduce__(self) -> Any:
        # Pickled to the same bytes after use: a tokeniser remembers words that it has read.
        return type(self), (self.files, self.place)

    @classmethod
    def of(cls, folder: Path) -> Self:
        """That of an encoder's folder."""
        return cls({path.name: path.read_bytes() for path in description_files(folder)}, folder)

    @classmethod
    def read(cls, path: Path, remedy: str) -> Self:
        """Read what ``write`` wrote; InputError with this remedy if it is missing or damaged."""
        files = {name: array.tobytes() for name, array in read_arrays(path, remedy).items()}
        if CONFIG not in files or any(Path(name).name != name for name in files):
            raise damaged(path, "it does not describe an encoder", remedy)
        return cls(files, path)

    def write(self, path: Path) -> None:
        """Write to one file."""
        write_arrays(path, {name: np.frombuffer(content, np.uint8) for name, content in self.files.items()})

    @property
    def digest(self) -> bytes:
        """Digest of the files, 16 bytes."""
        return bytes.fromhex(digest("".join(f"{name} {digest(self.files[name])}\n" for name in self.files).encode()))

    def unpack(self, folder: Path) -> None:
        """Write the files to a folder."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)

    @cached_property
    def tokeniser(self) -> Loaded:
        """Its tokeniser, and a model that has no weights; InputError if transformers does not know the encoder."""
        with torch.device("meta"), self._opened() as (transformers, folder):
            tokeniser = transformers.AutoTokenizer.from_pretrained(folder, **OWN_FILES)
            return _with_tokeniser(_fresh(transformers, folder), tokeniser)

    @property
    def aligner(self) -> Aligner:
        """Turns sentences into its pieces."""
        return self.tokeniser.aligner

    @property
    def dim(self) -> int:
        """Dimension of a state."""
        return int(self.tokeniser.model.config.hidden_size)

    def network(self) -> Any:
        """A model with fresh random weights, in training mode, on PyTorch's current device."""
        with self._opened() as opened:
            return _fresh(*opened)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, Path]]:
        """The module transformers, and a folder with the files."""
        with TemporaryDirectory() as name, _refusals(Path(name), self.place) as transformers:
            self.unpack(Path(name))
            yield transformers, Path(name)


def _fresh(transformers: Any, folder: Path) -> Any:
    about = transformers.AutoConfig.from_pretrained(folder, **OWN_FILES)
    return _encoder_of(transformers.AutoModel.from_config(about, dtype=torch.float32).train())
