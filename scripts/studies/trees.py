"""A study's corpora: documents drawn from parsed corpora, and the same sentences with other trees."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from structviews.corpus.flat import Flat
from structviews.corpus.format import Form, Row, rows_of, skipped_of
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.corpus.writer import what_made, write_manifest, write_shard, write_subset
from structviews.parsing import specification
from structviews.runtime.files import new_folder
from studies.rows import NOISE

SEED = 1
# Sentences that the trees of two parsers are compared on.
COMPARED = 10_000
# Of the built-in parser on GUM's development section, in 8 bits: docs/parser.md.
OWN_LAS, OWN_UAS, OWN_F1 = 86.88, 89.22, 85.97
# Of its errors of attachment or label, the share that are of attachment: (100 - UAS) / (100 - LAS).
OF_ATTACHMENT = 0.82
Change = Callable[[Sequence[ParsedSentence]], list[ParsedSentence]]


def drawn(
    documents: np.ndarray, groups: Sequence[str], held_out: int, sizes: Sequence[int]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Draw whole documents, the same number of sentences of each group; smaller corpora are parts of larger ones.

    The documents of each group are shuffled. The first ones are held out, those that follow are the corpora: each
    takes documents until it has its share of the sentences. What a group lacks the others add.

    Args:
        documents: ``(m,)`` document of each sentence, ascending.
        groups: ``(m,)`` group of each sentence.
        held_out: number of sentences to hold out.
        sizes: numbers of sentences of the corpora.

    Returns:
        The rows held out, and the rows of each corpus, ascending.
    """
    _, firsts, lengths = np.unique(documents, return_index=True, return_counts=True)
    of_group = np.asarray(groups)[firsts]
    names, generator = np.unique(of_group), np.random.default_rng(SEED)
    orders = [generator.permutation(np.flatnonzero(of_group == name)) for name in names]
    starts = [np.concatenate([[0], np.cumsum(lengths[order])]) for order in orders]
    out = shares(held_out, [int(each[-1]) for each in starts])
    # The number of documents of each group that are held out.
    gone = [int(np.searchsorted(each, share)) for each, share in zip(starts, out, strict=True)]

    def rows(chosen: Sequence[np.ndarray]) -> np.ndarray:
        return np.flatnonzero(np.isin(np.repeat(np.arange(len(lengths)), lengths), np.concatenate(chosen)))

    corpora = []
    for size in sizes:
        left = [int(each[-1] - each[first]) for each, first in zip(starts, gone, strict=True)]
        ends = [
            int(np.searchsorted(each, each[first] + share))
            for each, first, share in zip(starts, gone, shares(size, left), strict=True)
        ]
        corpora.append(rows([order[a:b] for order, a, b in zip(orders, gone, ends, strict=True)]))
    return rows([order[:first] for order, first in zip(orders, gone, strict=True)]), corpora


