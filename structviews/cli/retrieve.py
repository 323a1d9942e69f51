"""``structviews retrieve``, ``nearest`` and ``captions``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from structviews.cli.console import console, errors, inform, say
from structviews.cli.options import ForSimilarity, Precision, Sentences, Tokenised, lines_of
from structviews.cli.which_runs import OwnRuns, Runs
from structviews.errors import InputError, unknown
from structviews.runs.bundled import typed

if TYPE_CHECKING:
    from rich.status import Status


PANEL = "Evaluation"
app = typer.Typer()


@app.command("retrieve")
def retrieve_neighbours(
    runs: OwnRuns,
    corpus: Annotated[Path | None, typer.Option(help="Parsed corpus.", show_default="the runs'")] = None,
    candidates: Annotated[
        int | None,
        typer.Option(help="Number of candidate sentences.", show_default="1000, or fewer for a small corpus"),
    ] = None,
    max_sentences: Annotated[int, typer.Option(help="Most sentences to sample, in whole documents.")] = 20_000,
    similarity: ForSimilarity = False,
    precision: Precision = "auto",
) -> None:
    """Find each sentence's successor among candidates, in documents that no run was trained on.

    All runs get the same queries and candidates. Writes scores to RUN/retrieval.json.

    Example: structviews retrieve runs/dep-const runs/seq-seq
    """
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.encoding.embedder import Embedder
    from structviews.evaluation.retrieval import next_sentence
    from structviews.evaluation.retrieval.records import save_entry
    from structviews.runtime.terminal import rate_bar

    if candidates is not None and candidates < 2:
        raise InputError(f"--candidates {candidates}: give at least 2")
    opened = ParsedCorpus.open(corpus or next_sentence.corpus_of(runs))
    passages = next_sentence.read_passages(runs, opened, max_sentences)
    trials = passages.trials(candidates or next_sentence.CANDIDATES)
    drawn = trials.candidates.shape[1]
    if drawn < (candidates or next_sentence.CANDIDATES[0]):
        n = len(passages.sentences)
        inform(
            f"only {n:,} sentences ({passages.chosen}): {drawn} candidates each, so chance is {100 / drawn:g} % at 1"
        )
    rows = []
    for run in runs:
        with rate_bar(errors, run.name, "sentences") as progress:
            progress.stage("loading")
            embedder = Embedder.load(run, precision=precision)
            embedder = embedder.for_similarity() if similarity else embedder
            scores, dim = next_sentence.measure(embedder, passages, trials, progress)
        rows.append((run.name, dim, scores))
        save_entry(run, next_sentence.entry(embedder.description, opened, passages, trials, scores))
    console.print(next_sentence.context_table(rows, trials, passages))


@app.command("nearest")
def nearest_sentences(
    runs: Runs,
    corpus: Sentences,
    query: Annotated[str, typer.Option(help="A sentence, or a file with one per line.")],
    k: Annotated[int, typer.Option("-k", help="Number of neighbours to show.")] = 10,
    tokenised: Tokenised = False,
    similarity: ForSimilarity = False,
    precision: Precision = "auto",
) -> None:
    """Find the sentences of a corpus with the highest cosine similarity to a query.

    Shows the results of several runs side by side.

    The corpus is encoded once, to CORPUS.vectors/. If it is stopped, run the same command again to resume.

    Example: structviews nearest runs/dep-const --corpus corpus.parsed --query "A bird is singing." -k 5

    Example: structviews nearest runs/dep-const runs/seq-seq --corpus sick.txt --query queries.txt -k 2
    """
    from structviews.encoding.embedder import Embedder
    from structviews.evaluation.retrieval import side_by_side
    from structviews.evaluation.retrieval.candidates import open_pool, pool_vectors
    from structviews.evaluation.retrieval.neighbours import nearest
    from structviews.runtime.terminal import rate_bar

    if k < 1:
        raise InputError(f"-k {k}: give at least 1")
    pool = open_pool(corpus, tokenised)
    texts, sentences = zip(*map(pool.read, lines_of(query)), strict=True)
    found = []
    for run in runs:
        with rate_bar(errors, f"{run.name}: encoding {corpus}", "sentences") as progress:
            progress.stage("loading the run")
            embedder = Embedder.load(run, precision=precision)
            embedder = embedder.for_similarity() if similarity else embedder
            queries = embedder.encode(sentences)
            vectors = pool_vectors(pool, run, embedder, progress)
        found.append(nearest(queries, vectors, min(k, len(pool)), pool.rows_of(texts)))
    neighbours = side_by_side.Neighbours(texts, list(map(typed, runs)), found)
    if len(runs) > 1:
        console.print(*side_by_side.as_rich(neighbours, pool.describe), sep="\n")
        return
    for number, text in enumerate(texts):
        shown = [f"{score:7.3f}  {pool.describe(row)}" for score, row in neighbours.of(number, 0)]
        say("\n".join([text, *shown]))


@app.command("captions")
def retrieve_captions(
    runs: OwnRuns,
    images: Annotated[
        Path, typer.Option(help="Folder with train, dev and test, each as .npz and .jsonl (see docs/retrieval.md).")
    ],
    parsed: Annotated[
        Path | None, typer.Option(help="Parsed corpus with the captions.", show_default="parse them first")
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="How the joint space is trained: senteval, or kiros (skip-thoughts, quick-thoughts).")
    ] = "senteval",
    precision: Precision = "auto",
) -> None:
    """Map image features and captions to a joint space, and retrieve each from the other (COCO's task).

    Adds scores to those of eval in RUN/results.json, or by --protocol kiros in RUN/results.kiros.json.

    Example: structviews captions runs/dep-const --images coco
    """
    from structviews.encoding.embedder import Embedder
    from structviews.evaluation.retrieval.captions import (
        caption_table,
        evaluate_captions,
        read_captions,
    )
    from structviews.evaluation.retrieval.joint_space import CAPTION_PROTOCOLS
    from structviews.evaluation.scores.results import CAPTION_TASK, save_results
    from structviews.evaluation.senteval.protocols import PROTOCOLS
    from structviews.evaluation.senteval.scoring import kept_as, scaled
    from structviews.evaluation.senteval.suite import results_of
    from structviews.evaluation.senteval.task_trees import TaskTrees

    if protocol not in CAPTION_PROTOCOLS:
        raise unknown("protocol", protocol, CAPTION_PROTOCOLS)
    trained_by, kept_with = CAPTION_PROTOCOLS[protocol], PROTOCOLS[protocol]
    data = read_captions(images, trained_by.batch)
    trees = TaskTrees(parsed) if parsed else None
    scored = []
    for run in runs:
        own = Embedder.load(run)
        embedder = own.with_precision(precision)
        with errors.status("") as status:

            def show(stage: str, run: Path = run, status: "Status" = status) -> None:
                status.update(escape(f"{run.name}: {stage}"))

            entry = evaluate_captions(scaled(embedder, kept_with), data, trained_by, trees, show)
        results = results_of({CAPTION_TASK: entry}, protocol=kept_with) | {"dim": entry["dim"]}
        vectors, file = kept_as(own, embedder, embedder.description, f" --precision {precision}", kept_with)
        save_results(run, results | vectors, file)
        scored.append((run.name, entry))
    console.print(caption_table(scored))
