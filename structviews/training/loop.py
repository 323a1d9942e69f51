"""The training loop."""

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from rich.console import Console

from structviews.batches.reader import prefetch
from structviews.encoding.kinds.trained import TrainedEmbedder
from structviews.encoding.representation import reference_sentences, save_components
from structviews.errors import DivergedError
from structviews.runs.config import TrainConfig
from structviews.runs.folder import ENCODER
from structviews.runs.vocabularies import open_encoder, open_vectors, save_vocabularies
from structviews.runs.weights import save_weights
from structviews.runtime.files import creating
from structviews.runtime.machine import keep_freed_memory
from structviews.runtime.processes import Interrupted, stop_signals
from structviews.runtime.terminal import Terminal, rate_bar, say
from structviews.training.checkpoint import Place, mark, random_state, save_state
from structviews.training.learnable import check_learnable
from structviews.training.log import cosines, flat
from structviews.training.ranks import Agreement, Ranks
from structviews.training.reporting import Reporter
from structviews.training.resuming import is_finished, open_run
from structviews.training.tensorboard import require_tensorboard
from structviews.training.trainer import Step, Training
from structviews.words import CONTEXTUAL

if TYPE_CHECKING:
    from structviews.training.monitor import Monitor


def train(config: TrainConfig, console: Console | None = None, ranks: Ranks | None = None) -> Path:
    """Train a run, or resume it if it was interrupted; return its folder.

    Args:
        config: the settings; ``config.data.out`` is the run's folder.
        console: where progress is shown.
        ranks: the processes that train together; only this one by default.

    Raises:
        InputError: if the folder holds a run with other settings or of another corpus, if another process trains
            it, or if the settings or the corpus are invalid.
        Interrupted: on SIGINT or SIGTERM, once the state is saved.
    """
    ranks = ranks or Ranks()
    with creating(Path(config.data.out)) if ranks.leads else nullcontext():
        return _train(config, console, ranks)


def _train(config: TrainConfig, console: Console | None, ranks: Ranks) -> Path:
    console = console or Terminal(stderr=True) if ranks.leads else Terminal(quiet=True)
    if ranks.leads:  # writes a cache file that the other ranks read
        with rate_bar(console, f"reading {config.words.vectors}", "MB", 10**6) as progress:
            open_vectors(config, progress)
        open_encoder(config)  # may be fetched from the Hub
    ranks.wait()
    if is_finished(config):
        say(console, f"{config.data.out}: already trained")
        return Path(config.data.out)
    keep_freed_memory()
    if config.monitoring.tensorboard:
        require_tensorboard()
    with rate_bar(console, Path(config.data.out).name, "steps", percent=False) as bar:
        bar.stage("reading the corpus")
        training = Training(config, ranks)
        check_learnable(training)
        monitor = None
        if config.monitoring.eval_every and ranks.leads:
            bar.stage(f"parsing {config.monitoring.eval_task}")
            monitor = open_monitor(training)
        if ranks.leads:
            open_run(config, training.parsed)
            save_parts(training)
        ranks.wait()
        if training.left_out > 0.05:
            say(console, uneven(training))
        if CONTEXTUAL in config.words.channels:
            say(console, read_states(training))
        start = training.restore()
        objectives = {name: channel.objective for name, channel in training.model.each()}
        last = training.last_step(start)
        reporter = (
            Reporter(training.run, start, objectives, console, bar, last, config.monitoring.tensorboard)
            if ranks.leads
            else None
        )
        place = _take_steps(training, start, reporter, monitor)
        checkpoint(training, place)
    if reporter:
        store_components(training)  # of the final weights, and before the run counts as finished
        mark(training.run, finished=True)
        reporter.learnt(place)
    return training.run


def save_parts(training: Training) -> None:
    """Write what a run needs to read sentences: its vocabularies, and the encoder of its transformer."""
    save_vocabularies(training.run, training.vocabularies)
    if training.blueprint:
        training.blueprint.write(training.run / ENCODER)


