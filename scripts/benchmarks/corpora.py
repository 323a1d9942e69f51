"""Sentences to measure on: random trees shaped like English ones, and texts of sentences of one length."""

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from structviews.corpus.layout import MANIFEST, Form, Row, batch_of, encode_shard, new_job
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.corpus.writer import write_manifest, write_shard
from structviews.runtime.documents import write_json

SHARD = 1000
DOCUMENT = 40
N_WORDS = 20_000
# Sentences that are written for a corpus, whatever its size.
WRITTEN = 16_000


def split(start: int, end: int, rng: random.Random) -> int:
    """Where to cut a constituent of the words [start, end): behind the first word often, before the last sometimes.

    With heads as in ``parse`` this gives GUM's levels and share of leaves: at 15 to 19 words,
    dependency trees of height 4.0 (GUM 3.9) and binary ones of 9.5 (9.6); 63 % of words are leaves (65 %).
    """
    chance = rng.random()
    return start + 1 if chance < 0.4 else end - 1 if chance < 0.5 else rng.randint(start + 1, end - 1)


def parse(tokens: tuple[str, ...], rng: random.Random) -> ParsedSentence:
    """Random trees over the tokens; a constituent's head is mostly that of its larger part."""
    n, left, right, heads = len(tokens), [], [], [0] * len(tokens)

    def build(start: int, end: int) -> tuple[int, int]:
        """Node and head word of the constituent [start, end)."""
        if end - start == 1:
            return start, start
        middle = split(start, end, rng)
        (l_node, l_head), (r_node, r_head) = build(start, middle), build(middle, end)
        left.append(l_node)
        right.append(r_node)
        larger_right = end - middle > middle - start
        head, dependent = (r_head, l_head) if larger_right == (rng.random() < 0.75) else (l_head, r_head)
        heads[dependent] = head + 1
        return n + len(left) - 1, head

    build(0, n)
    relations = tuple("dep" if head else "root" for head in heads)
    labels = ("",) * (2 * n - 2) + ("S",)
    return ParsedSentence(tokens, ("X",) * n, tuple(heads), relations, tuple(left), tuple(right), labels)


def random_sentences(count: int) -> list[ParsedSentence]:
    """Sentences of random words, with GUM's lengths: 17 words on average."""
    rng = random.Random(1)
    lengths = [min(max(round(rng.lognormvariate(2.6, 0.75)), 1), 100) for _ in range(count)]
    # Like Zipf's law: few words are most of the text.
    return [parse(tuple(f"w{int(N_WORDS ** rng.random())}" for _ in range(n)), rng) for n in lengths]


def random_corpus(folder: Path, count: int) -> ParsedCorpus:
    """A parsed corpus of at least ``count`` random sentences; a large one's manifest lists the same shards repeatedly.

    Every listed shard is mapped and decoded anew, as distinct ones would be, so only the disk is not measured.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sentences = random_sentences(min(count, WRITTEN))
    rows = [Row(i // DOCUMENT, i % DOCUMENT, i + 1, sentence) for i, sentence in enumerate(sentences)]
    shards = [rows[start : start + SHARD] for start in range(0, len(rows), SHARD)]
    contents = (encode_shard(batch_of(shard, Form()), [], Form()) for shard in shards)
    entries = [write_shard(folder, number, content) for number, content in enumerate(contents)]
    job = new_job(parser={"name": "random"}, tokeniser={"name": "random"}, settings={}, sources=[])
    write_manifest(folder, entries, job)
    manifest, times = json.loads((folder / MANIFEST).read_text("utf-8")), -(-count // len(rows))
    manifest |= {name: times * manifest[name] for name in ("documents", "sentences", "tokens", "shards")}
    write_json(folder / MANIFEST, manifest)
    return ParsedCorpus.open(folder)


def of_length(lines: Iterable[str], words: int, most: int) -> list[str]:
    """At most so many different sentences of so many words between white space, from all parts of a text.

    If there are too few, longer sentences are cut. None is repeated: what encoders calculate once for equal words and
    equal parts of trees would look too good.
    """
    exact, longer = {}, {}
    for line in lines:
        tokens = line.split()
        if len(tokens) == words:
            exact[line.strip()] = None
        elif len(tokens) > words:
            longer[" ".join(tokens[:words])] = None
    texts = spread(list(exact), most)
    texts += spread([text for text in longer if text not in exact], most - len(texts))
    return [texts[i] for i in np.random.default_rng(0).permutation(len(texts))]


def spread(items: Sequence[str], most: int) -> list[str]:
    """At most so many of the items, at even distances."""
    positions = np.linspace(0, len(items), min(most, len(items)), endpoint=False).astype(int)
    return [items[i] for i in positions]
