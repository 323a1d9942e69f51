"""Context retrieval: find the next sentence among others, in documents that no run was trained on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from structviews.batches.reader import held_out, indivisible
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import JOINED
from structviews.errors import InputError
from structviews.evaluation.retrieval.neighbours import Trials, cosine_scores, neighbour_trials, ranks_of_first
from structviews.evaluation.scores.intervals import Proportion, proportion
from structviews.runs.config import TrainConfig
from structviews.runs.folder import MEMBERS
from structviews.runs.settings_file import Parsed, load_run, read_settings, run_corpus, run_kind
from structviews.runtime.arrays import inverse_of
from structviews.runtime.terminal import OnProgress, Table, number_table
from structviews.runtime.wording import counted

AMONG = (1, 5, 10)
SEED = 0
# Numbers of candidates unless one is chosen: the first for which there are enough sentences.
CANDIDATES = (1000, 500, 200, 100, 50, 20)


@dataclass(frozen=True)
class Passages:
    """The m sentences to retrieve from, in corpus order."""

    sentences: list[ParsedSentence]
    documents: np.ndarray  # (m,)
    positions: np.ndarray  # (m,) in the documents
    chosen: str  # which documents are used: "held out" or "all"

    def trials(self, candidates: int | Sequence[int] = CANDIDATES) -> Trials:
        """Trials for every sentence followed by its next one; ``candidates`` as the size of ``neighbour_trials``.

        InputError if there are too few sentences, or all are in one document.
        """
        texts = [sentence.tokens for sentence in self.sentences]
        trials = neighbour_trials(self.documents, self.positions, texts, size=candidates, seed=SEED)
        if len(np.unique(trials.documents)) < 2:
            asked = f"all {len(trials.anchors):,} sentences to ask about ({self.chosen})"
            remedy = "give another --corpus or a larger --max-sentences, or train with a larger --held-out"
            raise InputError(f"{asked} are in one document, and intervals need two: {remedy}")
        return trials


@dataclass(frozen=True)
class ContextScores:
    """Scores of a run."""

    shares: dict[str, Proportion]  # recall at each of AMONG, and the mean reciprocal rank; intervals over documents
    median_rank: float  # from 1
    dim: int  # of the run's vectors


def corpus_of(runs: Sequence[Path]) -> Path:
    """The corpus that the runs were trained on, from their settings; InputError if they name none, or several."""
    corpora = [corpus for run in runs for each in unjoined(run) if (corpus := run_corpus(each))]
    named = {Path(corpus).resolve(): corpus for corpus in corpora}
    if len(named) != 1:
        found = f"the runs have several corpora ({', '.join(named.values())})" if named else "the runs name no corpus"
        raise InputError(f"{found}: give one with --corpus")
    return Path(next(iter(named.values())))


def unjoined(run: Path) -> Iterator[Path]:
    """The run, or the members of a joined one, and theirs."""
    if run_kind(run) == JOINED:
        for name in read_settings(run).get("members", []):
            yield from unjoined(run / MEMBERS / str(name))
    else:
        yield run


def trainings(run: Path) -> Iterator[tuple[TrainConfig, Parsed]]:
    """The training configurations behind a run's weights: its own or its members', and those that it started from."""
    for each in unjoined(run):
        if run_kind(each) == "trained":
            config, parsed = load_run(each)
            yield config, parsed
            if config.data.init_from:
                yield from trainings(Path(config.data.init_from))


def unseen(runs: Sequence[Path], corpus: ParsedCorpus, documents: np.ndarray) -> np.ndarray:
    """Mask ``(m,)`` of the sentences of a corpus that no run was trained on: those held out by all runs trained on it.

    ``documents (m,)`` are the sentences' documents.
    """
    free = np.ones(len(documents), dtype=bool)
    for config, parsed in (each for run in runs for each in trainings(run)):
        if parsed.fingerprint == corpus.fingerprint:
            whole = indivisible(documents, config.objective.reads_neighbours)
            free &= held_out(whole, config.optimisation.seed, config.data.held_out)
    return free


def read_passages(runs: Sequence[Path], corpus: ParsedCorpus, most: int) -> Passages:
    """Read at most ``most`` sentences from documents of a corpus that no run was trained on.

    If there are more, whole documents are drawn at random, at least one. InputError if there is none.
    """
    columns = ("document", "position")
    documents, positions = (np.concatenate([each[name].to_numpy() for each in corpus.tables()]) for name in columns)
    free = unseen(runs, corpus, documents)
    rows = np.flatnonzero(free)
    if not len(rows):
        raise InputError(f"{corpus.path}: the runs were trained on all its documents: give another --corpus")
    _, index, sizes = np.unique(documents[rows], return_inverse=True, return_counts=True)
    order = np.random.default_rng(SEED).permutation(len(sizes))
    fits = np.cumsum(sizes[order]) <= most
    fits[0] = True
    rows = rows[fits[inverse_of(order)][index]]
    sentences = [corpus.sentence(row) for row in rows.tolist()]
    return Passages(sentences, documents[rows], positions[rows], "all" if free.all() else "held out")


def measure(embedder: Embedder, passages: Passages, trials: Trials, progress: OnProgress) -> ContextScores:
    """Rank the candidates of each sentence by cosine; InputError if vectors are not finite."""
    vectors = embedder.encode(passages.sentences, show_progress_bar=progress)
    ranks = ranks_of_first(cosine_scores(vectors, vectors, trials))
    outcomes = {f"recall@{k}": ranks.recalled(k) for k in AMONG} | {"mean reciprocal rank": ranks.reciprocal()}
    shares = {name: proportion(each, trials.documents) for name, each in outcomes.items()}
    return ContextScores(shares, ranks.median(), vectors.shape[1])


def entry(
    representation: str, corpus: ParsedCorpus, passages: Passages, trials: Trials, scores: ContextScores
) -> dict[str, Any]:
    """The entry of ``retrieval.json``."""
    intervals = {name: {"value": p.value, "low": p.low, "high": p.high} for name, p in scores.shares.items()}
    settings = {"documents": passages.chosen, "sentences": len(passages.sentences), "anchors": len(trials.anchors)}
    return {
        "task": "context",
        "data": corpus.fingerprint,
        "corpus": str(corpus.path),
        "representation": representation,
        "settings": settings | {"candidates": trials.candidates.shape[1], "seed": SEED},
        "scores": intervals | {"median rank": scores.median_rank},
    }


def context_table(rows: Sequence[tuple[str, ContextScores]], trials: Trials, passages: Passages) -> Table:
    """Table with one row per run, from its name and its scores."""
    candidates = trials.candidates.shape[1]
    documents = counted(len(np.unique(trials.documents)), "document")
    table = number_table(
        ["run"],
        ["dim", *(f"R@{k}" for k in AMONG), "MRR", "median\nrank"],
        title=f"Next sentence among {candidates:,}: per cent, with 95 % intervals",
        caption=f"{counted(len(trials.anchors), 'sentence')} of {documents} "
        f"({passages.chosen}); chance: {100 / candidates:.1f} at 1, median rank {(candidates + 1) / 2:g}",
    )
    for name, scores in rows:
        # The interval on a second line, to fit 80 columns.
        cells = (str(share).replace(" ", "\n", 1) for share in scores.shares.values())
        table.add_row(name, str(scores.dim), *cells, f"{scores.median_rank:g}")
    return table
