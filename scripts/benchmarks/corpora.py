"""Sentences to measure on: a parsed corpus, or random trees shaped like English ones."""

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from structviews.batches.batch import Batch, collate
from structviews.corpus.format import Row, new_job
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.corpus.writer import write_manifest, write_shard
from structviews.words.vocabulary import UNKNOWN, Vocabulary

SHARD = 1000
DOCUMENT = 40
N_WORDS = 20_000
# Where to cut a constituent of the words [start, end): a place between them.
Split = Callable[[int, int, random.Random], int]


def english_split(start: int, end: int, rng: random.Random) -> int:
    """Cut off the first word often, the last one sometimes, else anywhere.

    With heads as in ``parse`` this gives GUM's levels and share of leaves: at 15 to 19 words,
    dependency trees of height 4.0 (GUM 3.9) and binary ones of 9.5 (9.6); 63 % of words are leaves (65 %).
    """
    chance = rng.random()
    return start + 1 if chance < 0.4 else end - 1 if chance < 0.5 else rng.randint(start + 1, end - 1)


def first_word(start: int, end: int, rng: random.Random) -> int:
    """Cut off the first word, for trees of maximum height."""
    return start + 1


def halves(start: int, end: int, rng: random.Random) -> int:
    """Cut in the middle, for trees of minimum height."""
    return (start + end) // 2


def parse(tokens: tuple[str, ...], rng: random.Random, split: Split = english_split) -> ParsedSentence:
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


def random_sentences(
    count: int, seed: int, split: Split = english_split, length: int | None = None
) -> list[ParsedSentence]:
    """Sentences of random words, with GUM's lengths (17 words on average) unless ``length`` is given."""
    rng = random.Random(seed)
    lengths = [length or min(max(round(rng.lognormvariate(2.6, 0.75)), 1), 100) for _ in range(count)]
    # Like Zipf's law: few words are most of the text.
    return [parse(tuple(f"w{int(N_WORDS ** rng.random())}" for _ in range(n)), rng, split) for n in lengths]


def random_corpus(folder: Path, count: int) -> ParsedCorpus:
    """A parsed corpus of random sentences."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [Row(i // DOCUMENT, i % DOCUMENT, i + 1, s) for i, s in enumerate(random_sentences(count, seed=1))]
    shards = [rows[start : start + SHARD] for start in range(0, count, SHARD)]
    entries = []
    for number, shard in enumerate(shards):
        entries.append(write_shard(folder, number, shard, []))
    job = new_job(parser={"name": "random"}, tokeniser={"name": "random"}, settings={}, sources=[])
    write_manifest(folder, entries, job)
    return ParsedCorpus.open(folder)


def batch_of(sentences: Sequence[ParsedSentence], needs: Iterable[str]) -> Batch:
    """A batch of sentences in memory, all of whose words are known."""
    words = dict.fromkeys(token for sentence in sentences for token in sentence.tokens)
    return collate(sentences, {"words": Vocabulary([UNKNOWN, *words])}, needs)
