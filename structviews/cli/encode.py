"""``structviews encode`` and ``nearest``."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from structviews.cli.console import console, errors, inform, resuming, say, suggest
from structviews.cli.options import (
    ForSimilarity,
    Precision,
    Run,
    Runs,
    Sentences,
    Tokenised,
    Transductive,
    check_writable,
    lines_of,
    word_limit,
)
from structviews.cli.setting_flags import NO_FLAGS, chosen_flags, with_flags
from structviews.encoding.word_limit import BATCH_SIZE, WordLimit
from structviews.errors import InputError
from structviews.runs.bundled import typed
from structviews.runs.which_vectors import Representation
from structviews.runtime.terminal import rate_bar
from structviews.runtime.wording import counted

REPRESENTATION = ("pooling", "remove_component", "normalise", "join", "view_weights")
app = typer.Typer()


@app.command("encode")
@with_flags([*chosen_flags(Representation, REPRESENTATION, "the run's"), *chosen_flags(WordLimit)])
def encode_sentences(
    run: Run,
    source: Annotated[
        Path | None, typer.Argument(help="Text with one sentence per line.", show_default="standard input")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="File to write.", show_default="standard output")
    ] = None,
    tokenised: Tokenised = False,
    skip_blank: Annotated[
        bool, typer.Option("--skip-blank", help="Skip blank lines, as between documents: they get no row.")
    ] = False,
    batch_size: Annotated[int, typer.Option(help="Sentences per batch.")] = BATCH_SIZE,
    workers: Annotated[
        int | None,
        typer.Option(help="Number of processes; each loads the run.", show_default="one a core, if the text is long"),
    ] = None,
    transductive: Transductive = None,
    precision: Precision = "auto",
    flags: Mapping[str, Any] = NO_FLAGS,
) -> None:
    """Encode sentences as a NumPy array, a row each.

    Memory does not grow with the text. With --out, if it is stopped, run the same command again to resume; the file
    appears once it is complete.

    Example: structviews encode runs/dep-const big.txt -o vectors.npy

    Example: structviews encode runs/dep-const corpus.txt --skip-blank -o vectors.npy

    Example: structviews encode runs/dep-const < sentences.txt > vectors.npy
    """
    from shutil import copyfileobj
    from tempfile import TemporaryDirectory

    from structviews.encoding.embedder import Embedder
    from structviews.encoding.streaming import encode_text, open_text

    if out is None and sys.stdout.isatty():
        raise InputError("the vectors are binary: write them to a file with --out vectors.npy or > vectors.npy")
    if out:
        check_writable(out)
    for flag, value in (("--workers", workers), ("--batch-size", batch_size)):
        if value is not None and value < 1:
            raise InputError(f"{flag} {value}: give at least 1")
    if source is None and sys.stdin.isatty():
        inform("reading sentences from the terminal, one on each line: end with Ctrl-D")
    limit, changes = word_limit(flags)
    changes |= {} if transductive is None else {"transductive": transductive}
    with open_text(source, skip_blank) as text, TemporaryDirectory(prefix="structviews-") as temporary:
        if text.blank:
            inform(f"skipping {counted(text.blank, 'blank line')}: a row for each of the {text.n:,} others, in order")
        file = out or Path(temporary) / "vectors.npy"
        with resuming(again=out is not None), rate_bar(errors, "encoding", "sentences") as progress:
            progress.stage("loading the run")
            embedder = Embedder.load(run, precision=precision)
            embedder = embedder.with_representation(**changes).with_limit(**vars(limit))
            encode_text(
                text, embedder, file, tokenised=tokenised, batch_size=batch_size, processes=workers, progress=progress
            )
        if out is None:
            with file.open("rb") as vectors:
                copyfileobj(vectors, sys.stdout.buffer)
        else:
            say(str(out))
            suggest("Next, in Python:", f'import numpy; numpy.load("{out}")  # a row for each line')


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
    """Find the sentences of a corpus nearest to a query.

    Nearest is the highest cosine; several runs are shown side by side. The corpus is encoded once, to CORPUS.vectors/.
    If it is stopped, run the same command again to resume.

    Example: structviews nearest runs/dep-const --corpus corpus.parsed --query "A bird is singing." -k 5

    Example: structviews nearest runs/dep-const runs/seq-seq --corpus sick.txt --query queries.txt -k 2
    """
    from structviews.encoding.embedder import Embedder
    from structviews.evaluation.retrieval.candidates import Pool, pool_vectors
    from structviews.evaluation.retrieval.neighbours import as_rich, nearest

    if k < 1:
        raise InputError(f"-k {k}: give at least 1")
    pool = Pool(corpus, tokenised)
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
    if len(runs) > 1:
        console.print(*as_rich(texts, list(zip(map(typed, runs), found, strict=True)), pool.describe), sep="\n")
        return
    for number, text in enumerate(texts):
        shown = [f"{score:7.3f}  {pool.describe(row)}" for score, row in found[0].of(number)]
        say("\n".join([text, *shown]))
