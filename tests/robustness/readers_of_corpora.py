"""Readers of texts, treebanks, parsed corpora, parsing jobs, parser models and the evaluation tasks' files."""

import gzip
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from corpora import TINY
from readers import CACHE, SEALED, TEXT, Reader, Shared, Stopped, reader, verified

from structviews.batches.reader import CorpusReader
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.evaluation.senteval.tasks.finding import read_task
from structviews.parsing.backends.builtin import BuiltinParser
from structviews.parsing.neural import ParserConfig, ParserNetwork
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import TakeTrees, TreebankSource, open_source
from structviews.words.vocabulary import Vocabulary, count_words

TEXT_OF_MINE = (
    "A bird sings.\nTwo birds sing, he said.\n\nMr. Smith has 3 cats.\n“So what?” she asked.\n\n\nThe end of it all.\n"
)


def corpus_of(folder: Path, shared: Shared) -> None:
    source = TreebankSource(TINY, TakeTrees(100))
    parse_corpus(source, folder / "x.parsed", sentences_per_shard=5)


@reader(SEALED, "x.parsed/*", corpus_of, named="x.parsed", proved="*.arrow")
def corpus(folder: Path) -> Any:
    """As sentences, and straight to a training step's arrays."""
    opened = ParsedCorpus.open(folder / "x.parsed")
    words = {"trained": Vocabulary.of_corpus(opened)}
    read = CorpusReader(opened, words, frozenset({"tokens", "dependency", "constituency"}), False)
    arrays = vars(read.batch(np.arange(len(read), dtype=np.int32)))
    return list(opened), opened.skipped, count_words(opened), read.documents(), arrays


@reader(SEALED, "x.parsed/*", corpus_of, named="x.parsed shard-0 manifest.json")
def verify_corpus(folder: Path) -> None:
    verified(folder / "x.parsed")


class StopsInside(TreebankSource):
    def sentences(self) -> Any:
        yield from islice(super().sentences(), 8)
        raise Stopped


def treebank(folder: Path, shared: Shared) -> None:
    for path in TINY:
        (folder / path.name).write_bytes(path.read_bytes())


def unfinished_job(folder: Path, shared: Shared) -> None:
    treebank(folder, shared)
    with pytest.raises(Stopped):
        parse_corpus(StopsInside(treebank_of(folder), TakeTrees(100)), folder / "x.parsed", sentences_per_shard=2)


def treebank_of(folder: Path) -> list[Path]:
    return [folder / path.name for path in TINY]


@reader(CACHE, "x.parsed/*", unfinished_job, named="x.parsed")
def unfinished_parse(folder: Path) -> Any:
    source = TreebankSource(treebank_of(folder), TakeTrees(100))
    found, _ = parse_corpus(source, folder / "x.parsed", sentences_per_shard=2)
    return [path.read_bytes() for path in sorted(found.path.iterdir())]


@reader(TEXT, TINY[0].name, treebank, name="conllu")
@reader(TEXT, TINY[1].name, treebank, name="brackets", named=TINY[0].name)
def treebank_files(folder: Path) -> Any:
    found, _ = parse_corpus(TreebankSource(treebank_of(folder), TakeTrees(100)), folder / "x.parsed")
    return list(found)


def plain(folder: Path, shared: Shared) -> None:
    (folder / "x.txt").write_text(TEXT_OF_MINE)
    (folder / "x.txt.gz").write_bytes(gzip.compress(TEXT_OF_MINE.encode()))
    (folder / "x.txt.zst").write_bytes(pa.compress(TEXT_OF_MINE.encode(), "zstd", asbytes=True))


def sentences_of(path: Path, layout: str) -> Any:
    source = open_source([str(path)], parser="builtin", layout=layout, tokenised=False, max_tokens=100)
    return list(source.sentences())


@reader(TEXT, "x.txt x.txt.gz x.txt.zst", plain)
def text(folder: Path) -> Any:
    files = (("x.txt", "lines"), ("x.txt", "prose"), ("x.txt.gz", "lines"), ("x.txt.zst", "lines"))
    return [sentences_of(folder / name, layout) for name, layout in files]


def tiny_parser(folder: Path, shared: Shared) -> None:
    names = {"words": ["the", "bird"], "tags": ["NN", "DT"], "relations": ["det", "root"], "labels": ["", "NP", "S"]}
    config = ParserConfig(
        *map(len, names.values()), buckets=20, word_dim=4, affix_dim=4, dim=8, blocks=1, heads=2, arc_dim=4,
        relation_dim=4, span_dim=4,
    )  # fmt: skip
    torch.manual_seed(3)
    settings = {"version": "1", **names, "config": vars(config)}
    BuiltinParser(ParserNetwork(config), settings).save(folder / "parser")


@reader(SEALED, "parser/*", tiny_parser, named="parser")
def builtin_parser(folder: Path) -> Any:
    parser = BuiltinParser.read(folder / "parser")
    return parser.describe(), parser.parse([["the", "bird", "sings"], ["Go", "!"]])


DATA = Path(__file__).parents[2] / "data"
FILES = {
    "MR": "MR/*",
    "SST5": "SST/fine/*",
    "TREC": "TREC/*",
    "SICK-R": "SICK/*",
    "SNLI": "SNLI/*",
    "STS-B": "STS/STSBenchmark/*",
    "STS13": "STS/STS13-en-test/*",
}


def task_reader(task: str, files: str) -> Reader:
    names = [path.relative_to(DATA / "senteval") for path in DATA.joinpath("senteval").glob(files)]

    def copied(folder: Path, shared: Shared) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(DATA / "senteval" / name, folder / name)

    # A file that does not fit another may be either.
    others = " ".join(name.name for name in names)
    return reader(TEXT, files, copied, name=f"task-{task}", named=others)(
        lambda folder: read_task(task, folder, allow_partial=True)
    )


for each, pattern in FILES.items():
    task_reader(each, pattern)


def probing(folder: Path, shared: Shared) -> None:
    shutil.copy(DATA / "probing/length_classes.txt", folder)


@reader(TEXT, "length_classes.txt", probing)
def probing_task(folder: Path) -> Any:
    return read_task("length_classes", None, allow_partial=True, probing=folder)
