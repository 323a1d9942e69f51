"""Training a pair of views, or more, on a parsed corpus."""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from structviews.batching import Batch, CorpusReader, epoch_batches, held_out, n_batches, prefetch
from structviews.cache import ParsedCorpus
from structviews.channels import corpus_words, open_vectors, save_vocabularies, vocabulary_file
from structviews.checkpoint import Progress as Place
from structviews.checkpoint import load_state, mark, random_state, read_progress, save_state, save_weights, start_from
from structviews.config import FIXED, TRAINED, Parsed, TrainConfig
from structviews.device import best_device, half_precision, send
from structviews.distributed import Agreement, Ranks, deal
from structviews.errors import InputError
from structviews.events import Events, require_tensorboard
from structviews.kernels import message_passing
from structviews.log import cosines, cut_log, flat, mean_metrics, progress_bar, rate_bar, say
from structviews.memory import keep_freed_memory
from structviews.model import Join, build_model
from structviews.optimiser import LazyAdam, clip_gradients, merge_rows
from structviews.reporting import record, report_evaluation, report_validation, undisturbed, warn
from structviews.representation import reference_sentences, save_components
from structviews.runs import check_source, is_finished, open_run
from structviews.signals import Interrupted, stop_signals
from structviews.vocabulary import Vocabulary

if TYPE_CHECKING:
    from structviews.monitor import Monitor

VALIDATION_BATCHES = 25


class Step(NamedTuple):
    """What one step trains on.

    Attributes:
        place: where training stands after it.
        batches: on the device.
        words: by channel, the ids ``(U,)`` that occur in them, ascending, on the CPU.
    """

    place: Place
    batches: list[Batch]
    words: dict[str, np.ndarray]


