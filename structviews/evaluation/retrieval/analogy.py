"""Sentence analogies: if A is to B as C is to D, is D the nearest sentence to ``v(C) + v(B) - v(A)``?

The task of Logeswaran and Lee (2018, appendix A): each of t tuples gives four questions, one for each of its sentences
as the answer. The candidates are the u distinct sentences of all tuples and the n of a large pool.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import Sentence
from structviews.encoding.representation import normalised
from structviews.errors import InputError
from structviews.evaluation.retrieval.candidates import Pool, pool_vectors
from structviews.evaluation.retrieval.neighbours import Ranks, count_rivals
from structviews.runtime.arrays import Array
from structviews.runtime.files import file_hash, text_lines
from structviews.runtime.terminal import OnProgress, Table, number_table

# Indices into a tuple A, B, C, D: the query adds the first two and subtracts the third; the last is the answer.
QUESTIONS = np.array([[2, 1, 0, 3], [3, 0, 1, 2], [0, 3, 2, 1], [1, 2, 3, 0]])
NO_CATEGORY = "all"
AT_ONCE = 2**27  # bytes of scores against the tuples' own sentences

Scores = dict[str, dict[str, float]]  # of each category


@dataclass(frozen=True)
class Tuples:
    """t analogies between u distinct sentences."""

    texts: list[str]  # u, comparable with the pool's
    sentences: list[Sentence]  # u, ready to encode
    rows: Array  # (t, 4) indices of sentences A, B, C and D
    categories: list[str]  # t


def read_tuples(path: Path, pool: Pool) -> Tuples:
    """Read analogies: four tab-separated sentences per line; a line ``: name`` starts a category.

    The pool determines when two sentences are the same. InputError names a line without four different sentences.
    """
    found: dict[str, Sentence] = {}
    rows: dict[str, int] = {}
    tuples, categories, category = [], [], NO_CATEGORY
    for number, line in enumerate(text_lines(path), 1):
        where = f"{path}:{number}"
        if line.startswith(":") and "\t" not in line:
            category = line[1:].strip()
            continue
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) != 4 or not all(fields):
            raise InputError(f"{where}: {len(fields)} tab-separated sentences, not 4 non-empty ones: fix the line")
        read = [pool.read(field) for field in fields]
        if len({text for text, _ in read}) < 4:
            raise InputError(f"{where}: two of the four sentences are the same: remove the line")
        found.update(read)
        tuples.append([rows.setdefault(text, len(rows)) for text, _ in read])
        categories.append(category)
    if not tuples:
        raise InputError(f"{path}: no analogies: give lines of four tab-separated sentences")
    return Tuples(list(rows), [found[text] for text in rows], np.array(tuples), categories)


def answer(tuples: Tuples, pool: Pool, run: Path, embedder: Embedder, progress: OnProgress) -> Scores:
    """Answer every question by cosine; returns the scores of each category, in the order of the file, and of ``all``.

    The sentences of the pool are further candidates; one that is also in a tuple counts once.
    """
    vectors = embedder.encode(tuples.sentences)
    own = pool.rows_of(tuples.texts)
    questions = tuples.rows[:, QUESTIONS].reshape(-1, 4)
    candidates = pool_vectors(pool, run, embedder, progress)
    ranks, misled = rank_answers(vectors, questions, candidates, np.sort(own[own >= 0]))
    return scores_by_category(ranks, misled, np.repeat(tuples.categories, len(QUESTIONS)))


def scores_by_category(ranks: Ranks, misled: Array, categories: Array) -> Scores:
    """Scores of each category (q,), in order of appearance, and of all questions; see ``rank_answers``.

    Accuracies and recall are from 0 to 1, median ranks counted from 1.
    """

    def scores(chosen: Array) -> dict[str, float]:
        found = Ranks(ranks.higher[chosen], ranks.tied[chosen])
        first = found.recalled(1)
        return {
            "questions": len(first),
            "accuracy": float(first.mean()),
            "accuracy, inputs among the candidates": float((first * (misled[chosen] == 0)).mean()),
            "recall@10": float(found.recalled(10).mean()),
            "median rank": found.median(),
        }

    of_categories = {name: scores(categories == name) for name in dict.fromkeys(categories.tolist())}
    return of_categories | {NO_CATEGORY: scores(np.full(len(categories), True))}


def rank_answers(vectors: Array, questions: Array, pool: Array, hidden: Array) -> tuple[Ranks, Array]:
    """Rank the right answers among all candidates except the query's three sentences.

    Of ``vectors`` (u, d), ``questions`` (q, 4) name the two to add, the one to subtract, and the right answer. Further
    candidates are the ``pool`` (n, d), but for the ``hidden`` rows, ascending. Also returned is (q,) how many of the
    query's three sentences score at least as high.
    """
    queries = vectors[questions[:, 0]] + vectors[questions[:, 1]] - vectors[questions[:, 2]]
    right = np.empty(len(questions), np.float32)
    counts, misled = np.zeros((2, len(questions)), np.int64), np.zeros(len(questions), np.int64)
    unit_queries, unit = normalised(queries), normalised(vectors)
    size = max(AT_ONCE // (4 * len(vectors)), 1)
    for start in range(0, len(questions), size):
        some = slice(start, start + size)
        scores = unit_queries[some] @ unit.T
        right[some] = np.take_along_axis(scores, questions[some, 3:], axis=1)[:, 0]
        inputs = np.take_along_axis(scores, questions[some, :3], axis=1)
        misled[some] = (inputs >= right[some, None]).sum(axis=1)
        np.put_along_axis(scores, questions[some, :3], -np.inf, axis=1)
        counts[:, some] = Ranks.among(scores, right[some, None])
    return Ranks(*np.add(counts, count_rivals(queries, pool, right, hidden))), misled


def entry(representation: str, path: Path, tuples: Tuples, pool: Pool, scores: Scores) -> dict[str, Any]:
    """The entry of ``retrieval.json``."""
    return {
        "task": "analogy",
        "data": f"{file_hash(path)} {pool.checksum}",
        "tuples": str(path),
        "pool": str(pool.path),
        "representation": representation,
        "settings": {"tuples": len(tuples.rows), "candidates": int((pool.rows_of(tuples.texts) < 0).sum()) + len(pool)},
        "scores": scores,
    }


def analogy_table(scores: Scores) -> Table:
    """Table with one row per category."""
    table = number_table(
        ["category"],
        ["questions", "right", "with\ninputs", "among\n10", "median\nrank"],
        title="Sentence analogies: per cent",
        caption="right: the answer is the nearest of all but the question's own sentences; "
        "with inputs: the nearest of all sentences",
    )
    for name, found in scores.items():
        questions, *shares, median = found.values()
        table.add_row(name, f"{questions:,}", *(f"{100 * share:.1f}" for share in shares), f"{median:g}")
    return table
