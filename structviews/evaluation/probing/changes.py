"""Altered sentences (two words swapped, a word replaced, two clauses inverted) and sentence pairs.

After Conneau et al. (2018), following the README of SentEval's ``data/probing``; the pairs are our own.
"""

from typing import NamedTuple

import numpy as np

from structviews.evaluation.parses import Column, Parses
from structviews.evaluation.probing.labels import NO_WORD, edit_distances, ranges, top_children, top_constituents
from structviews.evaluation.probing.sampling import PARTS
from structviews.runtime.arrays import Array, inverse_of, starts_of

NO_WORDS: Array = np.empty(0, np.int64)
QUOTES = ("``", "''", '"', "“", "”")
COORDINATIONS = ("S_CC_S_.", "S_,_CC_S_.")
REPLACED = ("NN", "NNS", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ")
ROUNDS = 60  # replacement candidates tried per word
CANDIDATES = 8  # sentences among which an anchor's nearest and farthest partners are found


class Text(NamedTuple):
    """Sentences to write: all their ``words``, concatenated, and their ``lengths`` (k,)."""

    words: Column
    lengths: Array

    @classmethod
    def of(cls, parses: Parses, sentences: Array, old: Array = NO_WORDS, new: Array = NO_WORDS) -> "Text":
        """The sentences (k,), with the words ``old`` (c,) replaced by the words ``new`` (c,); all are word indices."""
        ids = parses.words.ids.copy()
        ids[old] = ids[new]
        lengths = parses.lengths[sentences]
        return cls(Column(ids[ranges(parses.starts[sentences], lengths)], parses.words.names), lengths)


def pick_bigrams(parses: Parses, rng: np.random.Generator) -> Array:
    """BShift: the first word of a random bigram of each sentence, or -1 if there is none; (B,).

    The bigram has two different words and includes neither the sentence's first word nor punctuation. Sentences with
    double quotes are skipped.
    """
    word = ~parses.is_punctuation & (parses.positions > 0)
    ids = parses.words.ids
    fits = word[:-1] & word[1:] & (parses.positions[1:] > 1) & (ids[:-1] != ids[1:])
    quoted = np.bincount(parses.sentences[parses.words.isin(*QUOTES)], minlength=len(parses)) > 0
    found = np.flatnonzero(fits)
    return one_a_sentence(parses, found[~quoted[parses.sentences[found]]], rng)


def one_a_sentence(parses: Parses, words: Array, rng: np.random.Generator) -> Array:
    """A random one of the given words for each sentence, or -1 if it has none; (B,)."""
    shuffled = rng.permutation(words)
    found = np.full(len(parses), NO_WORD)
    found[parses.sentences[shuffled]] = shuffled
    return found


class Bigrams:
    """Bigram counts within sentences, and the occurrences of each word."""

    def __init__(self, parses: Parses):
        self._n_words = len(parses.words.names)
        ids = parses.words.ids.astype(np.int64)
        inside = parses.positions[1:] > 0
        keys = np.sort((ids[:-1] * self._n_words + ids[1:])[inside])
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        self._keys, self._counts = keys[first], np.diff(first, append=len(keys))
        self._by_word = np.argsort(ids, kind="stable")
        self._counts_of_words = np.bincount(ids, minlength=self._n_words)
        self._starts = starts_of(self._counts_of_words)

    def counts(self, first: Array, second: Array) -> Array:
        """Counts (k,) of these bigrams."""
        keys = first.astype(np.int64) * self._n_words + second
        at = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._counts[at], 0)

    def occurrence(self, words: Array, rng: np.random.Generator) -> Array:
        """A random occurrence (k,), as a position in the text, of each word (k,)."""
        among = (rng.random(len(words)) * self._counts_of_words[words]).astype(int)
        return self._by_word[self._starts[words] + among]


