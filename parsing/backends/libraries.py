"""What the backends around other libraries share: their models on disk, and trees over given tokens."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from nltk.tree import Tree

from structviews.errors import InputError
from structviews.sentence import InvalidSentence, ParsedSentence

from ..binarise import binarise, strip
from . import Options, Unparsed
from .guard import Fault, is_out_of_memory
from .treebank import ESCAPE, ESCAPES

# Stands in a token of ours for the space that one of a library's may hold (a number written 1 000).
SPACE = "\u2423"
QUOTES = {"``": '"', "''": '"'}
CHUNK_BYTES = 1 << 20


def library(name: str) -> ModuleType:
    """The library ``name``; InputError with the command that installs it if it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"--parser {name} needs {error.name}, which is not installed: pip install 'structviews[parsers]'"
        ) from None


def download_command(library: str, *words: str | Path | None) -> str:
    """What a user types to fetch a model; the last word is the folder for it."""
    *arguments, models = words
    chosen = [str(word) for word in arguments if word] + (["--models", str(models)] if models else [])
    return " ".join(["structviews parser download", library, *chosen])


def surface(token: str) -> str:
    """A token as it stands in running text, which is what the libraries' models were trained on.

    Only what a model sees is changed: brackets and quotation marks that are written the Penn Treebank's way.
    """
    return QUOTES.get(token) or ESCAPE.sub(lambda match: ESCAPES[match.group()], token).replace(SPACE, " ")


def as_token(word: str) -> str:
    """A library's word as a token of ours, which has no white space."""
    return re.sub(r"\s", SPACE, word)


@contextmanager
def errors_of(library: str) -> Iterator[None]:
    """Make a library's error one about sentences, so that those at fault are found and the others parsed."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise InvalidSentence(f"{library} failed ({one_line(error)})") from error


def sentence(tokens: Sequence[str], tree: Tree | None = None, **fields: Any) -> ParsedSentence | Unparsed:
    """The sentence with what a library found, or why that is no analysis of its tokens."""
    try:
        return ParsedSentence(**{"tokens": tuple(tokens)} | (constituents(tree, tokens) if tree else {}) | fields)
    except InvalidSentence as error:
        return Fault(str(error))
    except RecursionError:
        return Fault("the constituency tree is too deep")


def constituents(tree: Tree, tokens: Sequence[str]) -> dict[str, Any]:
    """The constituency fields and tags of a sentence.

    Args:
        tree: a library's bracket tree, whose leaves are the tokens or ``surface`` of them.
        tokens: the tokens that were parsed.

    Raises:
        InvalidSentence: if the leaves are other words.
    """
    binary = binarise(strip(tree))
    for place, (leaf, token) in enumerate(zip(binary.tokens, tokens, strict=False), 1):
        if leaf not in (token, surface(token)):
            raise InvalidSentence(f"word {place} of the constituency tree is {leaf!r}, and the token is {token!r}")
    if len(binary.tokens) != len(tokens):
        raise InvalidSentence(f"a constituency tree over {len(binary.tokens)} words for {len(tokens)} tokens")
    return {"tags": binary.tags, "left": binary.left, "right": binary.right, "labels": binary.labels}


def hash_files(root: Path, paths: Iterable[Path]) -> str:
    """One SHA-256 of files: of their names below ``root`` and of what they hold."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(root).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while part := file.read(CHUNK_BYTES):
                digest.update(part)
    return digest.hexdigest()


def device(options: Options) -> str:
    """Where to calculate: where the user says, else on the GPU if there is one."""
    if options.device:
        return options.device
    import torch  # noqa: PLC0415 - slow to import

    return "cuda" if torch.cuda.is_available() else "cpu"


def files_of(path: Path) -> list[Path]:
    """The files of a model: itself, or what its folder holds."""
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def one_line(error: BaseException) -> str:
    """What an error of a library says, short enough for a message of ours."""
    return (" ".join(str(error).split()) or type(error).__name__)[:200]


@contextmanager
def offline() -> Iterator[None]:
    """No request to the Hugging Face hub meanwhile: models are taken from the disk or not at all.

    The libraries ask the hub for newer files, and for the transformer below a parser, even where
    they are told to stay away from their own servers.
    """
    from huggingface_hub import constants  # noqa: PLC0415

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
