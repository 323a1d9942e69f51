"""What the study of transformers trains: its sizes, its rows, and the learning rates that are tried."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pairs.plan import CONTROL, JOINED, MAIN, OF, Row, Run

from structviews.errors import InputError
from structviews.words import CONTEXTUAL, FIXED
from structviews.words.word_settings import FIRST
from structviews.words.word_settings import MEAN as MEAN_STATE

TRANSFORMER, SIMCSE = "transformer", "simcse"
PARTNERS = ("seq", "dep", "const")
# The tasks whose mean is the study's main score.
TASKS = ("MR", "SUBJ", "TREC", "SICK-R", "STS-B", "STS14")
# The tasks by whose development parts learning rates are chosen, and the file of what is measured.
DEVELOPMENT = ("TREC", "SICK-R", "STS-B", "STS-B-cos")
RATES = "rates.json"
# Of SimCSE's authors.
SIMCSE_BATCH = 64
# Baselines of word vectors.
AVERAGES = ("average", "sif")
# By learning rate, the mean of a trial's scores in per cent; None if training diverged.
Measured = dict[str, float | None]
# In place of a rate, for the encoder as it is.
UNTRAINED = "0"


@dataclass(frozen=True)
class Sizes:
    """How large everything is, as in ``pairs.plan.Sizes``.

    Attributes:
        tried: sentences with which learning rates are tried.
        rates: the transformer's learning rates that are tried: around 3e-5, with which SimCSE's authors train BERT
            base, and higher ones, as this encoder has seven million weights instead of a hundred million.
    """

    sentences: int = 200_000
    tried: int = 20_000
    rates: tuple[float, ...] = (1.25e-5, 5e-5, 2e-4, 8e-4)
    held_out: int = 200_000
    asked: int = 20_000
    probing: int = 10_000
    hidden: int = 256
    batch: int = 400
    seeds: int = 2

    @property
    def corpora(self) -> tuple[int, ...]:
        """Sentences of every corpus."""
        return (self.tried, self.sentences)


FULL = Sizes()


@dataclass(frozen=True)
class Plan:
    """What is trained.

    Attributes:
        sizes: how large everything is.
        words: averages of word vectors.
        frozen: the encoder as it is: the mean of a sentence's pieces, that without its first component, and the first
            piece.
        trees: trees above word vectors, and above the encoder's states.
        control: sequences above the encoder's states.
        alone: the encoder trained further by itself.
        pairs: the encoder trained beside another view.
        apart: the encoder as it is, joined with a view of the trees above word vectors.
        exported: the encoder of such a pair, exported.
    """

    sizes: Sizes
    words: list[Row]
    frozen: list[Row]
    trees: list[Row]
    control: Row
    alone: Row
    pairs: list[Row]
    apart: list[Row]
    exported: list[Row]

    @classmethod
    def of(cls, sizes: Sizes) -> "Plan":
        """All rows at some sizes."""
        n, batch = sizes.sentences, sizes.batch
        pairs = [f"{TRANSFORMER},{partner}" for partner in PARTNERS]
        mean_state, first = (Row("", 0, 0, baseline=pooling) for pooling in (MEAN_STATE, FIRST))
        return cls(
            sizes,
            [Row("", 0, 0, baseline=average) for average in AVERAGES],
            [mean_state, replace(mean_state, without_component=True), first],
            [Row(MAIN, n, batch, channels=channel) for channel in (FIXED, CONTEXTUAL)],
            Row(CONTROL, n, batch, channels=CONTEXTUAL),
            Row(TRANSFORMER, n, min(batch, SIMCSE_BATCH), objective=SIMCSE),
            [Row(pair, n, batch) for pair in pairs],
            [Row(f"{TRANSFORMER}{OF}{MEAN_STATE}{JOINED}{view}{OF}{MAIN}", n, batch) for view in MAIN.split(",")],
            [Row(f"{TRANSFORMER}{OF}{pair}", n, batch) for pair in pairs],
        )

    @property
    def table(self) -> list[Row]:
        """All rows."""
        trained = [*self.trees, self.control, self.alone, *self.pairs]
        return [*self.words, *self.frozen, *trained, *self.apart, *self.exported]

    @property
    def tried(self) -> list[Row]:
        """What learning rates are tried on."""
        return [self.trial(row) for row in (self.alone, *self.pairs)]

    def trial(self, row: Row) -> Row:
        """A row on as little text as learning rates are tried on."""
        return replace(row, sentences=self.sizes.tried)

    def chosen(self, row: Row, kept: Path) -> float:
        """The learning rate of the transformer in a row, the best of those measured."""
        return best(rates_measured(kept)[self.trial(row).name], self.sizes.rates)

    def runs(self) -> list[Run]:
        """In the order in which they are made; what is not trained has no seeds."""
        found = [Run(row, seed) for row in self.table for seed in range(1, 1 + (self.sizes.seeds if row.views else 1))]
        return sorted(found, key=lambda run: (run.seed, bool(run.row.parts)))


def rates_measured(kept: Path) -> dict[str, Measured]:
    """What was measured of each row on which learning rates were tried."""
    file = kept / RATES
    found: dict[str, Measured] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return found


def best(measured: Measured, rates: Sequence[float]) -> float:
    """The rate with the highest score.

    Raises:
        InputError: if training has diverged with all of them.
    """
    scores = {rate: score for rate in rates if (score := measured.get(f"{rate:g}")) is not None}
    if not scores:
        raise InputError(f"training diverges with each of the learning rates {rates}: try lower ones")
    return max(scores, key=scores.__getitem__)
