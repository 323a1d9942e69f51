"""The beginning of a text or of a parsed corpus, as whole documents."""

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

import numpy as np

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.writer import write_subset
from structviews.parsing.sources import TextSource
from structviews.parsing.text import RawSentence
from structviews.runtime.files import new_folder, write_whole


def first_documents(sentences: Iterable[RawSentence], n: int) -> Iterator[list[RawSentence]]:
    """The first documents that have at most ``n`` sentences together; of a longer first one, its first ``n``."""
    left = n
    for _, document in groupby(sentences, attrgetter("document")):
        there = list(islice(document, left + 1))
        if len(there) <= left:
            yield there
        elif left == n:
            yield there[:n]
        if len(there) >= left:
            return
        left -= len(there)


def write_first_lines(source: TextSource, n: int, out: Path) -> None:
    """Write the beginning of a text, see ``first_documents``: a sentence a line, a blank line between documents."""

    def write(file: BinaryIO) -> None:
        for number, document in enumerate(first_documents(source.sentences(), n)):
            lines = "".join(f"{sentence.text}\n" for sentence in document)
            file.write(("\n" * (number > 0) + lines).encode())

    write_whole(out, write)


def write_first_rows(corpus: ParsedCorpus, n: int, out: Path) -> None:
    """Write the beginning of a parsed corpus, as ``first_documents`` has it, as one of its own."""
    documents = np.empty(0, np.int32)
    for table in corpus.tables():
        documents = np.append(documents, table["document"].to_numpy())
        if len(documents) > n:
            break
    if len(documents) > n:
        documents = documents[: int(np.searchsorted(documents, documents[n])) or n]
    with new_folder(out) as folder:
        folder.rmdir()  # which is made with what is in it
        write_subset(corpus, np.arange(len(documents)), folder)
