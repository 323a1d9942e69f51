"""The training loop: one run, several in turn, or a few steps for an estimate."""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from structviews.batches.reader import prefetch
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.pretrained.sentence_models import Teacher
from structviews.pretrained.stored_states import StoredStates, store_states
from structviews.runs.config import TrainConfig
from structviews.runtime.files import creating
from structviews.runtime.machine import keep_freed_memory, require
from structviews.runtime.processes import Interrupted, stop_signals
from structviews.runtime.terminal import Bar, Terminal, say
from structviews.runtime.wording import counted
from structviews.training.checkpoint import Progress, check_same, mark, open_run
from structviews.training.data import Inputs, Step
from structviews.training.ranks import Ranks
from structviews.training.reporting import Reporter, cosines
from structviews.training.trainer import Training, flat
from structviews.words import CONTEXTUAL

if TYPE_CHECKING:
    from structviews.training.monitor import Monitor

MOST_SEEDS = 1000
# Steps that an estimate takes.
STEPS = 3


def train(config: TrainConfig, console: Console | None = None, ranks: Ranks | None = None) -> Path:
    """Train a run, or resume it if it was interrupted; return its folder, ``config.data.out``.

    The ``console`` shows progress; ``ranks`` are the processes that train together, by default this one alone. Raises
    InputError if the folder holds a run with other settings or of another corpus, if another process trains it, or if
    the settings or the corpus are invalid; Interrupted on SIGINT or SIGTERM, once the state is saved.
    """
    run, ranks = Path(config.data.out), ranks or Ranks()
    console = console or Terminal(stderr=True) if ranks.leads else Terminal(quiet=True)
    with creating(run) if ranks.leads else nullcontext():
        with Bar(console, f"reading {config.words.vectors}", "MB", 10**6) as reading:
            # The leader writes a cache file of vectors, and fetches an encoder, which the others then find.
            inputs = Inputs(config, reading) if ranks.leads else None
            ranks.wait()
            inputs = inputs or Inputs(config)
        there = check_same(config, inputs.parsed)
        if there and there.finished:
            say(console, f"{run}: already trained")
            return run
        if config.monitoring.tensorboard:
            require("tensorboardX", "--tensorboard", "tensorboard")
        keep_freed_memory()
        if inputs.teacher and ranks.leads:
            read_by(inputs.teacher, inputs.corpus, console)
        ranks.wait()
        if inputs.teacher:
            inputs.teacher.model.release()
        with Bar(console, run.name, "steps", percent=False) as bar:
            bar.stage("reading the corpus")
            training = Training(config, ranks, inputs)
            training.check_learnable()
            monitor = None
            if config.monitoring.eval_every and ranks.leads:
                bar.stage(f"parsing {config.monitoring.eval_task}")
                # Evaluation brings scikit-learn, two seconds that a run without --eval-every need not wait for.
                from structviews.training.monitor import Monitor  # noqa: PLC0415

                monitor = Monitor(training)
            if ranks.leads:
                open_run(config, inputs.parsed, training.vocabularies, training.blueprint)
            ranks.wait()
            if (left_out := training.data.left_out) > 0.05:
                share = f"{100 * left_out:.0f} % of the training sentences, different ones each time"
                reason = f"as whole documents split unevenly between {ranks.count} processes"
                say(console, f"each epoch skips {share}, {reason}")
            if CONTEXTUAL in config.words.channels:
                computed = "computed for each batch; `structviews corpus states` computes them once and for all"
                source = f"read from {training.data.states.path}" if training.data.states else computed
                say(console, f"states of {config.words.encoder}: {source}")
            start = training.restore()
            reporter = Reporter(training, start, console, bar)
            progress = _take_steps(training, start, reporter, monitor)
            training.save(progress)
        if ranks.leads:
            training.save_components()  # of the final weights, and before the run counts as finished
            mark(run, finished=True)
        reporter.learnt(progress)
    return run


