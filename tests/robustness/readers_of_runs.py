"""Readers of what is in a run's folder."""

from pathlib import Path
from typing import Any

import numpy as np
from corpora import RandomParser
from readers import CACHE, QUIET, SEALED, TEXT, Shared, reader, verified
from tiny_encoders import encoder_folder

from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import expand
from structviews.encoding.kinds.baseline import given_run
from structviews.encoding.kinds.joined import join_runs
from structviews.encoding.sentence_vectors import write_sentences
from structviews.evaluation.scores.compare import compare_runs
from structviews.evaluation.scores.rendering import as_markdown
from structviews.evaluation.scores.results import load_entries, load_predictions, load_results, save_entry, save_results
from structviews.evaluation.scores.tables import score_table
from structviews.hub.portable import Source, check_arrived, write_sources
from structviews.hub.transfer import PULLED, push
from structviews.report.curves import curves
from structviews.runs.folder import SOURCES, cut_log, model_checksum, read_log
from structviews.runs.settings_file import load_run, run_corpus, run_kind, run_views
from structviews.runtime.documents import write_json
from structviews.training.baselines import make_baseline
from structviews.training.checkpoint import mark, read_progress
from structviews.training.reporting import Events
from structviews.training.trainer import Training

SENTENCES = [["the", "topic0-1", "of", "it"], ["nobody", "knows"]]


ENTRY = {
    "task": "analogy",
    "data": "0",
    "representation": "vector",
    "settings": {"pool": 3},
    "scores": {"all": {"a": 0.5}},
}


def vectors_of(run: Path) -> np.ndarray:
    return Embedder.load(run, RandomParser()).encode(SENTENCES)


def trained(folder: Path, shared: Shared) -> None:
    shared.run(folder / "run")


@reader(SEALED, "run/*.safetensors", trained, named="model.safetensors")
def run(folder: Path) -> Any:
    embedder = Embedder.load(folder / "run", RandomParser())
    return vectors_of(folder / "run"), embedder.with_representation(remove_component=True).encode(SENTENCES)


@reader(TEXT, "run/config.toml", trained, named="model.safetensors")
def run_settings(folder: Path) -> Any:
    run = folder / "run"
    return run_kind(run), run_views(run), run_corpus(run), vectors_of(run)


def expanded(folder: Path, shared: Shared) -> None:
    trained(folder, shared)
    expand(folder / "run", shared.vectors)


def with_transformer(folder: Path, shared: Shared) -> None:
    encoder = encoder_folder(folder / "tiny", "bert")
    shared.run(folder / "run", views=("transformer", "seq"), encoder=str(encoder), hidden=32)


def interrupted(folder: Path, shared: Shared) -> None:
    trained(folder, shared)
    mark(folder / "run", finished=False)


@reader(SEALED, "run/state/*", interrupted)
def state(folder: Path) -> Any:
    place = read_progress(folder / "run")
    training = Training(load_run(folder / "run")[0])
    place = training.restore()
    mark(folder / "run", finished=True)
    return place, training.model.state_dict(), training.optimiser.state_dict()["state"]


def logged(folder: Path, shared: Shared) -> None:
    shared.run(folder / "run", steps=6, tensorboard=True)


@reader(TEXT, "run/log.jsonl", logged)
def log(folder: Path) -> Any:
    """Read for a report and for TensorBoard, then cut where training resumes."""
    shown = [(each.metric, each.values) for each in curves("run", read_log(folder / "run"))]
    Events(folder / "run").add("training", 7, {"loss": 1.0})
    cut_log(folder / "run", 4)
    return shown, (folder / "run/log.jsonl").read_bytes()


def scored(folder: Path, shared: Shared) -> None:
    for name, right in (("run", 80.0), ("other", 70.0)):
        shared.run(folder / name, views=("seq", "avg"))
        gold = np.arange(40) % 2
        predictions = {"MR": {"test": (np.where(np.arange(40) < right / 2.5, gold, 1 - gold), gold)}}
        entry = {"scores": {"accuracy": right}, "intervals": {"accuracy": [right - 5, right + 5]}}
        entry |= {"examples": {"all": 40}, "partial": {}, "dim": 16, "data": {"MR/x": "0"}}
        entry |= {"seconds": {"encoding": 0.1}, "versions": {}}
        results = {"format": 1, "dim": 16, "representation": "vector", "protocol": {"name": "senteval"}}
        results |= {"tasks": {"MR": entry}, "unavailable": {"CR": "no file"}, "predictions": predictions}
        save_results(folder / name, results)


