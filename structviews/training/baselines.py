"""Baselines: untrained runs, which eval and table treat like any other."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from structviews.corpus.parsed_corpus import ParsedCorpus, find_corpus
from structviews.encoding.kinds.baseline import BASELINE, RECIPES, TransformerBaseline, WordBaseline
from structviews.encoding.representation import save_components
from structviews.errors import InputError, unknown
from structviews.pretrained.sentence_models import TRANSFORMER
from structviews.runs import RUNS
from structviews.runs.config import TrainConfig
from structviews.runs.folder import ENCODER
from structviews.runs.settings_file import KIND, PARSED, Parsed, save_config, write_settings
from structviews.runs.weights import save_vocabularies, write_weights
from structviews.runtime.files import new_folder
from structviews.runtime.terminal import Bar, Terminal
from structviews.training.trainer import Training
from structviews.views import VIEWS
from structviews.words import CONTEXTUAL, FIXED
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import WordStatistics

RANDOM = "random"
KINDS = (*RECIPES, RANDOM, f"{TRANSFORMER}:PATH")


def make_baseline(
    kind: str,
    corpus: Path | None = None,
    out: Path | None = None,
    vectors: Path | None = None,
    encoders: dict[str, Any] | None = None,
    console: Console | None = None,
) -> Path:
    """Make a baseline's run, of one of ``KINDS``.

    The parsed ``corpus`` is for the statistics and the components; by default it is the only one here, and none for a
    sentence-transformers model, whose components are fitted if there is one. For ``random``, ``encoders`` are settings
    of ``TrainConfig`` such as views and sizes; without a file of ``vectors`` and a pretrained encoder, its words are
    random too. Raises InputError for an unknown kind, a missing or unsupported argument, or an ``out`` that already
    exists.
    """
    name, _, path = kind.partition(":")
    if name not in (*RECIPES, RANDOM, TRANSFORMER) or bool(path) != (name == TRANSFORMER):
        raise unknown("baseline", kind, KINDS)
    if vectors is None and name in RECIPES:
        raise InputError(f"{name} needs word vectors: give --vectors")
    if vectors and name == TRANSFORMER:
        raise InputError(f"{name} takes no word vectors: leave out --vectors")
    if bool(encoders) != (name == RANDOM):
        raise InputError(f"{name} {'needs encoders: give' if name == RANDOM else 'has no encoders: leave out'} --views")
    console = console or Terminal(stderr=True)
    opened = ParsedCorpus.open(corpus or find_corpus()) if corpus or name != TRANSFORMER else None
    out = out or default_folder(kind, encoders or {})
    with new_folder(out) as run:
        file = None
        if vectors:
            with Bar(console, f"reading {vectors}", "MB", 10**6) as reading:
                file = WordVectors.open(vectors, reading)
        if opened and name == RANDOM:
            settings: dict[str, Any] = {"corpus": str(opened.path), "out": str(out)} | (encoders or {})
            settings |= {"vectors": str(vectors)} if vectors else {}
            contextual = any(not VIEWS[name].reads_pieces for name in settings.get("views", ()))
            read = {FIXED: "vectors" in settings, CONTEXTUAL: "encoder" in settings and contextual}
            channels = [name for name, reads in read.items() if reads]
            settings |= {"channels": channels} if channels else {}
            # Untrained encoders, as initialised for training.
            config = TrainConfig.of("command line", **settings)
            training = Training(config.replaced(out=str(run)))
            save_vocabularies(run, training.vocabularies)
            if training.blueprint:
                training.blueprint.write(run / ENCODER)
            write_weights(run, training.model.state_dict())
            save_config(run, config, training.inputs.parsed, RANDOM)
            training.save_components()
            return out
        parsed = Parsed.of(opened, file) if opened else Parsed()
        embedder: WordBaseline | TransformerBaseline
        if opened and file:
            embedder = WordBaseline.fit(name, file, WordStatistics.of_corpus(opened, file.uncased), parsed)
        else:
            embedder = TransformerBaseline(Path(path), parsed)
        settings = {KIND: BASELINE, BASELINE: name, **embedder.write(run), "views": {"names": embedder.views}}
        if opened:
            settings["data"] = {"corpus": str(opened.path)}
            with Bar(console, "encoding", "sentences") as progress:
                save_components(run, embedder.fit_components(opened, np.arange(len(opened)), progress))
        write_settings(run, settings | {"representation": embedder.representation.table(), PARSED: asdict(parsed)})
    return out


def default_folder(kind: str, encoders: Mapping[str, Any]) -> Path:
    """Where a baseline goes: named after itself, after its encoders' views too, or after its pretrained model."""
    name, _, path = kind.partition(":")
    return RUNS / (Path(path).resolve().name if path else "-".join((name, *encoders.get("views", ()))))
