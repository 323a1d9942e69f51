"""The relations of Universal Dependencies as numbers, and the label of a word: its relation, and the side of its head.

The list is fixed here, so a run does not depend on its corpus for it: another list would need other weights.
"""

from collections.abc import Iterable

import numpy as np

from structviews.runtime.arrays import Array, starts_of

# The universal relations, and the subtypes that English treebanks use or once used.
RELATIONS = (
    *("acl", "advcl", "advmod", "amod", "appos", "aux", "case", "cc", "ccomp", "clf", "compound", "conj", "cop"),
    *("csubj", "dep", "det", "discourse", "dislocated", "expl", "fixed", "flat", "goeswith", "iobj", "list", "mark"),
    *("nmod", "nsubj", "nummod", "obj", "obl", "orphan", "parataxis", "punct", "reparandum", "root", "vocative"),
    *("xcomp", "acl:relcl", "advcl:relcl", "aux:pass", "cc:preconj", "compound:prt", "csubj:outer", "csubj:pass"),
    *("det:predet", "flat:foreign", "nmod:desc", "nmod:npmod", "nmod:poss", "nmod:tmod", "nmod:unmarked"),
    *("nsubj:outer", "nsubj:pass", "obl:agent", "obl:npmod", "obl:tmod", "obl:unmarked"),
)
SIDES = ("root", "left", "right")
# The numbers of relations, of which 0 is any other name, and of sides; a label is one of their product.
LABELS = (1 + len(RELATIONS), len(SIDES))
# The kinds of structure, see ``View.needs``, that are dependency trees.
OVER_DEPENDENCIES = frozenset({"dependency", "labelled"})


class _Numbers(dict[str, int]):
    """Numbers by name; a subtype that is not listed has that of its relation."""

    def __missing__(self, name: str) -> int:
        return self.get(name.lower().partition(":")[0], 0)


_NUMBERS = _Numbers({name: number for number, name in enumerate(RELATIONS, 1)})


def relation_numbers(names: Iterable[str]) -> Array:
    """The number ``(n,)``, int64, of each relation."""
    return np.fromiter(map(_NUMBERS.__getitem__, names), np.int64)


def has_relations(names: Iterable[str]) -> bool:
    """Whether any of these is a relation that is known, or there are none but ``root``, which all schemes have."""
    others = [name for name in names if name.lower() != "root"]
    return not others or any(map(_NUMBERS.__getitem__, others))


def word_labels(heads: Array, relations: Array, lengths: Array) -> Array:
    """The label ``(n,)``, int64, of each word from its ``relations (n,)``, as numbers, and the side of its head.

    ``heads (n,)`` are 1-based within each sentence, 0 for the root; sentences have ``lengths (B,)``.
    """
    places = np.arange(1, len(heads) + 1) - np.repeat(starts_of(lengths), lengths)
    sides = np.where(heads == 0, 0, 1 + (places > heads))
    return relations * len(SIDES) + sides
