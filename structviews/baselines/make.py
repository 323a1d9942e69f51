"""Baselines as runs: made, and loaded again."""

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from structviews.baselines import transformer
from structviews.baselines.statistics import WordStatistics
from structviews.baselines.transformer import TransformerBaseline
from structviews.baselines.words import RECIPES, WordBaseline
from structviews.cache import ParsedCorpus
from structviews.checkpoint import save_weights
from structviews.config import KIND, PARSED, Parsed, TrainConfig, read_settings, write_settings
from structviews.embedder import PooledEmbedder
from structviews.errors import InputError
from structviews.log import rate_bar
from structviews.representation import Representation, load_components, reference_sentences, save_components
from structviews.runs import new_run
from structviews.word_vectors import WordVectors

if TYPE_CHECKING:
    from structviews.parsing.backends import Parser

BASELINE = "baseline"
RANDOM = "random"
KINDS = (*RECIPES, RANDOM, f"{transformer.KIND}:PATH")


def make_baseline(
    kind: str,
    corpus: Path,
    out: Path,
    vectors: Path | None = None,
    encoders: dict[str, Any] | None = None,
    console: Console | None = None,
) -> Path:
    """Make a baseline's run.

    Args:
        kind: one of ``KINDS``.
        corpus: parsed corpus, which the statistics and the components are of.
        out: folder to make.
        vectors: file of word vectors; ``random`` may do without, then words are random too.
        encoders: for ``random``, settings of ``TrainConfig`` such as views and sizes.
        console: where progress is shown.

    Raises:
        InputError: for an unknown kind, something that it lacks or does not take, or an ``out`` that is there.
    """
    name, _, path = kind.partition(":")
    if name not in (*RECIPES, RANDOM, transformer.KIND) or bool(path) != (name == transformer.KIND):
        raise InputError(f"unknown baseline {kind!r}: one of {', '.join(KINDS)}")
    if vectors is None and name in RECIPES:
        raise InputError(f"{name} needs word vectors: give --vectors")
    if vectors and name == transformer.KIND:
        raise InputError(f"{name} takes no word vectors: leave out --vectors")
    if bool(encoders) != (name == RANDOM):
        raise InputError(f"{name} {'is of encoders: give' if name == RANDOM else 'has no encoders: leave out'} --views")
    console = console or Console(stderr=True)
    opened = ParsedCorpus.open(corpus)
    with new_run(out) as run:
        file = None
        if vectors:
            with rate_bar(console, f"reading {vectors}", "MB", 10**6) as reading:
                file = WordVectors.open(vectors, reading)
        if name == RANDOM:
            settings = {"corpus": str(corpus), "out": str(out)} | (encoders or {})
            settings |= {"channels": ["fixed"], "vectors": str(vectors)} if vectors else {}
            _make_random(TrainConfig.from_settings(settings, "command line"), run)
        else:
            _make_fixed(name, opened, Path(path), file, run, console)
    return out


def _make_fixed(
    kind: str, corpus: ParsedCorpus, model: Path, vectors: WordVectors | None, run: Path, console: Console
) -> None:
    """A baseline of given word vectors or of a given model."""
    parsed = Parsed.of(corpus, vectors)
    embedder: WordBaseline | TransformerBaseline
    if vectors:
        embedder = WordBaseline.fit(kind, vectors, WordStatistics.of_corpus(corpus), parsed)
    else:
        embedder = TransformerBaseline(model, parsed)
    settings = {KIND: BASELINE, BASELINE: kind, "views": embedder.views, "corpus": str(corpus.path)}
    settings |= embedder.save(run)
    sample = reference_sentences(corpus, np.arange(len(corpus)))
    with rate_bar(console, "encoding", "sentences") as progress:
        save_components(run, embedder.fit_components(sample, progress))
    write_settings(run, settings | asdict(embedder.representation) | {PARSED: asdict(parsed)})


def _make_random(config: TrainConfig, run: Path) -> None:
    """Encoders as training starts with them."""
    from structviews.training import Training, store_components  # noqa: PLC0415 - what only this baseline needs

    training = Training(replace(config, out=str(run)))
    parsed = Parsed.of(training.corpus, training.vectors)
    training.restore()
    save_weights(run, training.model)
    write_settings(run, {KIND: RANDOM} | asdict(config) | {PARSED: asdict(parsed)})
    store_components(training)


def load_baseline(run: Path, parser: "Parser | None" = None) -> PooledEmbedder:
    """Load what ``make_baseline`` made of given vectors or a given model; ``parser`` has nothing to do.

    Raises:
        InputError: if something that the run is made of is missing or has changed.
    """
    settings = read_settings(run)
    try:
        kind, parsed = settings[BASELINE], Parsed(**settings[PARSED])
        own = Representation(**{f.name: settings[f.name] for f in fields(Representation)})
        embedder: WordBaseline | TransformerBaseline
        if kind == transformer.KIND:
            embedder = TransformerBaseline.open(run, settings, parsed)
        else:
            embedder = WordBaseline.open(run, kind, settings, parsed)
    except (KeyError, TypeError) as error:
        raise InputError(f"{run}: not what structviews baseline makes ({error}): make it again") from None
    embedder.representation = own
    embedder.components = load_components(run)
    return embedder
