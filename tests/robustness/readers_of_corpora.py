"""Readers of texts, treebanks, parsed corpora, parsing jobs and parser models."""

import gzip
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from corpora import TINY
from readers import CACHE, SEALED, TEXT, Shared, reader, verified

from structviews.batches.reader import CorpusReader
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.parsing.backends.builtin import BuiltinParser
from structviews.parsing.neural import ParserConfig, ParserNetwork
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import TreebankSource, open_source
from structviews.words.vocabulary import Vocabulary, count_words

TEXT_OF_MINE = (
    "A bird sings.\nTwo birds sing, he said.\n\nMr. Smith has 3 cats.\n“So what?” she asked.\n\n\nThe end of it all.\n"
)


def corpus_of(folder: Path, shared: Shared) -> None:
    source = TreebankSource(TINY, max_tokens=100)
    parse_corpus(source, folder / "x.parsed", sentences_per_shard=5)


@reader(SEALED, "x.parsed/*", corpus_of, named="x.parsed", proved="*.arrow")
def corpus(folder: Path) -> Any:
    opened = ParsedCorpus.open(folder / "x.parsed")
    rows = list(opened)
    return rows, opened.skipped, count_words(opened)


@reader(SEALED, "x.parsed/*", corpus_of, named="x.parsed", proved="*.arrow")
def corpus_in_batches(folder: Path) -> Any:
    """Without a sentence made of it: straight to a training step's arrays."""
    opened = ParsedCorpus.open(folder / "x.parsed")
    words = {"trained": Vocabulary.of_corpus(opened)}
    read = CorpusReader(opened, words, frozenset({"tokens", "dependency", "constituency"}), False)
    return read.documents(), vars(read.batch(torch.arange(len(read), dtype=torch.int32).numpy()))


@reader(SEALED, "x.parsed/*", corpus_of, named="x.parsed shard-0 manifest.json")
def verify_corpus(folder: Path) -> None:
    verified(folder / "x.parsed")


class Stopped(Exception):  # noqa: N818 - no error
    """Where an unfinished job stops."""


class StopsInside(TreebankSource):
    def sentences(self) -> Any:
        for number, sentence in enumerate(super().sentences()):
            if number == 8:
                raise Stopped
            yield sentence


def unfinished_job(folder: Path, shared: Shared) -> None:
    for path in TINY:
        (folder / path.name).write_bytes(path.read_bytes())
    with suppress(Stopped):
        parse_corpus(StopsInside(treebank_of(folder), max_tokens=100), folder / "x.parsed", sentences_per_shard=2)


def treebank_of(folder: Path) -> list[Path]:
    return [folder / path.name for path in TINY]


@reader(CACHE, "x.parsed/*", unfinished_job, named="x.parsed")
def unfinished_parse(folder: Path) -> Any:
    source = TreebankSource(treebank_of(folder), max_tokens=100)
    found, _ = parse_corpus(source, folder / "x.parsed", sentences_per_shard=2)
    return [path.read_bytes() for path in sorted(found.path.iterdir())]


def treebank(folder: Path, shared: Shared) -> None:
    for path in TINY:
        (folder / path.name).write_bytes(path.read_bytes())


@reader(TEXT, TINY[0].name, treebank, name="conllu")
@reader(TEXT, TINY[1].name, treebank, name="brackets", named=TINY[0].name)
def treebank_files(folder: Path) -> Any:
    found, _ = parse_corpus(TreebankSource(treebank_of(folder), max_tokens=100), folder / "x.parsed")
    return list(found)


def plain(folder: Path, shared: Shared) -> None:
    (folder / "x.txt").write_text(TEXT_OF_MINE)
    (folder / "x.txt.gz").write_bytes(gzip.compress(TEXT_OF_MINE.encode()))
    (folder / "x.txt.zst").write_bytes(pa.compress(TEXT_OF_MINE.encode(), "zstd", asbytes=True))


def sentences_of(path: Path, layout: str) -> Any:
    source = open_source([str(path)], parser="builtin", layout=layout, tokenised=False, max_tokens=100)
    return list(source.sentences())


@reader(TEXT, "x.txt", plain)
def text(folder: Path) -> Any:
    return sentences_of(folder / "x.txt", "lines"), sentences_of(folder / "x.txt", "prose")


@reader(TEXT, "x.txt.gz x.txt.zst", plain)
def text_compressed(folder: Path) -> Any:
    return [sentences_of(folder / name, "lines") for name in ("x.txt.gz", "x.txt.zst")]


def tiny_parser(folder: Path, shared: Shared) -> None:
    names = {"words": ["the", "bird"], "tags": ["NN", "DT"], "relations": ["det", "root"], "labels": ["", "NP", "S"]}
    config = ParserConfig(
        *map(len, names.values()), buckets=20, word_dim=4, affix_dim=4, dim=8, blocks=1, heads=2, arc_dim=4,
        relation_dim=4, span_dim=4,
    )  # fmt: skip
    torch.manual_seed(3)
    settings = {"version": "1", **names, "config": config.to_dict()}
    BuiltinParser(ParserNetwork(config), settings).save(folder / "parser")


@reader(SEALED, "parser/*", tiny_parser, named="parser")
def builtin_parser(folder: Path) -> Any:
    parser = BuiltinParser.read(folder / "parser")
    return parser.describe(), parser.parse([["the", "bird", "sings"], ["Go", "!"]])
