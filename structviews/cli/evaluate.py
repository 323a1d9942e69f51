"""``structviews encode``, ``nearest``, ``eval``, ``table`` and ``compare``."""

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option, Typer

from structviews.cli import options
from structviews.cli.console import console, errors, explain, inform, resuming, say, suggest, typeable, write
from structviews.cli.setting_flags import NO_FLAGS, chosen_flags, with_flags
from structviews.encoding.word_limit import BATCH_SIZE, WordLimit
from structviews.errors import InputError
from structviews.runs import RUNS
from structviews.runs.bundled import typed
from structviews.runs.which_vectors import Representation
from structviews.runs.which_vectors import listed as weights_as_typed
from structviews.runtime.terminal import Bar
from structviews.runtime.wording import counted

REPRESENTATION = ("pooling", "remove_component", "normalise", "join", "view_weights")
app = Typer()
MOST_ALTERED = 2_000  # the most sentences of each kind of perturbation, unless asked otherwise
TableFormat = StrEnum("TableFormat", ["rich", "md", "latex"])
Fitted = StrEnum("Fitted", ["task", "part", "no"])


@app.command("encode")
@with_flags([*chosen_flags(Representation, REPRESENTATION, "the run's"), *chosen_flags(WordLimit)])
def encode_sentences(
    run: options.Run,
    source: Annotated[
        Path | None, Argument(help="Text with one sentence per line.", show_default="standard input")
    ] = None,
    out: Annotated[Path | None, options.out_option("File to write.", "standard output")] = None,
    tokenised: options.Tokenised = False,
    skip_blank: Annotated[
        bool, Option("--skip-blank", help="Skip blank lines, as between documents: they get no row.")
    ] = False,
    batch_size: Annotated[int, Option(min=1, help="Sentences per batch.")] = BATCH_SIZE,
    workers: Annotated[
        int | None,
        Option(min=1, help="Number of processes; each loads the run.", show_default="one a core, if the text is long"),
    ] = None,
    transductive: Annotated[
        bool | None,
        Option(
            "--transductive/--no-transductive",
            help="Fit the removed component on the encoded sentences, as papers do, not on training sentences.",
        ),
    ] = None,
    precision: options.Precision = "auto",
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

    from structviews.encoding.streaming import encode_text, open_text

    if out is None and sys.stdout.isatty():
        raise InputError("the vectors are binary: write them to a file with --out vectors.npy or > vectors.npy")
    if out:
        options.check_writable(out)
    if source is None and sys.stdin.isatty():
        inform("reading sentences from the terminal, one on each line: end with Ctrl-D")
    limit, changes = options.word_limit(flags)
    changes |= {} if transductive is None else {"transductive": transductive}
    with open_text(source, skip_blank) as text, TemporaryDirectory(prefix="structviews-") as temporary:
        if text.blank:
            inform(f"skipping {counted(text.blank, 'blank line')}: a row for each of the {text.n:,} others, in order")
        file = out or Path(temporary) / "vectors.npy"
        with resuming(again=out is not None), Bar(errors, "encoding", "sentences") as progress:
            embedder = options.loaded(run, progress, precision)
            embedder = embedder.with_representation(**changes).with_limit(**vars(limit))
            encode_text(
                text, embedder, file, tokenised=tokenised, batch_size=batch_size, processes=workers, progress=progress
            )
        if out is None:
            with file.open("rb") as vectors:
                copyfileobj(vectors, sys.stdout.buffer)
        else:
            say(out)
            suggest("Next, in Python:", f'import numpy; numpy.load("{out}")  # a row for each line')


@app.command("nearest")
def nearest_sentences(
    runs: options.Runs,
    corpus: options.Sentences,
    query: Annotated[str, Option(help="A sentence, or a file with one per line.")],
    k: Annotated[int, Option("-k", min=1, help="Number of neighbours to show.")] = 10,
    tokenised: options.Tokenised = False,
    similarity: options.ForSimilarity = False,
    precision: options.Precision = "auto",
) -> None:
    """Find the sentences of a corpus nearest to a query.

    Nearest is the highest cosine; several runs are shown side by side. The corpus is encoded once, to CORPUS.vectors/.
    If it is stopped, run the same command again to resume.

    Example: structviews nearest runs/dep-const --corpus corpus.parsed --query "A bird is singing." -k 5

    Example: structviews nearest runs/dep-const runs/seq-seq --corpus sick.txt --query queries.txt -k 2
    """
    from structviews.evaluation.retrieval.candidates import Pool, pool_vectors
    from structviews.evaluation.retrieval.neighbours import as_rich, nearest

    pool = Pool(corpus, tokenised)
    texts, sentences = zip(*map(pool.read, options.lines_of(query)), strict=True)
    found = []
    for run in runs:
        with Bar(errors, f"{run.name}: encoding {corpus}", "sentences") as progress:
            embedder = options.loaded(run, progress, precision, similarity)
            queries = embedder.encode(sentences)
            vectors = pool_vectors(pool, run, embedder, progress)
        found.append(nearest(queries, vectors, min(k, len(pool)), pool.rows_of(texts)))
    if len(runs) > 1:
        console.print(*as_rich(texts, list(zip(map(typed, runs), found, strict=True)), pool.describe), sep="\n")
        return
    for number, text in enumerate(texts):
        shown = [f"{score:7.3f}  {pool.describe(row)}" for score, row in found[0].of(number)]
        say("\n".join([text, *shown]))


RecipeName = Annotated[
    str | None,
    Option(
        help="Protocol, representation, tasks and ensemble of a paper's row (see structviews recipes); flags "
        "override them."
    ),
]
ProtocolName = Annotated[
    str | None,
    Option(
        help="Folds, grids and classifiers: senteval, senteval-torch (SentEval's own default), kiros (skip-thoughts); "
        "simcse is for Spearman's correlations over all pairs of a year.",
        show_default="senteval",
    ),
]
Ensemble = Annotated[
    bool | None, Option("--ensemble/--no-ensemble", help="Average the predictions of a joined run's members.")
]
FittedOn = Annotated[
    Fitted | None,
    Option(
        help="Fit the removed component on each task's own sentences, or on each of its splits and sides alone "
        "(part), as papers do, not on training sentences (no)."
    ),
]
External = Annotated[
    Path | None, Option(help="X.npy: score these external vectors, one row per line of X.txt next to it.")
]


@app.command("eval")
@with_flags([*chosen_flags(Representation, default="the run's"), *chosen_flags(WordLimit)])
def evaluate_runs(
    runs: Annotated[list[Path] | None, options.runs_argument(options.RUNS_HELP, options.several_runs)] = None,
    senteval: options.Senteval = None,
    probing: options.Probing = None,
    tasks: options.Tasks = "",
    recipe: RecipeName = None,
    protocol: ProtocolName = None,
    ensemble: Ensemble = None,
    partial: Annotated[bool, Option("--partial", help="Also score incomplete task files, marked with *.")] = False,
    parsed: Annotated[
        Path | None, Option(help="The tasks' trees, from parse --senteval.", show_default="parse with the run's parser")
    ] = None,
    vectors: External = None,
    out: Annotated[Path | None, options.out_option("Run folder for the scores of --vectors.", "runs/X")] = None,
    save_vectors: Annotated[Path | None, Option(help="Folder to save the vectors and their sentences in.")] = None,
    view: Annotated[str, Option(help="Score only this view.", show_default="all views")] = "",
    transductive: FittedOn = None,
    precision: options.Precision = "auto",
    flags: Mapping[str, Any] = NO_FLAGS,
) -> None:
    """Score runs on evaluation tasks.

    Saves the scores in RUN/results.json and prints a table. Scores with another protocol, with --ensemble, or with
    vectors changed by --view and the flags below it go to a separate results file in the same folder.

    Example: structviews eval runs/dep-const --senteval senteval --tasks MR,SUBJ,TREC,SICK-R
    """
    from structviews.encoding.kinds.baseline import given_run
    from structviews.evaluation.senteval.protocols import PROTOCOLS
    from structviews.evaluation.senteval.suite import Scored, covered_tasks, score_with_bar
    from structviews.evaluation.senteval.task_trees import TaskTrees
    from structviews.recipes.recipe import Recipe, SecondHalf
    from structviews.runs.settings_file import run_views

    runs = list(runs or [])
    row = Recipe.load(recipe) if recipe else None
    second = row.evaluation if row else SecondHalf()
    followed = PROTOCOLS[second.protocol if protocol is None else protocol]
    for run in runs:
        run_views(run)
    if out and not vectors:
        raise InputError("--out: only goes with --vectors, as a run's scores go to its own folder: leave it out")
    if not (runs or vectors):
        raise InputError("nothing to score: name runs, or give --vectors")
    trees = TaskTrees(parsed) if parsed else None
    found, unavailable = options.readable_tasks(tasks or ",".join(second.tasks), senteval, probing, partial)
    found, unavailable = covered_tasks(found, unavailable, followed)
    runs = [options.own_copy(run) for run in runs]
    if vectors:
        runs.append(given_run(vectors, out or RUNS / vectors.stem))
    limit, changes = options.word_limit(flags)
    chosen = {"recipe": recipe, "view": view, "precision": precision.removeprefix("auto"), "transductive": transductive}
    typed_flags = {name: value for name, value in chosen.items() if value} | dict(flags)
    fitted_on = second.transductive if transductive is None else transductive.value.removeprefix("no")
    changes = (row.representation if row else {}) | changes
    changes |= {"transductive": bool(fitted_on)} if transductive else {}
    scored = Scored(view, changes, written(typed_flags), limit, precision, fitted_on == "part")
    average = second.ensemble if ensemble is None else ensemble
    how = {"scored": scored, "protocol": followed, "ensemble": average, "trees": trees, "save_vectors": save_vectors}
    n_scored = sum(score_with_bar(run, found, unavailable, errors, **how) for run in runs)
    print_scores(runs, "rich")
    names = " ".join(map(typeable, runs))
    if len(runs) == 2:
        suggest("Next, test whether they differ:", f"structviews compare {names}")
    else:
        suggest("Next, see the scores with intervals and the papers' results:", f"structviews report {names}")
    if not n_scored:
        raise Exit(2)


def written(flags: dict[str, Any]) -> str:
    """Flags as typed on the command line, each after a space."""
    words = []
    for name, value in flags.items():
        flag = name.replace("_", "-")
        shown = weights_as_typed(value) if isinstance(value, tuple) else value
        words.append(f" --{'' if value else 'no-'}{flag}" if isinstance(value, bool) else f" --{flag} {shown}")
    return "".join(words)


@app.command("table")
def table_of_runs(
    runs: options.Runs,
    format: Annotated[TableFormat, Option(help="How to print the table.")] = TableFormat.rich,
    intervals: Annotated[bool, Option("--intervals", help="Add each score's 95 % confidence interval.")] = False,
    published: Annotated[bool, Option("--published", help="Add the papers' published results, set apart.")] = False,
    matrix: Annotated[str | None, Option(metavar="TASK", help="Show one task's scores as a matrix of views.")] = None,
    picture: Annotated[Path | None, Option(help="Draw the matrix to a .png, .svg or .pdf file.")] = None,
) -> None:
    """Print the scores of runs, a row each, or of one task.

    Example: structviews table runs --format latex --published > table.tex

    Example: structviews table runs --matrix SICK-R --picture sick-r.svg
    """
    if matrix:
        if intervals or published or format != "rich":
            raise InputError("--matrix takes no option but --picture: leave out --format, --intervals and --published")
        from structviews.evaluation.scores import heatmap
        from structviews.runtime.pictures import write_picture

        found = heatmap.view_matrix(runs, matrix)
        if picture:
            write_picture(picture, lambda: heatmap.picture(found))
        console.print(heatmap.as_rich(found))
        explain(*found.notes)
    elif picture:
        raise InputError(f"--picture {picture}: draws a single task: choose it with --matrix TASK")
    else:
        print_scores(runs, format, intervals, published)


def print_scores(runs: list[Path], format: str, intervals: bool = False, published: bool = False) -> None:
    """Print the table on stdout, with its legend and notes."""
    from structviews.evaluation.scores import rendering
    from structviews.evaluation.scores.tables import score_table

    table = score_table(runs, intervals=intervals, published=published)
    if format == "md":
        write(rendering.as_markdown(table))
    elif format == "latex":
        write(rendering.as_latex(table))
    else:
        console.print(*rendering.as_rich(table, console.width), sep="\n")
        explain(*table.legend)
        say(*table.notes)  # unbroken, for the commands in them


@app.command("compare")
def compare_two(
    first: options.Run,
    second: Annotated[
        Path | None, options.runs_argument("The run to compare it with; with --by it may be left out.", options.one_run)
    ] = None,
    by: Annotated[
        str | None,
        Option(metavar="KINDS", help="Compare sensitivity to perturbations, not scores: comma-separated ones, or all."),
    ] = None,
    corpus: Annotated[
        Path | None, Option(help="With --by: a parsed corpus of English.", show_default=options.ONLY)
    ] = None,
    sentences: Annotated[
        int | None, Option(min=2, help="With --by: most sentences of each kind.", show_default=str(MOST_ALTERED))
    ] = None,
    show: Annotated[int, Option(min=0, help="With --by: print this many examples of each kind.")] = 0,
    seed: options.Seed = 1,
) -> None:
    """Test on which tasks the scores of two runs differ.

    With --by, alter the sentences of a corpus by rules over their trees, and measure how far each view's vectors move,
    of one run or of two.

    Example: structviews compare runs/dep-const runs/seq-seq

    Example: structviews compare default --by passive,swapped-arguments --corpus corpus.parsed --show 3
    """
    from structviews.evaluation.scores import compare

    if by is not None:
        runs = [first, second] if second else [first]
        corpus, most = corpus or options.only_corpus(), sentences or MOST_ALTERED
        compare_by(runs, options.names_in(by), corpus, most, show, seed)
        return
    for option, value in (("--corpus", corpus), ("--sentences", sentences), ("--show", show)):
        if value:
            raise InputError(f"{option} {value}: only with --by, which names perturbations, such as --by all")
    if not second:
        raise InputError(f"{typed(first)}: give a second run to compare its scores with, or --by with perturbations")
    rows, notes = compare.compare_runs(first, second)
    console.print(compare.as_rich(rows))
    explain(*notes)


def compare_by(runs: list[Path], names: Sequence[str], corpus: Path, most: int, show: int, seed: int) -> None:
    """Print how far altered sentences of a corpus are from their originals, by kind and view."""
    from structviews.evaluation.perturbing import noticing

    kinds = noticing.chosen_kinds(names)
    samples = noticing.draw(options.opened(corpus), kinds, most, seed)
    found = []
    for run in runs:
        with Bar(errors, typed(run), "sentences") as progress:
            found.append(noticing.notice(options.loaded(run, progress), samples, progress))
    for sample in samples if show else ():
        say(*noticing.examples(sample, show))
    two = len(runs) == 2
    console.print(noticing.as_rich(noticing.rows_of_runs(samples, found), two))
    named = [f"A: {typed(runs[0])}; B: {typed(runs[1])}"] if two else []
    names_found = {sample.name for sample in samples}
    left_out = [name for name in noticing.with_contrasts(kinds) if name not in names_found]
    missing = [f"fewer than two sentences: {', '.join(left_out)}"] if left_out else []
    explain(*named, *noticing.NOTES, *(noticing.NOTES_OF_TWO if two else ()), *missing)
