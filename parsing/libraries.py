"""Shared by the backends that wrap other libraries: models on disk, and trees over given tokens."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from structviews.corpus.sentence import InvalidSentence, ParsedSentence
from structviews.errors import InputError
from structviews.parsing.binarise import AnyTree, binarise, strip
from structviews.parsing.parser import Fault, Options, Unparsed, is_out_of_memory
from structviews.parsing.treebank import ESCAPE, ESCAPES

# Replaces a space inside a library's token (the number 1 000), since our tokens have no spaces.
SPACE = "\u2423"
QUOTES = {"``": '"', "''": '"'}
CHUNK_BYTES = 1 << 20


def library(name: str) -> ModuleType:
    """Import the library ``name``; raise InputError with the installation command if it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"--parser {name} needs {error.name}, which is not installed: pip install 'structviews[parsers]'"
        ) from None


def download_command(library: str, *words: str | Path | None) -> str:
    """The command that downloads a model; the last of ``words`` is the target folder."""
    *arguments, models = words
    chosen = [str(word) for word in arguments if word] + (["--models", str(models)] if models else [])
    return " ".join(["structviews parser download", library, *chosen])


def surface(token: str) -> str:
    """A token as it appears in running text, which the libraries' models were trained on.

    Penn Treebank brackets and quotation marks are replaced, but only in the models' input.
    """
    return QUOTES.get(token) or ESCAPE.sub(lambda match: ESCAPES[match.group()], token).replace(SPACE, " ")


def as_token(word: str) -> str:
    """Turn a library's word into one of our tokens, which have no white space."""
    return re.sub(r"\s", SPACE, word)


@contextmanager
def errors_of(library: str) -> Iterator[None]:
    """Turn a library's errors into InvalidSentence, so that failing sentences are isolated and the others parsed."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise InvalidSentence(f"{library} failed ({one_line(error)})") from error


def sentence(tokens: Sequence[str], tree: AnyTree | None = None, **fields: Any) -> ParsedSentence | Unparsed:
    """The sentence with a library's results, or a Fault if they are not a valid analysis of its tokens."""
    try:
        return ParsedSentence(**{"tokens": tuple(tokens)} | (constituents(tree, tokens) if tree else {}) | fields)
    except InvalidSentence as error:
        return Fault(str(error))
    except RecursionError:
        return Fault("the constituency tree is too deep")


def constituents(tree: AnyTree, tokens: Sequence[str]) -> dict[str, Any]:
    """The constituency fields and tags of a sentence.

    Args:
        tree: a library's bracket tree, whose leaves are the tokens or their ``surface`` forms.
        tokens: the tokens that were parsed.

    Raises:
        InvalidSentence: if the leaves are different words.
    """
    binary = binarise(strip(tree))
    for place, (leaf, token) in enumerate(zip(binary.tokens, tokens, strict=False), 1):
        if leaf not in (token, surface(token)):
            raise InvalidSentence(f"word {place} of the constituency tree is {leaf!r}, but the token is {token!r}")
    if len(binary.tokens) != len(tokens):
        raise InvalidSentence(f"the constituency tree has {len(binary.tokens)} words for {len(tokens)} tokens")
    return {"tags": binary.tags, "left": binary.left, "right": binary.right, "labels": binary.labels}


def hash_files(root: Path, paths: Iterable[Path]) -> str:
    """One SHA-256 over the names below ``root`` and the contents of files."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(root).as_posix()} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while part := file.read(CHUNK_BYTES):
                digest.update(part)
    return digest.hexdigest()


def device(options: Options) -> str:
    """The device to compute on: the user's choice, else a GPU if there is one."""
    if options.device:
        return options.device
    import torch  # noqa: PLC0415 - slow to import

    return "cuda" if torch.cuda.is_available() else "cpu"


def files_of(path: Path) -> list[Path]:
    """The files of a model: the file itself, or all files in its folder."""
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def one_line(error: BaseException) -> str:
    """A library error's message in one line, short enough to quote in ours."""
    return (" ".join(str(error).split()) or type(error).__name__)[:200]


@contextmanager
def offline() -> Iterator[None]:
    """Block requests to the Hugging Face Hub: models are loaded from disk only.

    The libraries query the Hub for newer files, and for the transformer that a parser uses, even when
    they are told not to contact their own servers.
    """
    try:
        from huggingface_hub import constants  # noqa: PLC0415
    except ModuleNotFoundError:  # nothing that could ask the Hub
        yield
        return
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
