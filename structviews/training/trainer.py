"""The parts of a training run, and its steps."""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from structviews.batches.batch import Batch
from structviews.batches.order import epoch_batches, held_out, indivisible, n_batches
from structviews.batches.reader import CorpusReader
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import DivergedError, InputError
from structviews.kernels import message_passing
from structviews.model import Join, Model, build_model
from structviews.pretrained.loading import Blueprint, load_encoder
from structviews.pretrained.states import ContextualWords, FrozenEncoder
from structviews.pretrained.stored_states import StoredStates
from structviews.runs.config import TrainConfig
from structviews.runs.folder import vocabulary_file
from structviews.runs.settings_file import Parsed
from structviews.runs.vocabularies import open_encoder, open_vectors
from structviews.runs.weights import start_from
from structviews.runtime.device import Unfilled, best_device, free_bytes, half_precision, send
from structviews.runtime.machine import check_memory
from structviews.runtime.wording import counted
from structviews.training.checkpoint import Place, load_state, read_progress
from structviews.training.log import flat, mean_metrics
from structviews.training.optimiser import LazyAdam, clip_gradients, merge_rows
from structviews.training.ranks import Agreement, Ranks, deal
from structviews.training.resuming import check_source
from structviews.views.word_tables import WordTable
from structviews.words import CONTEXTUAL, FIXED, TRAINED
from structviews.words.vector_files import corpus_words
from structviews.words.vocabulary import Vocabulary
from structviews.words.word_settings import RANDOM

VALIDATION_BATCHES = 25
# Of a weight that is trained, its gradient and Adam's two moments.
BYTES_PER_PARAMETER = 16


def training_bytes(model: nn.Module) -> int:
    """Bytes of a model's weights, and of what training keeps beside those that it changes."""
    sizes = {True: BYTES_PER_PARAMETER, False: torch.float32.itemsize}
    return sum(sizes[weight.requires_grad] * weight.numel() for weight in model.parameters())


class Step(NamedTuple):
    """The data of one step.

    Attributes:
        place: the progress after it.
        batches: on the device.
        words: by channel, the ids ``(U,)`` of its word table that occur in them, ascending, on the CPU.
    """

    place: Place
    batches: list[Batch]
    words: dict[str, np.ndarray]