def shares(total: int, available: Sequence[int]) -> list[int]:
    """``total`` in equal parts, none larger than what is available; the others add what one lacks."""
    parts = dict.fromkeys(range(len(available)), 0)
    for done, group in enumerate(sorted(parts, key=lambda group: available[group])):
        parts[group] = min(available[group], (total - sum(parts.values())) // (len(available) - done))
    return [parts[group] for group in range(len(available))]


def write_drawn(
    corpus: ParsedCorpus, groups: Mapping[str, int], held_out: tuple[Path, int], sizes: Mapping[Path, int]
) -> None:
    """Write the corpora that are missing.

    Args:
        corpus: the source.
        groups: its files in order, each with its number of sentences; a group is what stands before a name's dash.
        held_out: where to write the sentences held out, and their number.
        sizes: number of sentences of each corpus, by where to write it.
    """
    documents = np.concatenate([table["document"].to_numpy() for table in corpus.tables()])
    names = np.repeat([name.partition("-")[0] for name in groups], list(groups.values()))
    out, found = drawn(documents, names, held_out[1], list(sizes.values()))
    for path, rows in zip((held_out[0], *sizes), (out, *found), strict=True):
        if not path.exists():
            with new_folder(path) as folder:
                folder.rmdir()
                write_subset(corpus, rows, folder)


def write_with_trees(corpus: ParsedCorpus, trees: str, out: Path) -> None:
    """Write a corpus with other trees over the same words."""
    parser, change = changed(corpus.parser, trees)
    form = Form.of(corpus.manifest)
    with new_folder(out) as folder:
        shards = []
        for number, table in enumerate(corpus.tables()):
            rows = list(rows_of(table))
            sentences = change([row.sentence for row in rows])
            new = [Row(r.document, r.position, r.line, s) for r, s in zip(rows, sentences, strict=True)]
            shards.append(write_shard(folder, number, new, skipped_of(table), form))
        write_manifest(folder, shards, {**what_made(corpus), "parser": parser})


def changed(parser: dict, trees: str) -> tuple[dict, Change]:
    """How to describe a parser of these trees, and what gives them."""
    if trees.startswith(NOISE):
        share = max(0.0, 1 - float(trees.removeprefix(NOISE)) / OWN_LAS)  # of the words to change
        described = {**parser, "settings": {**parser["settings"], "noise": round(share, 4)}}
        return described, lambda sentences: [noised(sentence, share) for sentence in sentences]
    loaded = specification.load(trees)

    def parse(sentences: Sequence[ParsedSentence]) -> list[ParsedSentence]:
        found = loaded.parse([sentence.tokens for sentence in sentences])
        return [tree for tree in found if isinstance(tree, ParsedSentence)]

    return loaded.describe(), parse


def agreement(corpus: ParsedCorpus, other: ParsedCorpus) -> dict[str, float]:
    """Labelled and unlabelled attachment scores and bracket F1 of other trees of the same sentences, in per cent.

    All words count, and the constituents of more than one word with their labels.
    """
    words = heads = both = brackets = found = 0
    for number in range(corpus.n_shards):
        ours, theirs = (Flat(each.shard(number)) for each in (corpus, other))
        same = ours.heads == theirs.heads
        relations = (np.array(each.strings("relations").to_pylist()) for each in (ours, theirs))
        words, heads = words + len(same), heads + int(same.sum())
        both += int((same & np.equal(*relations)).sum())
        pairs = zip(rows_of(corpus.shard(number)), rows_of(other.shard(number)), strict=True)
        for spans, others in ((spans_of(ours.sentence), spans_of(theirs.sentence)) for ours, theirs in pairs):
            brackets += len(spans) + len(others)
            found += 2 * len(spans & others)
        if words >= 20 * COMPARED:
            break
    return {"las": 100 * both / words, "uas": 100 * heads / words, "f1": 100 * found / brackets}


def spans_of(sentence: ParsedSentence) -> set[tuple[int, int, str]]:
    """Its constituents of more than one word."""
    return {(start, end, label) for start, end, label in sentence.spans() if end - start > 1}


def noised(sentence: ParsedSentence, share: float) -> ParsedSentence:
    """A sentence with errors in both of its trees.

    A share of the words is drawn. Each gets another head, a random one that keeps the tree a tree, or, in 18 of 100
    cases, another relation, that of a random other word. If a root is drawn, a random dependent takes its place. The
    same share of the constituents below the root is drawn: such a constituent loses one of its two parts, and its
    sibling joins the other part, so that the words keep their order. The draw is seeded with the words and the share.

    Args:
        sentence: with both trees.
        share: between 0 and 1.
    """
    rng = random.Random(f"{share:.4f} {' '.join(sentence.tokens)}")
    heads, relations = list(sentence.heads), list(sentence.relations)
    for word in rng.sample(range(len(heads)), len(heads)):
        if rng.random() < share:
            if rng.random() < OF_ATTACHMENT:
                attach(heads, word, rng)
            else:
                relabel(relations, word, rng)
    left, right, labels = rotated(sentence, share, rng)
    return replace(sentence, heads=tuple(heads), relations=tuple(relations), left=left, right=right, labels=labels)


def attach(heads: list[int], word: int, rng: random.Random) -> None:
    """Give a word, counted from 0, another head in place; of a root, make a dependent the root."""
    if not heads[word]:
        dependents = [other for other, head in enumerate(heads) if head == word + 1]
        if dependents:
            root = rng.choice(dependents)
            heads[root], heads[word] = 0, root + 1
        return
    others = [head for head in range(1, len(heads) + 1) if head != heads[word] and not is_below(heads, head, word + 1)]
    if others:
        heads[word] = rng.choice(others)


def is_below(heads: Sequence[int], word: int, other: int) -> bool:
    """Whether a word is another one or depends on it, directly or not; both counted from 1."""
    while word and word != other:
        word = heads[word - 1]
    return bool(word)


def relabel(relations: list[str], word: int, rng: random.Random) -> None:
    """Give a word the relation of a random other one that differs, in place."""
    others = [relation for relation in relations if relation != relations[word]]
    if others:
        relations[word] = rng.choice(others)


def rotated(
    sentence: ParsedSentence, share: float, rng: random.Random
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    """Children and labels of a binary tree in which a share of the nodes below the root was rotated.

    ``((a b) c)`` becomes ``(a (b c))`` and the reverse; the node keeps its label.
    """
    n = len(sentence.tokens)
    children = [[-1, -1]] * n + [list(pair) for pair in zip(sentence.left, sentence.right, strict=True)]
    for parent in range(2 * n - 2, n - 1, -1):
        for side in rng.sample((0, 1), 2):
            node = children[parent][side]
            if node >= n and rng.random() < share:
                # The node gives its outer part to the parent, and takes the parent's other part.
                outer, inner = children[node][side], children[node][1 - side]
                sibling = children[parent][1 - side]
                children[parent][side], children[parent][1 - side] = outer, node
                children[node][side], children[node][1 - side] = inner, sibling
                break
    return in_post_order(n, children, sentence.labels)


def in_post_order(
    n: int, children: Sequence[Sequence[int]], labels: Sequence[str]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[str, ...]]:
    """A binary tree with its nodes renumbered, children before their parents; leaves are the nodes below ``n``."""
    order: list[int] = []
    waiting = [2 * n - 2] if n > 1 else []
    while waiting:  # parents first, right before left: the reverse of post-order
        node = waiting.pop()
        order.append(node)
        waiting += [child for child in children[node] if child >= n]
    order.reverse()
    place = {node: n + i for i, node in enumerate(order)}
    left, right = (tuple(place.get(children[node][side], children[node][side]) for node in order) for side in (0, 1))
    return left, right, (*labels[:n], *(labels[node] for node in order))