def replace_words(
    parses: Parses, parts: Array, least: float, most: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """SOMO: a random noun or verb of each sentence, and an occurrence of its replacement; (B,), -1 for none.

    Both have the same tag and occur ``least`` to ``most`` times. The replacement's bigrams with its left and right
    neighbours are about as frequent in the corpus as the original word's, not counting its own occurrence: the counts
    plus one differ by at most a factor of two. Each replacement word is used in one of the ``parts`` (B,) only.
    """
    ids, bigrams = parses.words.ids, Bigrams(parses)
    counts = np.bincount(ids, minlength=len(parses.words.names))
    usable = parses.tags.isin(*REPLACED) & ((counts >= least) & (counts <= most))[ids]
    inner = (parses.positions > 0) & (parses.positions < parses.lengths[parses.sentences] - 1)
    pool = np.flatnonzero(usable)
    old = one_a_sentence(parses, np.flatnonzero(usable & inner), rng)
    old[parts < 0] = NO_WORD
    new = np.full(len(parses), NO_WORD)
    if not len(pool):
        return old, new
    home = rng.integers(len(PARTS), size=len(parses.words.names))
    open_ = np.flatnonzero(old >= 0)
    wanted = [bigrams.counts(ids[old - 1], ids[old]) - 1, bigrams.counts(ids[old], ids[(old + 1) % len(ids)]) - 1]
    for round_ in range(ROUNDS):
        at = old[open_]
        # In turn: a word seen after the left neighbour, a word seen before the right neighbour, any word.
        if round_ % 3 == 2:
            drawn = rng.choice(pool, size=len(open_))
        else:
            step = 1 - 2 * (round_ % 3)
            drawn = (bigrams.occurrence(ids[at - step], rng) + step).clip(0, len(ids) - 1)
        fits = usable[drawn] & (parses.tags.ids[drawn] == parses.tags.ids[at]) & (ids[drawn] != ids[at])
        fits = np.flatnonzero(fits & (home[ids[drawn]] == parts[open_]))
        for step, others in zip((-1, 1), wanted, strict=True):
            pair = (ids[at[fits] + step], ids[drawn[fits]])
            ratio = (bigrams.counts(*pair[::-step]) + 1) / (others[open_[fits]] + 1)
            fits = fits[(ratio <= 2) & (ratio >= 0.5)]
        new[open_[fits]] = drawn[fits]
        open_ = np.delete(open_, fits)
    return old, new


class Coordinations(NamedTuple):
    """Sentences of two coordinated clauses; (k,) each."""

    sentences: Array
    conjunction: Array  # first word after the first clause, also if it is a comma
    second: Array  # first word of the second clause
    stop: Array  # the word after the second clause
    longer: Array  # 1 if the first clause is longer, -1 if shorter, else 0


def coordinations(parses: Parses) -> Coordinations:
    """CoordInv: sentences of two clauses joined by their only conjunction, with or without a comma before it."""
    alone = np.bincount(parses.sentences[parses.tags.isin("CC")], minlength=len(parses)) == 1
    fits = top_constituents(parses).isin(*COORDINATIONS) & alone
    children, _ = top_children(parses)
    children = children[fits[parses.nodes.sentence[children]]]
    sentence = parses.nodes.sentence[children]
    start = parses.starts[sentence] + parses.nodes.start[children]
    end = np.flatnonzero(np.diff(sentence, append=-1))
    after_first = end - np.diff(end, prepend=-1) + 2
    conjunction, second, stop = start[after_first], start[end - 1], start[end]
    longer = np.sign(conjunction - parses.starts[sentence[end]] - (stop - second))
    return Coordinations(sentence[end], conjunction, second, stop, longer)


def invert(parses: Parses, found: Coordinations, changed: Array) -> Text:
    """The sentences, with the order of their clauses inverted where ``changed`` (k,).

    The new first word is capitalised and the old one lower-cased, except names, ``I`` and acronyms.
    """
    begin, lengths = parses.starts[found.sentences], parses.lengths[found.sentences]
    words, at = ranges(begin, lengths), np.repeat(np.arange(len(begin)), lengths)
    block = np.select([words < found.conjunction[at], words < found.second[at], words < found.stop[at]], [2, 1, 0], 3)
    order = np.lexsort((block * changed[at], at))
    names = parses.words.names
    upper = np.array([name[:1].upper() + name[1:] for name in names], dtype=object)
    lower = np.array([name[:1].lower() + name[1:] if name[1:].islower() or not name[1:] else name for name in names])
    lower[names == "I"] = "I"
    is_name = parses.tags.isin("NNP", "NNPS")
    case = np.zeros(len(words), dtype=np.int64)
    starts = starts_of(lengths)
    capital = changed & (upper == names)[parses.words.ids[begin]]
    case[(starts + found.second - begin)[capital]] = 1
    case[starts[capital & ~is_name[begin]]] = 2
    ids = (parses.words.ids[words] + case * len(names))[order]
    return Text(Column(ids, np.concatenate([names, upper, lower.astype(object)])), lengths)


def tree_neighbours(parses: Parses, parts: Array, anchors: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """For each anchor (k,), the nearest and farthest by tree of eight random sentences of its length and part.

    Both (k,) are -1 where they are equally far, or where the anchor's length and part have no other sentence.
    """
    cells = (parts + 1) * (int(parses.lengths.max()) + 1) + parses.lengths
    order = np.argsort(cells, kind="stable")
    rank = inverse_of(order)
    first = np.searchsorted(cells[order], cells[anchors])
    count = np.bincount(cells)[cells[anchors]]
    # A step of 1 to count - 1 from the anchor, modulo the cell's size, gives another sentence of the cell.
    steps = 1 + (rng.random((CANDIDATES, len(anchors))) * (count - 1)).astype(np.int64)
    drawn = order[first + (rank[anchors] - first + steps) % count]
    distance = edit_distances(parses, np.tile(anchors, CANDIDATES), drawn.ravel()).reshape(drawn.shape)
    near, far = (np.take_along_axis(drawn, pick(distance, axis=0)[None], 0)[0] for pick in (np.argmin, np.argmax))
    differ = distance.min(axis=0) < distance.max(axis=0)
    return np.where(differ, near, NO_WORD), np.where(differ, far, NO_WORD)
