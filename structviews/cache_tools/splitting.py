"""One parsed corpus as several, each with whole documents."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from structviews.cache import Form, ParsedCorpus, ShardWriter, skipped_of, what_made
from structviews.errors import InputError

from .whole import new_folder

# What a part may be called, since it becomes a folder's name.
SUFFIX = ".parsed"


def equal_shares(parts: int) -> dict[str, float]:
    """Shares of ``parts`` equal parts that are called 0, 1, ...

    Raises:
        InputError: for fewer than two.
    """
    if parts < 2:
        raise InputError(f"--parts {parts}: give at least 2")
    return {str(number): 1.0 for number in range(parts)}


def read_shares(text: str) -> dict[str, float]:
    """Shares by name as a user writes them: ``train=0.9,dev=0.1``.

    Raises:
        InputError: unless these are two or more names with numbers above 0.
    """
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        try:
            value = float(share)
        except ValueError:
            value = 0.0
        if not name or name in shares or Path(name).name != name or not 0 < value < float("inf"):
            raise InputError(f"--shares {text}: {part.strip()!r}: give names with shares, such as train=0.9,dev=0.1")
        shares[name] = value
    if len(shares) < 2:
        raise InputError(f"--shares {text}: one part: give two or more, such as train=0.9,dev=0.1")
    return shares


def split(
    corpus: ParsedCorpus, shares: dict[str, float], out: Path, seed: int, progress: Callable[[int, int], None]
) -> dict[str, ParsedCorpus]:
    """Deal the documents of a corpus to parts at random and write each as a corpus, ``out/NAME.parsed``.

    Sentences keep their trees, the numbers of their documents and their places, and stay in order; sentences that
    were skipped go with their document. The manifests have under ``split`` how. Besides a few shards, a few bytes a
    document are held in memory.

    Args:
        corpus: the corpus.
        shares: by name, relative to their sum; of the number of documents.
        out: folder to make.
        seed: of the dealing.
        progress: told the number of shards done and their total.

    Raises:
        InputError: if a part would have no document, or ``out`` is there already.
    """
    documents = documents_of(corpus)
    parts = deal(len(documents), list(shares.values()), seed)
    for number, name in enumerate(shares):
        if not (parts == number).any():
            raise InputError(f"{corpus.path}: {len(documents)} documents: none for {name}: give fewer parts")
    with new_folder(out) as folder:
        form = Form.of(corpus.manifest)
        writers = [ShardWriter(made(folder / f"{name}{SUFFIX}"), form) for name in shares]
        for number, table in enumerate(corpus.tables(), 1):
            of_row = parts[np.searchsorted(documents, table["document"].to_numpy())]
            skipped = skipped_of(table)
            of_skip = parts[np.searchsorted(documents, [skip.document for skip in skipped])]
            for part, writer in enumerate(writers):
                there = [skip for skip, its in zip(skipped, of_skip, strict=True) if its == part]
                writer.add(table.filter(pa.array(of_row == part)), there)
            progress(number, corpus.n_shards)
        dealt = {"corpus": corpus.fingerprint, "shares": shares, "seed": seed}
        for name, writer in zip(shares, writers, strict=True):
            writer.finish({**what_made(corpus), "split": {**dealt, "part": name}})
    return {name: ParsedCorpus.open(out / f"{name}{SUFFIX}") for name in shares}


def documents_of(corpus: ParsedCorpus) -> np.ndarray:
    """The different document numbers (D,), ascending, those with nothing but skipped sentences too."""
    found = [np.unique([skip.document for skip in corpus.skipped]).astype(np.int32)]
    found += [np.unique(table["document"].to_numpy()) for table in corpus.tables()]
    return np.unique(np.concatenate(found))


def deal(n: int, shares: list[float], seed: int) -> np.ndarray:
    """The part (n,) of each document: a random order is cut where the shares end."""
    ends = np.round(np.cumsum(shares) / sum(shares) * n).astype(np.int64)
    parts = np.empty(n, np.int64)
    parts[np.random.default_rng(seed).permutation(n)] = np.searchsorted(ends, np.arange(n), side="right")
    return parts


def made(folder: Path) -> Path:
    """The folder, made."""
    folder.mkdir()
    return folder
