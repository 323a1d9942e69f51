"""Labels of probing tasks, computed for many parsed sentences at once; B sentences, n words, m nodes as in ``parses``.

The published tasks are those of Conneau et al. (2018, "What you can cram into a single vector"), as described in the
README of SentEval's ``data/probing``. Labels come from the corpus's trees, so automatic parses pass on their errors.
"""

import numpy as np

from structviews.evaluation.parses import Column, Parses
from structviews.runtime.arrays import Array, starts_of

NO_WORD = -1


def ranges(starts: Array, lengths: Array) -> Array:
    """The numbers from each start (k,) on, as many as its length (k,), concatenated."""
    return np.arange(lengths.sum()) + np.repeat(starts - starts_of(lengths), lengths)


def tree_depths(parses: Parses) -> Array:
    """TreeDepth: nodes on the longest path from the root of the constituency tree to a tag, inclusive; (B,)."""
    nodes = parses.nodes
    leaves = nodes.word >= 0
    depth = nodes.summed_to_root(nodes.levels)[leaves]
    return np.maximum.reduceat(depth, parses.starts) + 1


def top_children(parses: Parses) -> tuple[Array, Column]:
    """The children of the top clause of each tree: the nodes (k,), by sentence and in text order, and their labels.

    Binarisation is undone. A word without a constituent of its own is labelled with its tag, or with the word itself if
    the corpus has no tags. If the root is a unary chain (``S+VP``), the clause has a single child.
    """
    nodes = parses.nodes
    is_leaf = nodes.word >= 0
    chained = nodes.is_root & (nodes.levels > 1)
    seen = (nodes.levels > 0) | is_leaf
    # Between a child and the root there are only nodes from binarisation.
    between = nodes.summed_to_root(seen & ~nodes.is_root)
    closed = chained[np.flatnonzero(nodes.is_root)][nodes.sentence]
    top = seen & (between == 1) & ~nodes.is_root & ~closed | chained | nodes.is_root & is_leaf
    found = np.flatnonzero(top)
    found = found[np.lexsort((nodes.start[found], nodes.sentence[found]))]
    chains = [name.split("+") for name in parses.labels.names]
    firsts, seconds = ([chain[min(k, len(chain) - 1)] for chain in chains] for k in (0, 1))
    words = parses.words if "tags" in parses.lacking else parses.tags
    bare = is_leaf[found] & ((nodes.levels[found] == 0) | nodes.is_root[found]) & ~chained[found]
    ids = parses.labels.ids[found] + len(chains) * chained[found]
    ids[bare] = 2 * len(chains) + words.ids[nodes.word[found[bare]]]
    names = [*firsts, *seconds, *words.names]
    return found, Column(ids, np.array(names, dtype=object)).mapped(names)


def top_constituents(parses: Parses) -> Column:
    """TopConst: the labels of each sentence's :func:`top_children`, joined with ``_``; (B,)."""
    found, labels = top_children(parses)
    sentence = parses.nodes.sentence[found]
    # Hash sequences by summing a random number for each label and position; collisions have probability 2^-64.
    position = np.arange(len(found)) - np.searchsorted(sentence, sentence)
    noise = np.random.default_rng(0).integers(2**64, size=(int(position.max()) + 1, len(labels.names)), dtype=np.uint64)
    first = np.searchsorted(sentence, np.arange(len(parses)))
    sums = np.add.reduceat(noise[position, labels.ids], first)
    _, example, ids = np.unique(sums, return_index=True, return_inverse=True)
    bounds = np.append(first, len(found))
    names = ["_".join(labels.names[labels.ids[bounds[i] : bounds[i + 1]]]) for i in example]
    return Column(ids, np.array(names, dtype=object))


def arguments(parses: Parses, *relations: str) -> Array:
    """SubjNum, ObjNum: the root's only dependent with one of these relations if it is a common noun, else -1; (B,)."""
    dependents = np.flatnonzero(parses.relations.isin(*relations) & (parses.heads[parses.head_words] == 0))
    sentence = parses.sentences[dependents]
    found = np.full(len(parses), NO_WORD)
    found[sentence] = dependents
    alone = np.bincount(sentence, minlength=len(parses)) == 1
    return np.where(alone & parses.tags.isin("NN", "NNS")[found], found, NO_WORD)


