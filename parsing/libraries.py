"""Shared by the backends that wrap other libraries: models on disk, and trees over given tokens."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from structviews.corpus.sentence import InvalidSentence, ParsedSentence
from structviews.errors import InputError
from structviews.parsing.binarise import AnyTree, binarise, strip
from structviews.parsing.parser import Fault, Options, Unparsed, is_out_of_memory
from structviews.parsing.treebank import SPACE, unescaped
from structviews.runtime.wording import reason

QUOTES = {"``": '"', "''": '"'}


def library(name: str) -> ModuleType:
    """Import the library ``name``; raise InputError with the installation command if it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"--parser {name} needs {error.name}, which is not installed: pip install 'structviews[parsers]'"
        ) from None


def download_command(options: Options, *words: str) -> str:
    """The command that downloads a library's model, which ``words`` name, to the user's folder if there is one."""
    models = ["--models", str(options.models)] if options.models else []
    return " ".join(["structviews parser download", *filter(None, words), *models])


def surface(token: str) -> str:
    """A token as in running text, which the libraries' models were trained on: with plain brackets and quotes."""
    return QUOTES.get(token) or unescaped(token).replace(SPACE, " ")


@contextmanager
def errors_of(library: str) -> Iterator[None]:
    """Turn a library's errors into InvalidSentence, so that failing sentences are isolated and the others parsed."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise InvalidSentence(f"{library} failed ({reason(error)})") from error


def sentence(tokens: Sequence[str], tree: AnyTree | None = None, **fields: Any) -> ParsedSentence | Unparsed:
    """The sentence with a library's results, or a Fault if they are not a valid analysis of its tokens.

    A bracket ``tree`` over the tokens, or over their ``surface`` forms, gives constituents and, unless the other
    ``fields`` of the sentence have some, tags.
    """
    try:
        if tree:
            binary = binarise(strip(tree))
            for place, (leaf, token) in enumerate(zip(binary.tokens, tokens, strict=False), 1):
                if leaf not in (token, surface(token)):
                    return Fault(f"word {place} of the constituency tree is {leaf!r}, but the token is {token!r}")
            if len(binary.tokens) != len(tokens):
                return Fault(f"the constituency tree has {len(binary.tokens)} words for {len(tokens)} tokens")
            nodes = {"left": binary.left, "right": binary.right, "labels": binary.labels}
            fields = {"tags": binary.tags} | nodes | fields
        return ParsedSentence(tuple(tokens), **fields)
    except InvalidSentence as error:
        return Fault(str(error))
    except RecursionError:
        return Fault("the constituency tree is too deep")


def hash_files(root: Path, paths: Iterable[Path]) -> str:
    """One SHA-256 over the names below ``root`` and the contents of files, and of those in folders."""
    digest = hashlib.sha256()
    files = {file for path in paths for file in (path, *path.rglob("*")) if file.is_file()}
    for file in sorted(files):
        digest.update(f"{file.relative_to(root).as_posix()} {file.stat().st_size}\n".encode())
        with file.open("rb") as stream:
            hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()


@contextmanager
def offline() -> Iterator[None]:
    """Block requests to the Hugging Face Hub, which the libraries query even if told to load from disk only."""
    with ExitStack() as after:
        with suppress(ModuleNotFoundError):  # nothing that could ask the Hub
            from huggingface_hub import constants  # noqa: PLC0415

            after.callback(setattr, constants, "HF_HUB_OFFLINE", constants.HF_HUB_OFFLINE)
            constants.HF_HUB_OFFLINE = True
        yield
