"""Perturbed sentences of a corpus, as further sentences of its batches.

Shapes: B sentences in a batch, F perturbed sentences, k of them beside a batch.
"""

from typing import NamedTuple

import numpy as np

from structviews.corpus.layout import PERTURBED
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.runtime.arrays import Array, mix


class Further(NamedTuple):
    """Sentences that go behind those of a batch: their ``rows (k,)`` in the corpus of pairs, ascending.

    ``source (k,)`` is the place in the batch of the sentence that each was made of, ``changed (k,)`` whether it has
    another meaning.
    """

    rows: Array
    source: Array
    changed: Array


class Pairs:
    """Sentences that rules made of a corpus: some keep the meaning of their source sentence, some change it.

    Args:
        corpus: what ``structviews perturb`` made of ``source``.
        source: the corpus that is trained on.
        seed: of the drawing.

    Raises InputError if it was made of another corpus, or of another version of this one.
    """

    def __init__(self, corpus: ParsedCorpus, source: ParsedCorpus, seed: int) -> None:
        again = f"make one with `structviews perturb {source.path}`, and give that"
        made = corpus.manifest.get(PERTURBED)
        if made is None:
            raise InputError(f"{corpus.path}: not made by `structviews perturb`: {again}")
        if made["corpus"] != source.fingerprint:
            raise InputError(f"{corpus.path}: made of another corpus than {source.path}, or of an earlier one: {again}")
        self.corpus = corpus
        self.seed = seed
        columns = ("document", "position")
        sources, rules = (np.concatenate([table[name].to_numpy() for table in corpus.tables()]) for name in columns)
        keeps = np.array(made["keeps"])
        if len(sources) and (sources[-1] >= len(source) or rules.max() >= len(keeps)):
            raise InputError(f"{corpus.path}: damaged, as some of its sentences have no source or rule: {again}")
        # Of those that keep the meaning, and of those that change it: the rows, and their source sentences, ascending.
        rows = [np.flatnonzero(keeps[rules] == kind) for kind in (True, False)]
        self._forms = [(own, sources[own]) for own in rows]

    def drawn(self, rows: Array, epoch: int) -> Further:
        """For each source sentence ``(B,)``, in ascending order, at most one form that keeps its meaning, and one not.

        A sentence's forms depend on the seed, the epoch and the sentence alone, not on its batch.
        """
        keys = mix(rows.astype(np.uint64) + mix(np.array([self.seed], np.uint64) + mix(np.array([epoch], np.uint64))))
        found = []
        for (forms, sources), changes in zip(self._forms, (False, True), strict=True):
            first, end = np.searchsorted(sources, rows), np.searchsorted(sources, rows, side="right")
            (there,) = np.nonzero(end > first)
            number = mix(keys[there] + np.uint64(changes)) % (end - first)[there].astype(np.uint64)
            chosen = forms[first[there] + number.astype(np.int64)]
            found.append(np.stack([chosen, there, np.full(len(there), changes)]))
        joined = np.concatenate(found, axis=1)
        forms, source, changed = joined[:, np.argsort(joined[0], kind="stable")]
        return Further(forms, source, changed.astype(bool))