@reader(SEALED, "run/results.json", scored, named="/run")
def results(folder: Path) -> Any:
    """In a table, beside another run's, and as a new evaluation adds to them."""
    table = as_markdown(score_table([folder / "run", folder / "other"], intervals=True))
    compared = compare_runs(folder / "run", folder / "other")
    again = load_results(folder / "other") | {"tasks": {}, "unavailable": {"CR": "no file"}, "predictions": {}}
    return table, compared, save_results(folder / "run", again)


@reader(CACHE, "run/predictions.safetensors", scored, missing=({},))
def predictions(folder: Path) -> Any:
    return load_predictions(folder / "run", load_results(folder / "run"))


def retrieved(folder: Path, shared: Shared) -> None:
    trained(folder, shared)
    save_entry(folder / "run", ENTRY)


@reader(SEALED, "run/retrieval.json", retrieved)
def retrieval(folder: Path) -> Any:
    run = folder / "run"
    found = load_entries(run, model_checksum(run))
    save_entry(run, ENTRY | {"task": "x"})
    return found


def averaged(folder: Path, shared: Shared) -> None:
    make_baseline("sif", shared.corpus, folder / "run", shared.vectors, None, QUIET)


def joined(folder: Path, shared: Shared) -> None:
    runs = [shared.run(folder / name, views=("seq", name)) for name in ("avg", "bow")]
    join_runs(runs, folder / "run")


def given(folder: Path, shared: Shared) -> None:
    write_sentences(folder / "x.txt", map(tuple, SENTENCES))
    np.save(folder / "x.npy", np.arange(10, dtype=np.float32).reshape(2, 5))
    given_run(folder / "x.npy", folder / "run")


@reader(SEALED, "run/expansion.safetensors", expanded, name="expansion")
@reader(SEALED, "run/encoder.safetensors", with_transformer, name="blueprint")
@reader(SEALED, "run/*.safetensors", averaged, name="baseline-run", named="model.safetensors")
@reader(SEALED, "run/members/*/*.safetensors", joined, name="joined", named="model.safetensors")
@reader(SEALED, "x.npy x.txt", given, name="given-vectors", named="x.npy config.toml")
def any_run(folder: Path) -> Any:
    return vectors_of(folder / "run")


@reader(TEXT, "run/config.toml run/members/*/config.toml", joined, named="run")
def arrived(folder: Path) -> Any:
    """What ``pull`` does with what it has downloaded."""
    check_arrived(folder / "run")
    return vectors_of(folder / "run")


def with_everything(folder: Path, shared: Shared) -> None:
    scored(folder, shared)
    expand(folder / "run", shared.vectors)
    mark(folder / "run", finished=False)
    save_entry(folder / "run", ENTRY)
    write_json(folder / "run" / PULLED, {"repository": "me/x", "commit": "0"})


@reader(SEALED, "run/*.safetensors run/*.json run/state/*", with_everything, name="verify-run")
@reader(TEXT, "run/config.toml run/log.jsonl", with_everything, name="verify-texts")
def verify_run(folder: Path) -> None:
    verified(folder / "run")


def with_card(folder: Path, shared: Shared) -> None:
    scored(folder, shared)
    (folder / "card.md").write_text("---\nlicense: mit\n---\n# A card\n")
    rows = [Source("books", f"Book {i}", "1900", "CC BY 4.0", "its author", i, 10 * i) for i in range(6)]
    write_sources(folder / "run" / SOURCES, rows)


@reader(TEXT, "card.md run/sources.tsv", with_card)
def pushed(folder: Path) -> Any:
    cards = (folder / "card.md", None)
    return [push(folder / "run", "me/x", card=card, dry_run=True).card for card in cards]
