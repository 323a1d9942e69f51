"""Splitting a parsed corpus by document."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from structviews.corpus.format import Form, skipped_of
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.writer import ShardWriter, what_made
from structviews.errors import InputError
from structviews.runtime.files import new_folder
from structviews.runtime.wording import counted

# Suffix of each part's folder.
SUFFIX = ".parsed"


def equal_shares(parts: int) -> dict[str, float]:
    """Shares of ``parts`` equal parts named 0, 1, ...

    Raises:
        InputError: if ``parts`` is less than 2.
    """
    if parts < 2:
        raise InputError(f"--parts {parts}: give at least 2")
    return {str(number): 1.0 for number in range(parts)}


def read_shares(text: str) -> dict[str, float]:
    """Parse shares such as ``train=0.9,dev=0.1``.

    Raises:
        InputError: unless there are at least two distinct names with positive numbers.
    """
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        try:
            value = float(share)
        except ValueError:
            value = 0.0
        if not name or name in shares or Path(name).name != name or not 0 < value < float("inf"):
            raise InputError(f"--shares {text}: {part.strip()!r}: give names with shares, as in train=0.9,dev=0.1")
        shares[name] = value
    if len(shares) < 2:
        raise InputError(f"--shares {text}: one part: give at least two, as in train=0.9,dev=0.1")
    return shares


def split(
    corpus: ParsedCorpus, shares: dict[str, float], out: Path, seed: int, progress: Callable[[int, int], None]
) -> dict[str, ParsedCorpus]:
    """Assign documents to parts at random and write each part as a corpus ``out/NAME.parsed``.

    Sentences keep their trees, document numbers, positions and order; skipped sentences go with their document. The
    manifests record the split under ``split``. Memory use is a few shards and a few bytes per document.

    Args:
        corpus: the corpus.
        shares: share of the documents by name of the part, relative to the sum of all shares.
        out: folder to create.
        seed: random seed.
        progress: called with the number of shards done and their total.

    Raises:
        InputError: if a part would have no documents, or ``out`` already exists.
    """
    documents = documents_of(corpus)
    parts = deal(len(documents), list(shares.values()), seed)
    for number, name in enumerate(shares):
        if not (parts == number).any():
            raise InputError(
                f"{corpus.path}: {counted(len(documents), 'document')}: none left for {name}: give fewer parts"
            )
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
    """The distinct document numbers ``(D,)``, ascending, including documents with skipped sentences only."""
    found = [np.unique([skip.document for skip in corpus.skipped]).astype(np.int32)]
    found += [np.unique(table["document"].to_numpy()) for table in corpus.tables()]
    return np.unique(np.concatenate(found))


def deal(n: int, shares: list[float], seed: int) -> np.ndarray:
    """The part ``(n,)`` of each document: a random permutation, cut according to the shares."""
    ends = np.round(np.cumsum(shares) / sum(shares) * n).astype(np.int64)
    parts = np.empty(n, np.int64)
    parts[np.random.default_rng(seed).permutation(n)] = np.searchsorted(ends, np.arange(n), side="right")
    return parts


def made(folder: Path) -> Path:
    """Create the folder and return it."""
    folder.mkdir()
    return folder