class Training:
    """Model, data and optimiser of a run.

    Args:
        config: the settings.
        ranks: the processes that train together; only this one by default.

    Attributes:
        parsed: identifies the corpus, the word vectors and the encoder.
        blueprint: of the encoder that the view ``transformer`` begins from; None without that view.
        states: those of the contextual channel on disk; None if they are computed for each batch.
        left_out: share of the training sentences that an epoch skips, since the ranks' shares are unequal.

    Raises:
        InputError: if the corpus or the settings are invalid.
    """

    def __init__(self, config: TrainConfig, ranks: Ranks | None = None):
        self.config = config
        self.ranks = ranks or Ranks()
        self.run = Path(config.data.out)
        self.device = best_device()
        if config.views.tree_backend == "dgl":
            message_passing.require(self.device)
        self.half = half_precision(config.optimisation.precision, self.device)
        self.corpus = ParsedCorpus.open(config.data.corpus)
        begun = read_progress(self.run) is not None
        source = check_source(config) if config.data.init_from and not begun else None
        self.vectors = open_vectors(config)
        encoder = open_encoder(config)
        self.parsed = Parsed.of(self.corpus, self.vectors, encoder.identity if encoder else None)
        self.vocabularies, fixed = self._words(encoder)
        n_known = 0
        if config.data.init_from and TRAINED in config.words.channels:  # init_from may be gone once this run has begun
            known = Vocabulary.load((self.run if begun else Path(config.data.init_from)) / vocabulary_file(TRAINED))
            self.vocabularies[TRAINED] = known.extended(self.vocabularies[TRAINED])
            n_known = len(known)
        self.blueprint = Blueprint.of(encoder.folder) if encoder and config.reads_pieces else None
        self._check_memory(fixed)
        torch.manual_seed(config.optimisation.seed)
        self.model = build_model(config, self.vocabularies, fixed, self.blueprint).to(self.device)
        if encoder and self.blueprint and not begun:
            start_from_encoder(self.model, encoder.folder)
        if source:
            # Their rows are the words of one corpus, or count them.
            fresh = [f"{FIXED}.words.", f"{FIXED}.objective.words.", f"{CONTEXTUAL}.words.", ".frequencies"]
            fresh += [".objective."] * (source.objective.name != config.objective.name)
            start_from(Path(config.data.init_from), self.model, n_known, fresh)
        for view in self.model.views:
            view.tree_backend = config.views.tree_backend
        for table in self.model.modules():
            if isinstance(table, WordTable):
                table.sparse = not config.optimisation.dense_adam
        duplicates = "same" in self.model.context_needs
        contextual = encoder if CONTEXTUAL in config.words.channels else None
        self.states = StoredStates.find(self.corpus, contextual) if contextual else None
        self.reader = CorpusReader(
            self.corpus,
            self.vocabularies,
            self.model.needs,
            duplicates,
            config.words.cut_off,
            {CONTEXTUAL: self.states} if self.states else None,
            self.blueprint.aligner if self.blueprint else None,
        )
        self._split(self.reader.documents())
        self.optimiser = LazyAdam(parameter_groups(self.model), lr=config.optimisation.lr)
        if self.ranks.count > 1 and not config.optimisation.gather_negatives:
            # The weights are the same on all ranks; other random numbers may differ.
            torch.manual_seed(config.optimisation.seed + self.ranks.rank)
        self.last_saved = time.monotonic()
        self.taken = 0
        self.first_bad = torch.zeros((), dtype=torch.int64, device=self.device)

    def _split(self, documents: np.ndarray) -> None:
        """Hold out some of the documents ``(sentences,)``, and note where the others begin.

        Raises:
            InputError: if too few are left to train on.
        """
        config = self.config
        documents = indivisible(documents, self.model.reads_neighbours)
        chosen = held_out(documents, config.optimisation.seed, config.data.held_out)
        self.train_rows, self.held_out_rows = (np.flatnonzero(rows).astype(np.int32) for rows in (~chosen, chosen))
        if len(self.train_rows) < 2:
            raise InputError(
                f"{config.data.corpus}: {counted(len(self.train_rows), 'training sentence')}: parse a larger corpus"
            )
        firsts = np.flatnonzero(np.diff(documents[self.train_rows], prepend=-1))
        self.document_starts = np.append(firsts, len(self.train_rows))
        shares = np.diff(deal(self.document_starts, self.ranks.count))
        if shares.min() < 2:
            raise InputError(
                f"{config.data.corpus}: has enough training documents for {(shares >= 2).sum()} of "
                f"{self.ranks.count} processes: give torchrun a smaller --nproc-per-node"
            )
        self.left_out = 1 - self.ranks.count * shares.min() / shares.sum()

    def _words(self, encoder: FrozenEncoder | None) -> tuple[dict[str, Vocabulary], Tensor | None]:
        """The vocabulary of each channel, and the fixed channel's table; see ``corpus_words``."""
        c = self.config
        unknown = np.random.default_rng(c.optimisation.seed) if c.words.unknown_words == RANDOM else None
        of_corpus = [name for name in c.words.channels if name != CONTEXTUAL]
        known, fixed = corpus_words(of_corpus, self.corpus, self.vectors, c.words.vocabulary, unknown)
        if encoder and CONTEXTUAL in c.words.channels:
            known[CONTEXTUAL] = ContextualWords(encoder)
        return {name: known[name] for name in c.words.channels}, None if fixed is None else torch.from_numpy(fixed)

    def _check_memory(self, fixed: Tensor | None) -> None:
        """Raise InputError if the model cannot be trained in the memory that is free; takes none itself."""
        with torch.device("meta"), Unfilled():
            model = build_model(self.config, self.vocabularies, fixed, self.blueprint)
        parameters = sum(p.numel() for p in model.parameters())
        sizes = f"hidden = {self.config.views.hidden}, word_dim = {self.config.words.dim}"
        remedy = "lower --hidden, --word-dim or --vocabulary"
        check_memory(
            f"{sizes}: training {parameters:,} parameters",
            training_bytes(model),
            free_bytes(self.device),
            "train fewer --top-layers, or choose a smaller encoder" if self.blueprint else remedy,
        )

    def restore(self) -> Place:
        """Restore model and optimiser from the run's latest checkpoint; return the place to resume from."""
        # With gathered negatives, all ranks compute the same loss and need the same random numbers.
        rank = 0 if self.config.optimisation.gather_negatives else self.ranks.rank
        start = load_state(self.run, self.model, self.optimiser, rank)
        self.taken = start.step
        if start.ranks == self.ranks.count:
            return start
        # With another number of ranks: the same fraction of the epoch, rounded down to a whole step.
        batch = start.batch * self.epoch_length(start.epoch) // max(1, self.epoch_length(start.epoch, start.ranks))
        return replace(start, batch=batch - batch % self.config.optimisation.accumulate, ranks=self.ranks.count)

    def epoch_length(self, epoch: int, ranks: int | None = None) -> int:
        """Batches per rank in an epoch: the smallest number that any rank has."""
        c, shares = self.config.optimisation, np.diff(deal(self.document_starts, ranks or self.ranks.count))
        return min(n_batches(int(share), c.batch_size, c.seed, epoch) for share in shares)

    def check_finite(self) -> None:
        """Stop if the loss was NaN or infinite at some step; the last checkpoint is kept.

        Raises:
            DivergedError: names the first such step and its batch.
        """
        if step := int(self.first_bad):
            raise DivergedError(
                f"{self.run}: the loss is NaN or infinite at step {step} ({self._batch_of(step)}): "
                "give a lower --lr; the last checkpoint is kept"
            )

    def _batch_of(self, step: int) -> str:
        """The first batch of a step, and its epoch."""
        for epoch in range(self.config.optimisation.epochs):
            steps = self._n_steps_of(epoch)
            if step <= steps:
                break
            step -= steps
        return f"batch {(step - 1) * self.config.optimisation.accumulate + 1} of epoch {epoch + 1}"

    @property
    def n_steps(self) -> int:
        """Number of steps of the whole run."""
        return self.last_step(Place())

    def last_step(self, start: Place) -> int:
        """The number of the run's last step when it resumes from ``start``."""
        c = self.config.optimisation
        steps = start.step + sum(map(self._n_steps_of, range(start.epoch, c.epochs))) - start.batch // c.accumulate
        return min(steps, c.steps) if c.steps else steps

    def _n_steps_of(self, epoch: int) -> int:
        return math.ceil(self.epoch_length(epoch) / self.config.optimisation.accumulate)

    def steps(self, start: Place) -> Iterator[Step]:
        """The data of each step from ``start`` on, from this rank's share."""
        if self.device.type == "cuda":  # each thread has its own current GPU
            torch.cuda.set_device(self.device)
        c, step, ranks = self.config.optimisation, start.step, self.ranks
        first, last = deal(self.document_starts, ranks.count)[ranks.rank : ranks.rank + 2]
        for epoch in range(start.epoch, c.epochs):
            count = self.epoch_length(epoch)
            done = start.batch if epoch == start.epoch else 0
            own, shuffled = self.train_rows[first:last], not self.model.reads_neighbours
            batches = islice(epoch_batches(own, c.batch_size, c.seed, epoch, shuffled=shuffled), done, count)
            while rows := list(islice(batches, c.accumulate)):
                if c.steps and step >= c.steps:
                    return
                step, done = step + 1, done + len(rows)
                following = (epoch + 1, 0) if done == count else (epoch, done)
                place = Place(step, *following, ranks=ranks.count)
                yield self._load(place, [self.reader.batch(each) for each in rows])

    def _load(self, place: Place, batches: list[Batch]) -> Step:
        words = {name: [batch.ids[name].own.numpy() for batch in batches] for name in self.reader.vocabularies}
        distinct = {name: ids[0] if len(ids) == 1 else np.unique(np.concatenate(ids)) for name, ids in words.items()}
        return Step(place, [batch.to(self.device) for batch in batches], distinct)

    def agree(self, step: Step, signal: int) -> Agreement:
        """Exchange with the other ranks what each will do in the next step."""
        due = self.ranks.leads and time.monotonic() - self.last_saved > 60 * self.config.monitoring.checkpoint_minutes
        sizes = {name: len(vocabulary) for name, vocabulary in self.reader.vocabularies.items()}
        return self.ranks.agree(signal, due, sum(map(len, step.batches)), step.words, sizes)

    def step(
        self, *batches: Batch, words: Mapping[str, np.ndarray] | None = None
    ) -> tuple[dict[str, dict[str, Tensor]], list[list[Tensor]]]:
        """Take one optimiser step.

        Args:
            *batches: each is scored by itself; their gradients are averaged.
            words: by channel, the ids ``(U,)`` that occur in any rank's batches, ascending, on the CPU; not
                needed for a single batch on a single rank.

        Returns:
            The batches' mean metrics by channel, and the last batch's vectors of each channel's views.
        """
        self.optimiser.zero_grad(set_to_none=True)
        scored = []
        join = self.ranks.join if self.config.optimisation.gather_negatives else None
        for batch in batches:
            loss, metrics, vectors = self._losses(batch, join)
            (loss / len(batches)).backward()
            scored.append(metrics)
            self.first_bad.masked_fill_((self.first_bad == 0) & ~loss.detach().isfinite(), self.taken + 1)
        if words and (len(batches) > 1 or self.ranks.count > 1):
            self._average(words)
        for _, channel in self.model.each():
            clip_gradients(channel.parameters(), self.config.optimisation.clip)
        self.optimiser.step()
        self.model.after_step()
        self.taken += 1
        return mean_metrics(scored), vectors

    def _average(self, words: Mapping[str, np.ndarray]) -> None:
        """Average the gradients over ranks, after giving sparse ones the same rows everywhere."""
        values = []
        for name, channel in self.model.each():
            rows = send(torch.from_numpy(words[name]), self.device)
            for parameter in channel.parameters():
                if not parameter.requires_grad:
                    continue
                if parameter.grad is None:  # other ranks may have one
                    parameter.grad = torch.zeros_like(parameter)
                if parameter.grad.is_sparse:
                    parameter.grad = merge_rows(parameter.grad, rows)
                values.append(parameter.grad.values() if parameter.grad.is_sparse else parameter.grad)
        self.ranks.average(values)

    @torch.no_grad()
    def validate(self, rows: np.ndarray | None = None) -> dict[str, float]:
        """Metrics averaged over anchors; empty if there are none.

        Args:
            rows: ascending indices of sentences, by default of the held-out ones; of many, evenly spaced batches
                are used.
        """
        rows = self.held_out_rows if rows is None else rows
        totals: dict[str, dict[str, Tensor]] = {}
        self.model.eval()
        size = self.config.optimisation.batch_size
        starts = range(0, len(rows), size)
        for start in starts[:: max(1, len(starts) // VALIDATION_BATCHES)]:
            batch = self.reader.batch(rows[start : start + size])
            _, metrics, _ = self._losses(batch)
            for channel, values in metrics.items():
                anchors, sums = values["anchors"].double(), totals.setdefault(channel, {})
                for name, value in (values | {"anchors": torch.ones_like(anchors)}).items():
                    sums[name] = sums.get(name, 0) + anchors * value
        self.model.train()
        if not any(sums["anchors"] for sums in totals.values()):
            return {}
        return flat({channel: _means(sums) for channel, sums in totals.items()})

    def _losses(
        self, batch: Batch, join: Join | None = None
    ) -> tuple[Tensor, dict[str, dict[str, Tensor]], list[list[Tensor]]]:
        batch = batch.to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            return self.model.losses(batch, self.model.context(batch, self.config.objective.context), join)


def start_from_encoder(model: Model, folder: Path) -> None:
    """Give the views that read an encoder's pieces its weights.

    Raises:
        InputError: if it cannot be loaded.
    """
    weights = load_encoder(folder).model.state_dict()
    for view in model.views:
        if view.reads_pieces:
            view.get_submodule("network").load_state_dict(weights)


def parameter_groups(model: Model) -> list[dict[str, Any]]:
    """The model's parameters; those of views with a learning rate of their own come last, with that rate."""
    apart = [view for view in model.views if view.lr is not None]
    theirs = {id(parameter) for view in apart for parameter in view.parameters()}
    rest = [each for each in model.parameters() if id(each) not in theirs]
    return [{"params": rest}, *({"params": list(view.parameters()), "lr": view.lr} for view in apart)]


def _means(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: total / sums["anchors"] for name, total in sums.items() if name != "anchors"}