def mean_head_distances(parses: Parses) -> Array:
    """HeadDist: mean distance between words and their heads, without roots and punctuation; (B,).

    The mean dependency distance of Liu (2008); 0 for sentences without other words.
    """
    counted = (parses.heads > 0) & ~parses.relations.isin("punct")
    distances = np.abs(np.arange(len(parses.heads)) - parses.head_words) * counted
    sums, counts = (np.add.reduceat(values, parses.starts) for values in (distances, counted.astype(np.int64)))
    return sums / np.maximum(counts, 1)


def thirds_by_length(values: Array, lengths: Array) -> Array:
    """The third, 0 to 2, that each value falls into among sentences of the same length; (B,).

    Equal values stay together, so the thirds may differ in size.
    """
    order = np.lexsort((values, lengths))
    start = np.searchsorted(lengths[order], lengths)
    count = np.bincount(lengths)[lengths]
    lower, upper = (values[order[start + np.ceil(count * k / 3).astype(np.int64) - 1]] for k in (1, 2))
    return (values > lower).astype(np.int64) + (values > upper)


def prepositional_phrases(parses: Parses) -> tuple[Array, Array]:
    """PPAttach: prepositions (k,) in "verb, object, preposition, noun", and whether the PP attaches to the object.

    After Ratnaparkhi, Reynar and Roukos (1994): the preposition directly follows the noun that is the verb's direct
    object, and the PP depends on that noun (``nmod``) or on the verb (``obl``). Only sentences with exactly one such
    preposition count.
    """
    marks = np.flatnonzero(parses.relations.isin("case") & parses.tags.isin("IN", "TO") & (parses.positions > 0))
    nouns = parses.tags.isin("NN", "NNS", "NNP", "NNPS")
    verbs = parses.tags.isin("VB", "VBD", "VBG", "VBN", "VBP", "VBZ")
    inner = parses.head_words[marks]
    outer = parses.head_words[inner]
    before = marks - 1
    verb = parses.head_words[before]
    fits = parses.relations.isin("obj")[before] & nouns[before] & verbs[verb] & (verb < before) & (inner > marks)
    to_noun = parses.relations.isin("nmod")[inner] & (outer == before)
    to_verb = parses.relations.isin("obl")[inner] & (outer == verb)
    fits &= nouns[inner] & (to_noun | to_verb)
    fits[fits] = np.bincount(parses.sentences[marks[fits]], minlength=len(parses))[parses.sentences[marks[fits]]] == 1
    return marks[fits], to_noun[fits]


def edit_distances(parses: Parses, first: Array, second: Array) -> Array:
    """Edit distances (p,) between the constituency trees of pairs of sentences, (p,) each, of equal length.

    Operations are the deletion and insertion of a constituent, with the words aligned one to one. So the distance is
    the number of labelled constituents that are in one tree only (for unlabelled trees, Robinson and Foulds, 1981).
    """
    # A key for each constituent, also for unary chains over single words; equal for the same span and label.
    nodes = parses.nodes
    labelled = np.flatnonzero(nodes.levels > 0)
    span = nodes.start[labelled].astype(np.int64) * (int(nodes.end.max()) + 1) + nodes.end[labelled]
    bracket = span * len(parses.labels.names) + parses.labels.ids[labelled]
    counts = np.bincount(nodes.sentence[labelled], minlength=len(parses))
    starts, pairs, limit = starts_of(counts), np.arange(len(first)), int(bracket.max()) + 1
    sides = ((ranges(starts[side], counts[side]), np.repeat(pairs, counts[side])) for side in (first, second))
    both = np.sort(np.concatenate([pair * limit + bracket[constituents] for constituents, pair in sides]))
    shared = both[1:][both[1:] == both[:-1]] // limit
    return counts[first] + counts[second] - 2 * np.bincount(shared, minlength=len(first))
