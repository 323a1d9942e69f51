"""The model of a training run, its optimiser and its steps."""

import time
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from structviews.batches.batch import Batch
from structviews.encoding.expansion import read_further_words
from structviews.encoding.kinds.trained import TrainedEmbedder
from structviews.encoding.representation import save_components
from structviews.errors import DivergedError, InputError
from structviews.kernels import message_passing
from structviews.model import Join, build_model
from structviews.pretrained.loading import Blueprint, load_encoder
from structviews.runs.config import TrainConfig
from structviews.runs.weights import load_words, start_from, write_weights
from structviews.runtime.device import Unfilled, best_device, half_precision, send
from structviews.runtime.machine import available_bytes, check_memory
from structviews.training.checkpoint import Progress, check_source, load_state, random_state, read_progress, save_state
from structviews.training.data import Data, Inputs, Step
from structviews.training.optimiser import LazyAdam, clip_gradients, merge_rows
from structviews.training.ranks import Ranks
from structviews.words import CONTEXTUAL, FIXED, TRAINED

DIVERGED = "give a lower --lr; the last checkpoint is kept"
VALIDATION_BATCHES = 25
# Sentences, evenly spaced, of which some must differ.
COMPARED = 1000
# Of a weight that is trained, its gradient and Adam's two moments.
BYTES_PER_PARAMETER = 16
# By channel and name.
Metrics = dict[str, dict[str, Tensor]]


class Agreement(NamedTuple):
    """What all ranks know before a step."""

    signal: int  # number of a signal that asked any rank to stop, or 0
    due: bool  # whether any rank wants a checkpoint
    sentences: int  # in all ranks' batches
    words: dict[str, np.ndarray]  # by channel, the ids (U,) that occur in any rank's batches, ascending


