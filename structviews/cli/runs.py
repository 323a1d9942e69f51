"""``structviews join``, ``baseline`` and ``runs``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

from structviews.cli import options
from structviews.cli.console import errors, resuming, say, suggest, typeable
from structviews.cli.setting_flags import NO_FLAGS, HelpAll, TrainCommand, train_flags, with_flags
from structviews.runs import RUNS
from structviews.runtime.terminal import Bar
from structviews.runtime.wording import counted

app = Typer()
runs_app = Typer(help="More with runs: sweep, expand, words, project, export.", no_args_is_help=True)
app.add_typer(runs_app, name="runs")


@app.command("join")
def join_several(
    members: options.Members,
    out: options.NewFolder,
    join: Annotated[
        str, Option(help="concatenation of the members' vectors, or average of the normalised vectors.")
    ] = "concatenation",
    similarity_join: Annotated[str, Option(help="Join for similarity tasks.", show_default="as --join")] = "",
) -> None:
    """Join runs, or single views, into one.

    The joined run contains copies, and encode, eval and table accept it like any other run.

    Example: structviews join runs/seq-uni-seq-uni runs/seq-seq -o runs/combine-qt

    Example: structviews join runs/one:seq runs/two:seq -o runs/ensemble
    """
    from structviews.encoding.kinds.joined import join_runs

    say(join_runs(members, out, join, similarity_join))


@app.command("baseline")
@with_flags(train_flags(only=("views", "hidden", "word_dim", "encoder", "seed"), panel="For random"))
def make_a_baseline(
    kind: Annotated[
        str, Argument(help="average, tfidf, sif, up, all-but-the-top, random, or sentence-transformers:PATH.")
    ],
    out: Annotated[Path | None, options.out_option("Folder to create.", "runs/NAME")] = None,
    corpus: Annotated[
        Path | None,
        Option(help="Parsed corpus.", show_default="the only *.parsed here; none for a sentence-transformers model"),
    ] = None,
    vectors: Annotated[Path | None, Option(help="Word vectors: GloVe, word2vec or fastText.")] = None,
    flags: Mapping[str, Any] = NO_FLAGS,
) -> None:
    """Make a baseline, which is encoded and scored like a run.

    NAME is the name of the baseline (for random also its views), or of the sentence-transformers model's folder.

    Example: structviews baseline sif --corpus corpus.parsed --vectors glove.840B.300d.txt
    """
    from structviews.training.baselines import make_baseline

    run = make_baseline(kind, corpus, out, vectors, dict(flags), errors)
    say(run)
    suggest("Next, score it:", f"structviews eval {typeable(run)} --senteval DIR")


@runs_app.command("sweep", cls=TrainCommand)
@with_flags(train_flags(without=("views", "seed", "out")))
def sweep_views(
    views: Annotated[list[str], Option(help="Comma-separated views; give once per set.")],
    seeds: Annotated[int, Option(help="Number of seeds: train each set with seeds 1, 2, ...")] = 3,
    out: Annotated[Path, options.out_option("Folder for the runs.")] = RUNS / "sweep",
    device: options.Device = "",
    config: options.ConfigFile = None,
    help_all: HelpAll = False,
    flags: Mapping[str, Any] = NO_FLAGS,
) -> None:
    """Train several sets of views, each with several seeds.

    All settings of train apply to every run. If it is stopped, run the same command again to resume; finished runs are
    skipped.

    Example: structviews runs sweep --views dep,const --views seq,seq --seeds 3 --corpus corpus.parsed
    """
    from structviews.runs.settings_file import load_config
    from structviews.runtime import terminal
    from structviews.runtime.device import using
    from structviews.training.loop import sweep_jobs, train
    from structviews.training.ranks import joined_ranks

    base = load_config(config)[0] if config else None
    settings = dict(flags)
    if "corpus" not in settings and not (base and base.data.corpus):
        settings["corpus"] = str(options.only_corpus())
    with resuming(), joined_ranks() as ranks, using(options.own_device(device, ranks.count)):
        jobs = sweep_jobs([options.names_in(names) for names in views], seeds, out, settings, base)
        runs = []
        for number, job in enumerate(jobs, 1):
            if ranks.leads:
                terminal.say(errors, f"run {number} of {len(jobs)}: {job.data.out}")
            runs.append(train(job, errors, ranks))
    if ranks.leads:
        say(*runs)
        suggest("Next, score them and compare:", f"structviews eval {typeable(out)}/* --senteval DIR")


@runs_app.command("expand")
def expand_vocabulary(
    run: options.OwnRun, vectors: Annotated[Path, Option(help="Word vectors: GloVe, word2vec or fastText.")]
) -> None:
    """Extend a run's vocabulary to the words of a vector file.

    A linear map, fitted on the words that run and file share, gives the file's other words their vectors.

    The run reads the file whenever it encodes, so the file must stay where it is. A run with fixed vectors
    needs this command only if its file has moved.

    Example: structviews runs expand runs/dep-const --vectors glove.840B.300d.txt
    """
    from structviews.encoding.expansion import expand

    with Bar(errors, f"reading {vectors}", "MB", 10**6) as progress:
        report = expand(run, vectors, progress)
    say(f"{run}: added {counted(report.n_new, 'word')} from {vectors}")
    words = counted(report.n_shared, "shared word")
    for fit in report.fits:
        say(f"  {fit.view}: R^2 {fit.r2:.3f} on {words}; {fit.r2_left_out:.3f} on a held-out tenth")


@runs_app.command("words")
def write_words(
    run: options.Run,
    out: Annotated[Path, options.out_option("File to write, in word2vec's format: binary if it ends in .bin.")],
) -> None:
    """Write a run's fixed word vectors to a file, for the training of other runs.

    Example: structviews runs words default -o words.bin
    """
    from structviews.runs.weights import fixed_vectors
    from structviews.words.vector_files import save_vectors

    options.check_writable(out)
    words, vectors = fixed_vectors(run)
    save_vectors(out, words, vectors)
    say(f"{out}: {counted(len(words), 'word')}, {counted(vectors.shape[1], 'dimension')}")
    channel = f"--channels fixed --vectors {typeable(out)}"
    suggest("Next, train on these words:", f"structviews train --views dep,const {channel}")


@runs_app.command("project")
def project_sentences(
    run: options.Run,
    corpus: options.Sentences,
    out: Annotated[Path, options.out_option("Picture to write: .png, .svg, or .html with the sentences.")],
    labels: options.Labels = None,
    max_sentences: Annotated[int, Option(min=3, help="Draw at most this many sentences, evenly spaced.")] = 2000,
    tokenised: options.Tokenised = False,
    precision: options.Precision = "auto",
) -> None:
    """Plot a run's sentence vectors in two dimensions.

    Uses UMAP if umap-learn is installed (structviews\\[umap]), else PCA.

    Example: structviews runs project runs/dep-const --corpus subj.txt --labels subj.labels -o subj.html
    """
    from structviews.evaluation.retrieval.candidates import Pool
    from structviews.report.projection import check_out, draw_run

    check_out(out)
    pool = Pool(corpus, tokenised)
    with Bar(errors, f"encoding {corpus}", "sentences") as progress:
        progress.stage("loading the run")
        how: dict[str, Any] = {"labels": labels, "most": max_sentences, "progress": progress, "precision": precision}
        projection, sample = draw_run(run, pool, out, **how)
    some = f"{len(sample.texts):,} of " if len(pool) > len(sample.texts) else ""
    say(f"{out}: {some}{counted(len(pool), 'sentence')}, {projection.method}")


@runs_app.command("export")
def export_sentence_transformer(
    run: options.Run,
    out: options.NewFolder,
    view: Annotated[
        str,
        Option(help="View to export if several are transformers, such as transformer.2.", show_default="the only one"),
    ] = "",
) -> None:
    """Save a trained transformer for sentence-transformers.

    The model is loaded like any other, without structviews.

    Example: structviews runs export runs/transformer-dep -o exported
    """
    from structviews.adapters.transformer_export import export_transformer

    say(export_transformer(run, out, view))