def uneven(training: Training) -> str:
    """What an epoch leaves out when several processes train."""
    return (
        f"each epoch skips {100 * training.left_out:.0f} % of the training sentences, different ones each time, as "
        f"whole documents split unevenly between {training.ranks.count} processes"
    )


def read_states(training: Training) -> str:
    """Where the words of the contextual channel come from."""
    encoder = training.config.words.encoder
    if training.states:
        return f"states of {encoder}: read from {training.states.path}"
    return f"states of {encoder}: computed for each batch; `structviews corpus states` computes them once and for all"


def _take_steps(training: Training, start: Place, reporter: Reporter | None, monitor: "Monitor | None") -> Place:
    """Take all steps from ``start`` on; return the place reached."""
    config, place = training.config, start
    with stop_signals() as stopped:
        for step in prefetch(training.steps(start)):
            agreed = training.agree(step, stopped())
            save_or_stop(training, agreed, place)
            place = step.place
            metrics, vectors = training.step(*step.batches, words=agreed.words)
            if reporter:
                reporter.count(place, agreed.sentences)
            if place.step % config.monitoring.log_every == 0:
                channels = {name: metrics[name] | cosines(v) for name, v in zip(metrics, vectors, strict=True)}
                line = training.ranks.mean(flat(channels))
                training.check_finite()
                if reporter:
                    reporter.step(place, line)
            if is_validated(place, config) and reporter:
                with undisturbed(training.device):
                    reporter.validation(place, training.validate())
            if monitor and reporter and place.step % config.monitoring.eval_every == 0:
                with undisturbed(training.device):
                    reporter.evaluation(place, monitor.score())
        save_or_stop(training, training.agree(Step(place, [], {}), stopped()), place)
        if not is_validated(place, config) and reporter:
            with undisturbed(training.device):
                reporter.validation(place, training.validate())
    return place


def open_monitor(training: Training) -> "Monitor":
    """A monitor for a run's evaluation task; parses its sentences."""
    # Evaluation brings scikit-learn, two seconds that a run without --eval-every need not wait for.
    from structviews.training.monitor import Monitor  # noqa: PLC0415

    with undisturbed(training.device):
        return Monitor(training)


def undisturbed(device: torch.device) -> AbstractContextManager[None]:
    """Context in which drawing random numbers does not affect training."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])


def save_or_stop(training: Training, agreed: Agreement, place: Place) -> None:
    """Between steps: save a checkpoint if due, and stop if a signal asked for it.

    Raises:
        Interrupted: after saving, if a signal asked to stop.
    """
    if agreed.signal or agreed.due:
        checkpoint(training, place)
    if agreed.signal:
        raise Interrupted(agreed.signal, place.step)


def is_validated(place: Place, config: TrainConfig) -> bool:
    """Whether this place follows a validation. The place after an epoch is the start of the next."""
    return place.batch == 0 or place.step % config.monitoring.validate_every == 0


def checkpoint(training: Training, place: Place) -> None:
    """Save the state for resuming, then the weights.

    Raises:
        DivergedError: if a loss or a weight is NaN or infinite.
    """
    training.check_finite()
    if not all(bool(p.isfinite().all()) for p in training.model.parameters()):
        raise DivergedError(
            f"{training.run}: a weight is NaN or infinite after step {place.step}: "
            "give a lower --lr; the last checkpoint is kept"
        )
    random = training.ranks.exchange(random_state())
    if training.ranks.leads:
        save_state(training.run, training.model, training.optimiser, place, random)
        save_weights(training.run, training.model)
    training.ranks.wait()
    training.last_saved = time.monotonic()


def store_components(training: Training) -> None:
    """Fit the components that a representation may remove on a sample of training sentences, and save them."""
    sample = reference_sentences(training.corpus, training.train_rows)
    save_components(training.run, TrainedEmbedder.open(training.run).fit_components(sample))
