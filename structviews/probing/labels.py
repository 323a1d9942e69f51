"""What is asked of a sentence: labels of many parsed sentences at once, as array operations.

The published tasks are those of Conneau et al. (2018, "What you can cram into a single vector"), as the README of
SentEval's ``data/probing`` tells them. Trees are those of the corpus, so with a parser's trees a label says what the
parser says.

Shapes: B sentences, n words, m nodes, as in ``parses``.
"""

import numpy as np

from structviews.arrays import Array
from structviews.probing.parses import Column, Parses

LENGTH_BINS = (9, 13, 17, 21, 26)
"""First length of each class but the first; with sentences of 5 to 28 words these are SentEval's six."""
PRESENT, PAST = ("VBP", "VBZ"), ("VBD",)
QUOTES = ("``", "''", '"', "“", "”")
CLOSING = (".", "?", "!")
NO_WORD = -1


def length_bins(lengths: Array) -> Array:
    """SentLen: class of each sentence by its number of words; (B,), 0 to 5."""
    return np.searchsorted(LENGTH_BINS, lengths, side="right")


def tree_depths(parses: Parses) -> Array:
    """TreeDepth: nodes on the longest way from the root of the constituency tree to a tag, both counted; (B,)."""
    nodes = parses.nodes
    leaves = nodes.word >= 0
    depth = nodes.summed_to_root(nodes.levels)[leaves]
    return np.maximum.reduceat(depth, parses.starts) + 1


def top_children(parses: Parses) -> tuple[Array, Column]:
    """What stands directly below the clause at each root, in the order of the text.

    Nodes that exist only through binarisation are dissolved, a word without a constituent of its own gives its tag, and
    the word itself where the parser gave none. Where the root is a unary chain (``S+VP``), the clause has one child.

    Returns:
        The nodes (k,), sentence by sentence, and their labels.
    """
    nodes = parses.nodes
    is_leaf = nodes.word >= 0
    chained = nodes.is_root & (nodes.levels > 1)
    seen = (nodes.levels > 0) | is_leaf
    # A child has nothing between itself and the root that is more than binarisation.
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
    # Equal sequences have equal sums of random numbers, one for each label and place; others only by a chance of 2^-64.
    place = np.arange(len(found)) - np.searchsorted(sentence, sentence)
    noise = np.random.default_rng(0).integers(2**64, size=(int(place.max()) + 1, len(labels.names)), dtype=np.uint64)
    first = np.searchsorted(sentence, np.arange(len(parses)))
    sums = np.add.reduceat(noise[place, labels.ids], first)
    _, example, ids = np.unique(sums, return_index=True, return_inverse=True)
    bounds = np.append(first, len(found))
    names = ["_".join(labels.names[labels.ids[bounds[i] : bounds[i + 1]]]) for i in example]
    return Column(ids, np.array(names, dtype=object))


def main_verbs(parses: Parses) -> Array:
    """Tense: the root of each dependency tree where it is a verb in the present or past tense, else -1; (B,)."""
    finite = parses.tags.isin(*PRESENT, *PAST)[parses.roots]
    return np.where(finite, parses.roots, NO_WORD)


def arguments(parses: Parses, *relations: str) -> Array:
    """SubjNum, ObjNum: the common noun that is the root's only dependent of these relations, else -1; (B,)."""
    dependents = np.flatnonzero(parses.relations.isin(*relations) & (parses.heads[parses.head_words] == 0))
    sentence = parses.sentences[dependents]
    found = np.full(len(parses), NO_WORD)
    found[sentence] = dependents
    alone = np.bincount(sentence, minlength=len(parses)) == 1
    return np.where(alone & parses.tags.isin("NN", "NNS")[found], found, NO_WORD)


def mean_head_distances(parses: Parses) -> Array:
    """Head distance: how far words stand from their heads on average, roots and punctuation left out; (B,).

    The mean dependency distance of Liu (2008); 0 for a sentence without any other word.
    """
    counted = (parses.heads > 0) & ~parses.relations.isin("punct")
    distances = np.abs(np.arange(len(parses.heads)) - parses.head_words) * counted
    sums, counts = (np.add.reduceat(values, parses.starts) for values in (distances, counted.astype(np.int64)))
    return sums / np.maximum(counts, 1)


def root_quarters(parses: Parses) -> Array:
    """Root position: the quarter of the sentence that the root of the dependency tree stands in; (B,), 0 to 3."""
    return 4 * parses.places[parses.roots] // parses.lengths


def thirds_by_length(values: Array, lengths: Array) -> Array:
    """Whether each value is in the lower, middle or upper third of those of sentences of the same length; (B,), 0 to 2.

    Equal values are never parted, so that the thirds may differ in size.
    """
    order = np.lexsort((values, lengths))
    start = np.searchsorted(lengths[order], lengths)
    count = np.bincount(lengths)[lengths]
    lower, upper = (values[order[start + np.ceil(count * k / 3).astype(np.int64) - 1]] for k in (1, 2))
    return (values > lower).astype(np.int64) + (values > upper)


def prepositional_phrases(parses: Parses) -> tuple[Array, Array]:
    """PP attachment: the preposition in "verb, object, preposition, noun" and whether the phrase belongs to the object.

    After Ratnaparkhi, Reynar and Roukos (1994): the preposition stands right behind the noun that is the verb's direct
    object, and the phrase depends on that noun (``nmod``) or on the verb (``obl``).

    Returns:
        The prepositions (k,), words, and (k,) bool; only those of sentences that have one.
    """
    marks = np.flatnonzero(parses.relations.isin("case") & parses.tags.isin("IN", "TO") & (parses.places > 0))
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


def brackets(parses: Parses) -> tuple[Array, Array]:
    """The labelled constituents of all sentences, words' own chains among them.

    Returns:
        The sentence of each (k,), and (k,) a number that two constituents share when their words, by place, and labels
        are the same.
    """
    nodes = parses.nodes
    labelled = np.flatnonzero(nodes.levels > 0)
    place = nodes.start[labelled].astype(np.int64) * (int(nodes.end.max()) + 1) + nodes.end[labelled]
    return nodes.sentence[labelled], place * len(parses.labels.names) + parses.labels.ids[labelled]


def edit_distances(parses: Parses, first: Array, second: Array) -> Array:
    """Constituents to dissolve and to insert that turn one tree into another over as many words; (p,).

    A tree edit distance with these two operations, where the words stay aligned one to one (for unlabelled trees that
    of Robinson and Foulds, 1981): the number of labelled constituents that the two trees do not share.

    Args:
        parses: the sentences.
        first: (p,) sentences.
        second: (p,) sentences, each as long as its partner.
    """
    sentence, bracket = brackets(parses)
    counts = np.bincount(sentence, minlength=len(parses))
    starts = np.cumsum(counts) - counts
    pairs, limit = np.arange(len(first)), int(bracket.max()) + 1
    keys = []
    for side in (first, second):
        sizes = counts[side]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        keys.append(np.repeat(pairs, sizes) * limit + bracket[np.repeat(starts[side], sizes) + within])
    both = np.sort(np.concatenate(keys))
    shared = both[1:][both[1:] == both[:-1]] // limit
    return counts[first] + counts[second] - 2 * np.bincount(shared, minlength=len(first))