class Training:
    """Everything that a run is made of, before its first or next step.

    Args:
        config: the settings.
        ranks: the processes that train together; this one alone by default.

    Attributes:
        left_out: share of the training sentences that an epoch leaves out, since the ranks' are unequal.

    Raises:
        InputError: if the corpus or the settings do not do.
    """

    def __init__(self, config: TrainConfig, ranks: Ranks | None = None):
        self.config = config
        self.ranks = ranks or Ranks()
        self.run = Path(config.out)
        self.device = best_device()
        if config.tree_backend == "dgl":
            message_passing.require(self.device)
        self.half = half_precision(config.precision, self.device)
        self.corpus = ParsedCorpus.open(config.corpus)
        begun = read_progress(self.run) is not None
        source = check_source(config) if config.init_from and not begun else None
        self.vectors = open_vectors(config)
        self.vocabularies, fixed = corpus_words(config, self.corpus, self.vectors)
        n_known = 0
        if config.init_from and TRAINED in config.channels:  # a run that may be gone once this one has begun
            known = Vocabulary.load((self.run if begun else Path(config.init_from)) / vocabulary_file(TRAINED))
            self.vocabularies[TRAINED] = known.extended(self.vocabularies[TRAINED])
            n_known = len(known)
        torch.manual_seed(config.seed)
        self.model = build_model(config, self.vocabularies, fixed).to(self.device)
        if source:
            fresh = [f"{FIXED}.words."] + [".objective."] * (source.objective != config.objective)
            start_from(Path(config.init_from), self.model, n_known, fresh)
        for view in self.model.views:
            view.tree_backend = config.tree_backend
        duplicates = "same" in self.model.context_needs
        self.reader = CorpusReader(self.corpus, self.vocabularies, self.model.needs, duplicates)
        documents = self.reader.documents()
        chosen = held_out(documents, config.seed, config.held_out)
        self.train_rows, self.held_out_rows = (np.flatnonzero(rows).astype(np.int32) for rows in (~chosen, chosen))
        if len(self.train_rows) < 2:
            raise InputError(f"{config.corpus}: {len(self.train_rows)} training sentences: parse a larger corpus")
        firsts = np.flatnonzero(np.diff(documents[self.train_rows], prepend=-1))
        self.document_starts = np.append(firsts, len(self.train_rows))
        shares = np.diff(deal(self.document_starts, self.ranks.count))
        if shares.min() < 2:
            raise InputError(
                f"{config.corpus}: its training documents make {(shares >= 2).sum()} shares for "
                f"{self.ranks.count} processes: give torchrun a smaller --nproc-per-node"
            )
        self.left_out = 1 - self.ranks.count * shares.min() / shares.sum()
        self.optimiser = LazyAdam(self.model.parameters(), lr=config.lr)
        if self.ranks.count > 1 and not config.gather_negatives:
            torch.manual_seed(config.seed + self.ranks.rank)  # weights are the same, what else is random need not be
        self.events: Events | None = None
        if config.tensorboard:
            require_tensorboard()
        self.monitor = open_monitor(self) if config.eval_every and self.ranks.leads else None
        self.last_saved = time.monotonic()
        self.warned: set[tuple[str, str]] = set()
        self.taken = 0
        self.first_bad = torch.zeros((), dtype=torch.int64, device=self.device)

    def restore(self) -> Place:
        """Bring the model and the log to the run's newest checkpoint; where to go on from."""
        # What all ranks calculate together needs the same random numbers.
        rank = 0 if self.config.gather_negatives else self.ranks.rank
        start = load_state(self.run, self.model, self.optimiser, rank)
        if self.ranks.leads:
            save_vocabularies(self.run, self.vocabularies)
            cut_log(self.run, start.step)
            self.events = Events(self.run) if self.config.tensorboard else None
        self.taken = start.step
        if start.ranks == self.ranks.count:
            return start
        # The same part of the epoch, of other shares, down to a whole step.
        batch = start.batch * self.epoch_length(start.epoch) // self.epoch_length(start.epoch, start.ranks)
        return replace(start, batch=batch - batch % self.config.accumulate, ranks=self.ranks.count)

    def epoch_length(self, epoch: int, ranks: int | None = None) -> int:
        """Batches that each rank has in an epoch: as many as the one that has the fewest."""
        c, shares = self.config, np.diff(deal(self.document_starts, ranks or self.ranks.count))
        return min(n_batches(int(share), c.batch_size, c.seed, epoch) for share in shares)

    def check_finite(self) -> None:
        """Stop if the loss was no number at some step; the last checkpoint stays.

        Raises:
            InputError: naming the first such step and its batch.
        """
        if step := int(self.first_bad):
            raise InputError(
                f"{self.run}: the loss is no number at step {step} ({self._batch_of(step)}): "
                "give a lower --lr; the last checkpoint stays"
            )

    def _batch_of(self, step: int) -> str:
        """The batch, or the first one, that a step trains on."""
        for epoch in range(self.config.epochs):
            steps = self._n_steps_of(epoch)
            if step <= steps:
                break
            step -= steps
        return f"batch {(step - 1) * self.config.accumulate + 1} of epoch {epoch + 1}"

    @property
    def n_steps(self) -> int:
        """Steps of the whole run."""
        return self.last_step(Place())

    def last_step(self, start: Place) -> int:
        """The number of the step that is the last after ``start``."""
        c = self.config
        steps = start.step + sum(map(self._n_steps_of, range(start.epoch, c.epochs))) - start.batch // c.accumulate
        return min(steps, c.steps) if c.steps else steps

    def _n_steps_of(self, epoch: int) -> int:
        return math.ceil(self.epoch_length(epoch) / self.config.accumulate)

    def steps(self, start: Place) -> Iterator[Step]:
        """What the steps from ``start`` on train on, of this rank's share."""
        if self.device.type == "cuda":  # each thread has a current GPU of its own
            torch.cuda.set_device(self.device)
        c, step, ranks = self.config, start.step, self.ranks
        first, last = deal(self.document_starts, ranks.count)[ranks.rank : ranks.rank + 2]
        for epoch in range(start.epoch, c.epochs):
            count = self.epoch_length(epoch)
            done = start.batch if epoch == start.epoch else 0
            batches = islice(epoch_batches(self.train_rows[first:last], c.batch_size, c.seed, epoch), done, count)
            while rows := list(islice(batches, c.accumulate)):
                if c.steps and step >= c.steps:
                    return
                step, done = step + 1, done + len(rows)
                following = (epoch + 1, 0) if done == count else (epoch, done)
                place = Place(step, *following, ranks=ranks.count)
                yield self._load(place, [self.reader.batch(each) for each in rows])

    def _load(self, place: Place, batches: list[Batch]) -> Step:
        words = {name: [batch.ids[name].distinct.numpy() for batch in batches] for name in self.reader.vocabularies}
        distinct = {name: ids[0] if len(ids) == 1 else np.unique(np.concatenate(ids)) for name, ids in words.items()}
        return Step(place, [batch.to(self.device) for batch in batches], distinct)

    def agree(self, step: Step, signal: int) -> Agreement:
        """Tell the other ranks what this one will do in the next step, and hear it from them."""
        due = self.ranks.leads and time.monotonic() - self.last_saved > 60 * self.config.checkpoint_minutes
        sizes = {name: len(vocabulary) for name, vocabulary in self.reader.vocabularies.items()}
        return self.ranks.agree(signal, due, sum(map(len, step.batches)), step.words, sizes)

    def step(
        self, *batches: Batch, words: Mapping[str, np.ndarray] | None = None
    ) -> tuple[dict[str, dict[str, Tensor]], list[list[Tensor]]]:
        """One step of the optimiser.

        Args:
            *batches: each is scored by itself; their gradients are averaged.
            words: by channel, the ids ``(U,)`` that occur in any rank's batches, ascending, on the CPU; a
                single batch of a single rank knows its own.

        Returns:
            The batches' mean metrics by channel, and the last one's vectors of each channel's views.
        """
        self.optimiser.zero_grad(set_to_none=True)
        scored = []
        join = self.ranks.join if self.config.gather_negatives else None
        for batch in batches:
            loss, metrics, vectors = self._losses(batch, join)
            (loss / len(batches)).backward()
            scored.append(metrics)
            self.first_bad.masked_fill_((self.first_bad == 0) & ~loss.detach().isfinite(), self.taken + 1)
        if words and (len(batches) > 1 or self.ranks.count > 1):
            self._average(words)
        for _, channel in self.model.each():
            clip_gradients(channel.parameters(), self.config.clip)
        self.optimiser.step()
        self.model.after_step()
        self.taken += 1
        return mean_metrics(scored), vectors

    def _average(self, words: Mapping[str, np.ndarray]) -> None:
        """Bring the gradients of several batches, here and on other ranks, to the same rows and to their mean."""
        values = []
        for name, channel in self.model.each():
            rows = send(torch.from_numpy(words[name]), self.device)
            for parameter in channel.parameters():
                if parameter.grad is None:  # there may be one on other ranks
                    parameter.grad = torch.zeros_like(parameter)
                if parameter.grad.is_sparse:
                    parameter.grad = merge_rows(parameter.grad, rows)
                values.append(parameter.grad.values() if parameter.grad.is_sparse else parameter.grad)
        self.ranks.average(values)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Metrics on the held-out documents; means over their anchors.

        Of a large corpus' held-out sentences, batches evenly spread over them are taken.
        """
        totals: dict[str, dict[str, Tensor]] = {}
        self.model.eval()
        size = self.config.batch_size
        starts = range(0, len(self.held_out_rows), size)
        for start in starts[:: max(1, len(starts) // VALIDATION_BATCHES)]:
            batch = self.reader.batch(self.held_out_rows[start : start + size])
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
            return self.model.losses(batch, self.model.context(batch, self.config.context), join)


def _means(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: total / sums["anchors"] for name, total in sums.items() if name != "anchors"}


def train(config: TrainConfig, console: Console | None = None, ranks: Ranks | None = None) -> Path:
    """Train, or go on with a run that was interrupted; return the run's folder.

    Args:
        config: the settings; ``config.out`` is the run's folder.
        console: where progress is shown.
        ranks: the processes that train together; this one alone by default.

    Raises:
        InputError: if the folder holds a run with other settings or of another corpus, or the
            settings or the corpus do not do.
        Interrupted: on SIGINT or SIGTERM, once the state is saved.
    """
    ranks = ranks or Ranks()
    console = console or Console(stderr=True) if ranks.leads else Console(quiet=True)
    if ranks.leads:  # a first reading leaves a file for all
        with rate_bar(console, f"reading {config.vectors}", "MB", 10**6) as progress:
            open_vectors(config, progress)
    ranks.wait()
    if is_finished(config):
        console.print(f"{config.out}: trained already", markup=False, highlight=False, soft_wrap=True)
        return Path(config.out)
    keep_freed_memory()
    training = Training(config, ranks)
    run = training.run
    if ranks.leads:
        open_run(config, Parsed.of(training.corpus, training.vectors))
    ranks.wait()
    if training.left_out > 0.05:
        say(
            console,
            f"{100 * training.left_out:.0f} % of the training sentences are left out of each epoch, others each time: "
            f"whole documents make unequal shares for {ranks.count} processes",
        )
    start = training.restore()
    last_logged, sentences, place = time.monotonic(), 0, start
    with stop_signals() as stopped, progress_bar(console, training.last_step(start), start.step, run.name) as show:
        for step in prefetch(training.steps(start)):
            agreed = training.agree(step, stopped())
            heed(training, agreed, place)
            place = step.place
            metrics, vectors = training.step(*step.batches, words=agreed.words)
            sentences += agreed.sentences
            if place.step % config.log_every == 0:
                now = time.monotonic()
                rate, sentences, last_logged = sentences / (now - last_logged), 0, now
                line = ranks.mean(
                    flat({name: metrics[name] | cosines(views) for name, views in zip(metrics, vectors, strict=True)})
                )
                training.check_finite()
                record(training, "train", place, line | {"sentences_per_second": rate})
                warn(training, line, place, console)
                show(place.step, line, rate)
            if is_validated(place, config):
                report_validation(training, place, console)
            if config.eval_every and place.step % config.eval_every == 0:
                report_evaluation(training, place, console)
        heed(training, training.agree(Step(place, [], {}), stopped()), place)
        if not is_validated(place, config):
            report_validation(training, place, console)
    checkpoint(training, place)
    if ranks.leads:
        store_components(training)  # of these very weights, and before the run counts as finished
        mark(run, finished=True)
    return run


def heed(training: Training, agreed: Agreement, place: Place) -> None:
    """Between steps: a checkpoint where one is due, and the end where a signal asked for it."""
    if agreed.signal or agreed.due:
        checkpoint(training, place)
    if agreed.signal:
        raise Interrupted(agreed.signal, place.step)


def is_validated(place: Place, config: TrainConfig) -> bool:
    """Whether there is a validation before this place; the place after an epoch is the next one's first."""
    return place.batch == 0 or place.step % config.validate_every == 0


def checkpoint(training: Training, place: Place) -> None:
    """Save the state to resume from, then the weights to use.

    Raises:
        InputError: if a weight is no number any more.
    """
    training.check_finite()
    if not all(bool(p.isfinite().all()) for p in training.model.parameters()):
        raise InputError(
            f"{training.run}: a weight is no number after step {place.step}: "
            "give a lower --lr; the last checkpoint stays"
        )
    random = training.ranks.exchange(random_state())
    if training.ranks.leads:
        save_state(training.run, training.model, training.optimiser, place, random)
        save_weights(training.run, training.model)
    training.ranks.wait()
    training.last_saved = time.monotonic()


def store_components(training: Training) -> None:
    """Fit and save the components that a representation may remove, on a sample of the training sentences."""
    from structviews.embedder import TrainedEmbedder  # noqa: PLC0415 - which imports this module

    sample = reference_sentences(training.corpus, training.train_rows)
    save_components(training.run, TrainedEmbedder.open(training.run).fit_components(sample))


def open_monitor(training: Training) -> "Monitor":
    """What scores a task in the course of training, its sentences parsed."""
    from structviews.monitor import Monitor  # noqa: PLC0415 - which imports this module

    with undisturbed(training.device):
        return Monitor(training)