def read_by(teacher: Teacher, corpus: ParsedCorpus, console: Console) -> Path:
    """Store a teacher's vectors of a corpus's sentences, if they are not there yet; return their folder.

    If they are there, other processes may do the same at once: a damaged one is found when it is read.
    """
    if stored := StoredStates.find(corpus, teacher):
        return stored.path

    def announce(sentences: int, size: int) -> None:
        if sentences:
            what = f"{teacher.name} has {counted(sentences, 'sentence')} to read"
            say(console, f"{corpus.path}: {what}, whose vectors take {size / 1e9:,.2f} GB on disk")

    with Bar(console, "reading sentences", "sentences") as progress:
        return store_states(corpus, teacher, announce, progress)


def _take_steps(training: Training, start: Progress, reporter: Reporter, monitor: "Monitor | None") -> Progress:
    """Take all steps from ``start`` on; return the progress reached."""
    monitoring, progress = training.config.monitoring, start
    with stop_signals() as stopped:
        for step in chain(prefetch(training.steps(start)), [None]):
            agreed = training.agree(step or Step(progress, [], {}), stopped())
            if agreed.signal or agreed.due:
                training.save(progress)
            if agreed.signal:
                raise Interrupted(agreed.signal, progress.step)
            if step is None:
                break
            progress = step.progress
            metrics, vectors = training.step(*step.batches, words=agreed.words)
            reporter.count(progress, agreed.sentences)
            if progress.step % monitoring.log_every == 0 or progress.step == reporter.last:
                channels = {name: metrics[name] | cosines(v) for name, v in zip(metrics, vectors, strict=True)}
                means = training.ranks.mean(flat(channels))
                training.check_finite()
                reporter.step(progress, means)
            # The progress after an epoch is the start of the next.
            if progress.batch == 0 or progress.step % monitoring.validate_every == 0:
                reporter.validation(progress)
            if monitor and progress.step % monitoring.eval_every == 0:
                reporter.evaluation(progress, monitor.score())
        if progress.batch and progress.step % monitoring.validate_every:  # not validated yet
            reporter.validation(progress)
    return progress


def sweep_jobs(
    sets: Sequence[tuple[str, ...]], seeds: int, folder: Path, settings: Mapping[str, Any], base: TrainConfig | None
) -> list[TrainConfig]:
    """The settings of all runs, by seed from 1, so that the first complete table is ready early.

    ``sets`` are their views; the runs go below ``folder``, named after views and seed. ``settings`` are common to all,
    and go before those of ``base``.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError(f"seeds = {seeds}: give at least 1 and at most {MOST_SEEDS}")
    for number, names in enumerate(sets):
        if names in sets[:number]:
            raise InputError(f"--views {','.join(names)}: given twice: remove one")
    jobs = []
    for seed in range(1, seeds + 1):
        for names in sets:
            out = folder / f"{'-'.join(names)}-seed{seed}"
            own = dict(settings) | {"views": names, "seed": seed, "out": str(out)}
            jobs.append(base.replaced(**own) if base else TrainConfig.of("command line", **own))
    return jobs


@dataclass(frozen=True)
class Estimate:
    """What a training run needs, as measured on a few batches; of memory, all but the activations."""

    steps: int
    parameters: int
    gigabytes: float
    sentences_per_second: float
    seconds: float


def estimate(config: TrainConfig) -> Estimate:
    """Estimate what a run needs from a few steps on its own batches; writes nothing."""
    training = Training(config)
    training.check_learnable()
    steps = training.steps(Progress())
    first = next(steps)
    training.step(*first.batches, words=first.words)  # warm-up: the first step also allocates memory
    began, sentences = time.monotonic(), []
    # With their batches, which take longer than the steps where they hold an encoder's states.
    for step in list(islice(steps, STEPS)) or [first]:  # there may be only one
        training.step(*step.batches, words=step.words)
        sentences.append(sum(map(len, step.batches)))
    seconds = (time.monotonic() - began) / len(sentences)
    parameters = sum(p.numel() for p in training.model.parameters())
    rate = sum(sentences) / len(sentences) / seconds
    n_steps = training.data.last_step()
    return Estimate(n_steps, parameters, 1e-9 * training.needed_bytes, rate, n_steps * seconds)
