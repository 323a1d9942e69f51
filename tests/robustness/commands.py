"""The commands that write, small, and what of their results may differ from one call to the next."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from corpora import opened, small_config, topic_corpus
from readers import QUIET
from tiny_encoders import encoder_folder
from vector_files import random_vectors, write_vectors

from structviews.training.loop import train
from structviews.words.vocabulary import count_words

DATA = Path(__file__).parents[2] / "data"
BLOCK = 1024  # sentences that are encoded at once
SMALL = "--corpus x.parsed --hidden 8 --word-dim 6 --batch-size 16 --log-every 1 --lr 0.02 --precision fp32"


def without_seconds(content: bytes) -> bytes:
    """Results without the seconds that scoring took, and the checksum that covers them."""
    return re.sub(rb'"seconds": \{[^}]*\}|"checksum": "[^"]*"', b"", content)


def without_rates(content: bytes) -> bytes:
    """A log without sentences per second."""
    lines = [json.loads(line) for line in content.splitlines()]
    kept = [{key: value for key, value in line.items() if "per_second" not in key} for line in lines]
    return "\n".join(map(json.dumps, kept)).encode()


def without_hours(content: bytes) -> bytes:
    """A reproduced row, in JSON or Markdown, without the hours of its training."""
    return re.sub(rb"\{[^{}]*\"measure\": \"hours\"[^{}]*\}|\| hours \|.*", b"", content)


# What may differ, and why: the time that something took.
DIFFERS: dict[str, Callable[[bytes], bytes]] = {
    r".*\.bin\.arrow": lambda content: b"",  # has the time of the vectors that it is a copy of
    r".*/results.*\.json": without_seconds,
    r".*/log\.jsonl": without_rates,
    r".*/single-views-fg\.(json|md)": without_hours,
}


@dataclass(frozen=True)
class Command:
    """A command that writes."""

    name: str
    arguments: str
    make: Callable[[Path], object]  # writes what it reads


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """The content of all files below a folder, as it is compared; None for folders."""
    found: dict[str, bytes | None] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        # The user's folder itself, and what matplotlib keeps there of fonts.
        if name.startswith(".home/matplotlib") or (name.split("/")[0] == ".home" and path.is_dir()):
            continue
        content = None if path.is_dir() else path.read_bytes()
        for pattern, same in DIFFERS.items():
            if content is not None and re.fullmatch(pattern, f"/{name}"):
                content = same(content)
        found[name] = content
    return found


def treebank(folder: Path) -> None:
    for suffix in (".conllu", ".ptb"):
        content = (DATA / f"treebank/sample{suffix}").read_bytes()
        (folder / f"x{suffix}").write_bytes(content * 8)


def text(folder: Path) -> None:
    (folder / "x.txt").write_text("".join(f"a bird {i} sings\n" for i in range(6000)))


def corpus(folder: Path, documents: int = 40) -> None:
    topic_corpus(folder / "x.parsed", documents=documents)


def two_corpora(folder: Path) -> None:
    corpus(folder)
    topic_corpus(folder / "y.parsed", documents=40, seed=1)


def encoder(folder: Path) -> None:
    corpus(folder)
    encoder_folder(folder / "tiny")


def runs(folder: Path) -> None:
    """Two runs whose settings name files of this folder, word vectors, and a text of more than one block."""
    corpus(folder)
    words = sorted(count_words(opened(folder / "x.parsed")))
    write_vectors(folder / "v.vec", words, random_vectors(words, 6))
    for views in (("seq", "avg"), ("avg", "bow")):
        config = small_config("x.parsed", f"runs/{'-'.join(views)}", views, steps=4, precision="fp32")
        train(config, QUIET)
    chosen = np.random.default_rng(0).choice(words, size=(6 * BLOCK, 4))
    (folder / "x.txt").write_text("".join(f"{' '.join(line)}\n" for line in chosen))


def samples(folder: Path) -> None:
    shutil.copytree(DATA / "senteval", folder / "senteval")
    shutil.copy(DATA / "corpus.txt", folder)


def tasks(folder: Path) -> None:
    runs(folder)
    samples(folder)


COMMANDS = [
    Command("parse-treebank", "parse x.conllu x.ptb --parser treebank -o x.parsed", treebank),
    Command("train", f"train --views dep,const {SMALL} --epochs 2 --out run --checkpoint-minutes 0.002", corpus),
    Command("encode", "encode runs/avg-bow x.txt --tokenised -o x.npy --workers 1", runs),
    Command("nearest", "nearest runs/avg-bow --corpus x.txt --query topic1-1 --tokenised", runs),
    Command("vectors", "vectors x.parsed -o new.vec --dim 8 --min-count 1 --epochs 6", corpus),
    Command("expand", "runs expand runs/seq-avg --vectors v.vec", runs),
    Command("join", "join runs/seq-avg runs/avg-bow -o runs/joined", runs),
    Command("corpus-merge", "corpus merge x.parsed y.parsed -o all.parsed", two_corpora),
    Command("corpus-export", "corpus export x.parsed -o out", corpus),
    Command("make-probing", "tasks make-probing x.parsed -o probing --size 500", partial(corpus, documents=400)),
    Command("pull", "pull default -o runs/default", lambda folder: None),
]
SLOW_COMMANDS = [
    Command("parse", "parse x.txt --parser trivial:right-branching --workers 2 --tokenised --format lines", text),
    Command("encode-by-workers", "encode runs/avg-bow x.txt --tokenised -o x.npy --workers 2", runs),
    Command(
        "reproduce",
        "reproduce single-views-fg --corpus corpus.txt --senteval senteval --hidden 8 --epochs 1 --sentences 600 "
        "--tasks TREC,SICK14 -o out",
        samples,
    ),
    Command("eval", "eval runs/seq-avg --senteval senteval --partial --tasks MR,TREC,SICK-R,STS13,SNLI", tasks),
    Command("states", "corpus states x.parsed --encoder tiny", encoder),
    Command("report", "report runs/seq-avg runs/avg-bow -o report.html", tasks),
]
