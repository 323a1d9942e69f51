"""The sentences of a corpus that a gate is fitted on, and those that it is chosen and shown by.

Shapes: m sentences of the corpus, n of a part.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from structviews.batches.order import held_out
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.evaluation.retrieval.next_sentence import drawn, unseen
from structviews.objectives.objective import context_indices
from structviews.runtime.arrays import Array

# Share of the documents that are held out where the run has held out too few of its own, and how many are enough.
SHARE = 0.1
ENOUGH = 2_000
# As many held-out sentences as this share of those that the gate is fitted on.
HELD_OUT = 0.2


@dataclass(frozen=True)
class Part:
    """Sentences of whole documents, in corpus order.

    Attributes:
        sentences: n sentences with their trees.
        documents: (n,) document of each.
        positions: (n,) position of each in its document.
    """

    sentences: list[ParsedSentence]
    documents: Array
    positions: Array

    def neighbours(self, rows: Array) -> Tensor:
        """The sentences directly before and after each of some ascending rows: ``(len(rows), 3)``, see ``Context``."""
        document, position = (torch.from_numpy(each[rows]) for each in (self.documents, self.positions))
        return context_indices(document, position, 1)


@dataclass(frozen=True)
class Sample:
    """What a gate is fitted on.

    Attributes:
        fitting: its parameters are fitted on these.
        held_out: the epoch is chosen, and scores and weights are shown, on these.
        new: whether the run's training has held out all of ``held_out``, too.
    """

    fitting: Part
    held_out: Part
    new: bool


def read_sample(runs: Sequence[Path], corpus: ParsedCorpus, most: int, seed: int) -> Sample:
    """Read whole documents of a corpus, drawn at random.

    Those that the runs' training held out are held out here, if they are enough; otherwise a tenth of all.

    Args:
        runs: the run.
        corpus: the corpus.
        most: sentences to fit on; a fifth as many are held out.
        seed: decides what is held out.

    Raises:
        InputError: if no sentence has a neighbour in one of the parts, or all that are held out are of one document.
    """
    shards = [corpus.shard(number) for number in range(corpus.n_shards)]
    documents, positions = (
        np.concatenate([shard[name].to_numpy() for shard in shards]) for name in ("document", "position")
    )
    free = unseen(runs, corpus, documents)
    own = not free.all() and free.sum() >= ENOUGH
    held = free if own else held_out(documents, seed, SHARE)
    parts = []
    for rows, limit in ((np.flatnonzero(~held), most), (np.flatnonzero(held), int(most * HELD_OUT))):
        kept = rows[drawn(documents[rows], limit)][:limit] if len(rows) else rows
        part = Part([corpus.sentence(row) for row in kept.tolist()], documents[kept], positions[kept])
        if not (part.neighbours(np.arange(len(kept))) >= 0).any():
            raise InputError(f"{corpus.path}: too few sentences with a neighbour: give another --corpus or --sentences")
        parts.append(part)
    if len(np.unique(parts[1].documents)) < 2:
        raise InputError(f"{corpus.path}: only one document would be held out: give another --corpus or --sentences")
    return Sample(parts[0], parts[1], new=bool(own or (free | ~held).all()))