class Training:
    """Model, data and optimiser of a run; its ``blueprint`` is None without the view ``transformer``.

    The ``needed_bytes`` are those of the weights, and of what training keeps beside those that it changes.
    """

    def __init__(self, config: TrainConfig, ranks: Ranks | None = None, inputs: Inputs | None = None):
        self.config, self.ranks = config, ranks or Ranks()
        self.run, self.device = Path(config.data.out), best_device()
        if config.views.tree_backend == "dgl":
            message_passing.require(self.device)
        self.half = half_precision(config.optimisation.precision, self.device)
        self.inputs = inputs or Inputs(config)
        encoder, begun = self.inputs.encoder, read_progress(self.run) is not None
        source = Path(config.data.init_from)  # it may be gone once this run has begun
        from_source = bool(config.data.init_from) and not begun
        former = check_source(config, self.inputs.parsed).objective if from_source else config.objective
        self.vocabularies, fixed = self.inputs.words(config)
        n_source_words = 0
        if config.data.init_from and TRAINED in config.words.channels:
            source_words = load_words(self.run if begun else source, TRAINED)
            self.vocabularies[TRAINED] = source_words.extended(self.vocabularies[TRAINED])
            n_source_words = len(source_words)
        self.blueprint = Blueprint.of(encoder.folder) if encoder and config.reads_pieces else None
        taught = self.inputs.parsed.teacher.get("dim", 0)
        with torch.device("meta"), Unfilled():  # which takes no memory itself
            model = build_model(config, self.vocabularies, fixed, self.blueprint, taught)
        sizes = {True: BYTES_PER_PARAMETER, False: torch.float32.itemsize}
        self.needed_bytes = sum(sizes[weight.requires_grad] * weight.numel() for weight in model.parameters())
        free = torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else available_bytes()
        n_parameters = sum(weight.numel() for weight in model.parameters())
        what = f"hidden = {config.views.hidden}, word_dim = {config.words.dim}: training {n_parameters:,} parameters"
        smaller = "train fewer --top-layers, or choose a smaller encoder"
        remedy = smaller if self.blueprint else "lower --hidden, --word-dim or --vocabulary"
        check_memory(what, self.needed_bytes, free, remedy)
        torch.manual_seed(config.optimisation.seed)
        self.model = build_model(config, self.vocabularies, fixed, self.blueprint, taught, config.views.tree_backend)
        self.model.to(self.device)
        if encoder and self.blueprint and not begun:
            weights = load_encoder(encoder.folder).model.state_dict()
            for view in self.model.views:
                if view.reads_pieces:
                    view.get_submodule("network").load_state_dict(weights)
        if from_source:
            # Their rows are the words of one corpus, or count them.
            fresh = [f"{FIXED}.words.", f"{FIXED}.objective.words.", f"{CONTEXTUAL}.words.", ".frequencies"]
            # Another objective has other weights, and so has another critic.
            kinds = {(each.name, getattr(each.options[each.name], "critic", "")) for each in (former, config.objective)}
            start_from(source, self.model, n_source_words, fresh + [".objective."] * (len(kinds) > 1))
        self.data = Data(config, self.inputs, self.vocabularies, self.model, self.blueprint, self.ranks, self.device)
        self.steps = self.data.steps
        # Views with a learning rate of their own come last.
        apart = [view for view in self.model.views if view.lr is not None]
        apart_ids = {id(parameter) for view in apart for parameter in view.parameters()}
        groups: list[dict[str, Any]] = [{"params": [p for p in self.model.parameters() if id(p) not in apart_ids]}]
        groups += [{"params": list(view.parameters()), "lr": view.lr} for view in apart]
        self.optimiser = LazyAdam(groups, lr=config.optimisation.lr, fused=True)
        if self.ranks.count > 1 and not config.optimisation.gather_negatives:
            # The weights are the same on all ranks; other random numbers may differ.
            torch.manual_seed(config.optimisation.seed + self.ranks.rank)
        self.last_saved, self.taken = time.monotonic(), 0
        self.first_bad = torch.zeros((), dtype=torch.int64, device=self.device)

    def check_learnable(self) -> None:
        """Raise InputError if all sentences are the same, none has a context, or all candidates are right.

        Of the sentences, a sample is compared. Warns if there is nothing to validate on.
        """
        config, data, corpus, rows = self.config, self.data, self.inputs.corpus, self.data.train_rows
        sample = rows[:: max(1, len(rows) // COMPARED)]
        different, start = set[tuple[str, ...]](), 0
        for table in corpus.tables():
            own = sample[(sample >= start) & (sample < start + len(table))] - start
            different.update(map(tuple, table["tokens"].take(own).to_pylist()))
            start += len(table)
            if len(different) > 1:  # mostly, in the first one
                break
        else:
            fault = "all its sentences are the same, so there is nothing to learn"
            raise InputError(f"{corpus.path}: {fault}: give another corpus")
        if config.data.held_out and not len(data.held_out_rows) and self.ranks.leads:
            message = "one document, which is not split: none is held out for validation"
            warnings.warn(f"{corpus.path}: {message}", stacklevel=2)
        lonely = False
        if data.reads_neighbours and not config.objective.across_documents:
            document = data.reader.documents()[rows]
            position = np.concatenate([table["position"].to_numpy() for table in corpus.tables()])[rows]
            lonely = not ((np.diff(document) == 0) & (np.diff(position) <= data.reach)).any()
        size, window = config.optimisation.batch_size, 2 * config.objective.context + 1
        if not lonely and min(size, len(rows)) > window:
            return  # some candidates are right and some are not
        metrics = self.validate(rows)
        if lonely and not metrics:
            fault = "no sentence has a neighbour in its document, so there is nothing to learn"
            remedy = "parse running text, or lines with a blank line only between documents"
            raise InputError(f"{config.data.corpus}: {fault}: {remedy}")
        chances = [value for name, value in metrics.items() if name.split(".")[-1] == "chance_accuracy"]
        if chances and min(chances) >= 1:
            settings = f"batch_size = {size}, context = {config.objective.context}"
            fault = "every candidate is right, so there is nothing to learn"
            raise InputError(f"{settings}: {fault}: give a larger --batch-size or more sentences")

    def restore(self) -> Progress:
        """Restore model and optimiser from the run's latest checkpoint; return the progress to resume from."""
        # With gathered negatives, all ranks compute the same loss and need the same random numbers.
        rank = 0 if self.config.optimisation.gather_negatives else self.ranks.rank
        start = load_state(self.run, self.model, self.optimiser, rank)
        self.taken = start.step
        if start.ranks == self.ranks.count:
            return start
        # Another number of processes trained it: as far into the epoch, in whole steps.
        before = max(1, self.data.epoch_length(start.epoch, start.ranks))
        batch = start.batch * self.data.epoch_length(start.epoch) // before
        whole = batch - batch % self.config.optimisation.accumulate
        return replace(start, batch=whole, ranks=self.ranks.count)

    def agree(self, step: Step, signal: int) -> Agreement:
        """Exchange with the other ranks what each will do in the next step."""
        due = self.ranks.leads and time.monotonic() - self.last_saved > 60 * self.config.monitoring.checkpoint_minutes
        own = Agreement(signal, due, sum(map(len, step.batches)), step.words)
        if self.ranks.count == 1:
            return own
        head = np.array(own[:3], dtype=np.int64).view(np.uint8)
        masks = []
        for name, ids in step.words.items():
            mask = np.zeros(len(self.vocabularies[name]), dtype=bool)
            mask[ids] = True
            masks.append(np.packbits(mask))
        gathered = self.ranks.exchange(np.concatenate([head, *masks]))
        signals, wanted, sentences = np.ascontiguousarray(gathered[:, : len(head)]).view(np.int64).T
        joined = np.bitwise_or.reduce(gathered[:, len(head) :])
        of_channels = np.split(joined, np.cumsum([len(mask) for mask in masks])[:-1]) if masks else []
        words = {name: np.flatnonzero(np.unpackbits(bits)) for name, bits in zip(step.words, of_channels, strict=True)}
        return Agreement(int(signals.max()), bool(wanted.any()), int(sentences.sum()), words)

    def step(
        self, *batches: Batch, words: Mapping[str, np.ndarray] | None = None
    ) -> tuple[Metrics, list[list[Tensor]]]:
        """Take one optimiser step on the mean gradient of some batches, each scored by itself.

        ``words`` has, by channel, the ids ``(U,)`` that occur in any rank's batches, ascending, on the CPU; not needed
        for a single batch on a single rank. Returns the batches' mean metrics by channel, and the last batch's vectors.
        """
        self.optimiser.zero_grad(set_to_none=True)
        scored = []
        join = self.ranks.join if self.config.optimisation.gather_negatives else None
        for batch in batches:
            loss, metrics, vectors = self.losses(batch, join)
            (loss / len(batches)).backward()
            scored.append(metrics)
            self.first_bad.masked_fill_((self.first_bad == 0) & ~loss.detach().isfinite(), self.taken + 1)
        if words and (len(batches) > 1 or self.ranks.count > 1):
            values = []
            for name, channel in self.model.channels.items():
                rows = send(torch.from_numpy(words[name]), self.device)
                for parameter in channel.parameters():
                    if not parameter.requires_grad:
                        continue
                    if parameter.grad is None:  # other ranks may have one
                        parameter.grad = torch.zeros_like(parameter)
                    if parameter.grad.is_sparse:  # the same rows on all ranks
                        parameter.grad = merge_rows(parameter.grad, rows)
                    values.append(parameter.grad.values() if parameter.grad.is_sparse else parameter.grad)
            self.ranks.average(values)
        for channel in self.model.channels.values():
            parameters, c = list(channel.parameters()), self.config.optimisation
            for together in [parameters] if c.clip_by == "channel" else zip(parameters):
                clip_gradients(together, c.clip)
        self.optimiser.step()
        self.model.after_step()
        self.taken += 1
        means = {
            channel: {name: torch.stack([m[channel][name] for m in scored]).double().mean() for name in metrics}
            for channel, metrics in scored[0].items()
        }
        return means, vectors

    def losses(self, batch: Batch, join: Join | None = None) -> tuple[Tensor, Metrics, list[list[Tensor]]]:
        """See ``Model.losses``."""
        batch = batch.to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            return self.model.losses(batch, self.model.context(batch, self.config.objective.context), join)

    def validate(self, rows: np.ndarray | None = None) -> dict[str, float]:
        """Metrics averaged over anchors, by their ``flat`` names; empty if there are none.

        ``rows`` are ascending indices of sentences, by default the held-out ones; of many, evenly spaced batches count.
        """
        rows = self.data.held_out_rows if rows is None else rows
        totals: Metrics = {}
        size = self.config.optimisation.batch_size
        starts = range(0, len(rows), size)
        with self.undisturbed(), torch.no_grad():
            self.model.eval()
            for start in starts[:: max(1, len(starts) // VALIDATION_BATCHES)]:
                _, metrics, _ = self.losses(self.data.reader.batch(rows[start : start + size]))
                for channel, values in metrics.items():
                    anchors, sums = values["anchors"].double(), totals.setdefault(channel, {})
                    for name, value in (values | {"anchors": torch.ones_like(anchors)}).items():
                        sums[name] = sums.get(name, 0) + anchors * value
            self.model.train()
        if not any(sums["anchors"] for sums in totals.values()):
            return {}
        means = {c: {n: s / sums["anchors"] for n, s in sums.items() if n != "anchors"} for c, sums in totals.items()}
        return flat(means)

    def undisturbed(self) -> AbstractContextManager[None]:
        """Context in which drawing random numbers does not affect training."""
        return torch.random.fork_rng([self.device] if self.device.type == "cuda" else [])

    def check_finite(self) -> None:
        """Raise DivergedError, with the step and its batch, if the loss was NaN or infinite at some step."""
        if step := int(self.first_bad):
            place = f"at step {step} ({self.data.batch_of(step)})"
            raise DivergedError(f"{self.run}: the loss is NaN or infinite {place}: {DIVERGED}")

    def save(self, progress: Progress) -> None:
        """Save the state for resuming, then the weights; raises DivergedError if a loss or weight is not finite."""
        self.check_finite()
        if not all(bool(p.isfinite().all()) for p in self.model.parameters()):
            raise DivergedError(f"{self.run}: a weight is NaN or infinite after step {progress.step}: {DIVERGED}")
        random = self.ranks.exchange(random_state())
        if self.ranks.leads:
            save_state(self.run, self.model, self.optimiser, progress, random)
            write_weights(self.run, self.model.state_dict())
        self.ranks.wait()
        self.last_saved = time.monotonic()

    def save_components(self) -> None:
        """Fit the components that a representation may remove on a sample of training sentences, and save them."""
        components = self.embedder().fit_components(self.inputs.corpus, self.data.train_rows)
        save_components(self.run, components)

    def embedder(self) -> TrainedEmbedder:
        """The model in its present state as an embedder, which knows every word of the run's vector file."""
        words = self.vocabularies
        if self.inputs.vectors:
            words = read_further_words(self.model, words, self.inputs.vectors.read)
        return TrainedEmbedder(self.config, self.inputs.parsed, self.model, words, blueprint=self.blueprint)


def flat(metrics: Metrics) -> dict[str, float]:
    """Metrics as floats; with several channels, names are prefixed with the channel's."""
    prefixes = {channel: f"{channel}." if len(metrics) > 1 else "" for channel in metrics}
    return {f"{prefixes[channel]}{name}": float(v) for channel, own in metrics.items() for name, v in own.items()}
