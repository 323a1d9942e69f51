"""``structviews train``, ``vectors``, ``recipes`` and ``reproduce``."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from structviews.cli import options
from structviews.cli.console import console, errors, explain, inform, resuming, say, suggest, typeable, write
from structviews.cli.corpora import Parser
from structviews.cli.setting_flags import NO_FLAGS, HelpAll, TrainCommand, chosen_flags, train_flags, with_flags
from structviews.errors import InputError
from structviews.runs import RUNS
from structviews.runtime.terminal import Bar, Table
from structviews.runtime.wording import counted, duration
from structviews.settings import MOST_DIMENSIONS, MOST_EPOCHS
from structviews.words.word_settings import Word2VecConfig

if TYPE_CHECKING:
    from structviews.runs.config import TrainConfig

app = Typer()


@app.command("train", cls=TrainCommand)
@with_flags(train_flags())
def train_views(
    config: options.ConfigFile = None,
    recipe: Annotated[
        str | None, Option(help="Settings of a paper's model (see structviews recipes); flags override them.")
    ] = None,
    resume: Annotated[
        Path | None,
        Option(
            help="Resume this run; the only other flags allowed are --epochs and --steps.",
            metavar="PATH",
            parser=options.named_run,
            callback=options.own_run,
        ),
    ] = None,
    device: options.Device = "",
    dry_run: Annotated[bool, Option("--dry-run", help="Estimate steps, memory and time; do not train.")] = False,
    help_all: HelpAll = False,
    flags: Mapping[str, Any] = NO_FLAGS,
) -> None:
    """Train views on a parsed corpus.

    Views learn to agree on which sentences are neighbours.
    If training is stopped, run the same command again to resume.

    Example: structviews train --views dep,const --corpus corpus.parsed
    """
    from structviews.recipes.recipe import Recipe
    from structviews.runtime.device import using
    from structviews.training.checkpoint import extend
    from structviews.training.loop import estimate, train
    from structviews.training.ranks import joined_ranks

    with resuming(), joined_ranks() as ranks, using(options.own_device(device, ranks.count)):
        jobs = [resumed(resume, config, recipe, flags)] if resume else training_jobs(config, recipe, flags)
        if dry_run:
            for settings in jobs if ranks.leads else []:
                needed = estimate(settings)
                say(
                    f"{counted(needed.steps, 'step')} in about {duration(max(needed.seconds, 1))}, at "
                    f"{needed.sentences_per_second:,.0f} sentences/s; {needed.parameters:,} parameters, "
                    f"{needed.gigabytes:.2f} GB with gradients and Adam's moments"
                )
            return
        if resume and ranks.leads:
            extend(jobs[0])
        ranks.wait()
        runs = [train(settings, errors, ranks) for settings in jobs]
        if recipe and Recipe.load(recipe).members and ranks.leads:
            from structviews.recipes.stages import join_members

            runs = [join_members(Recipe.load(recipe), Path(flags.get("out", RUNS / recipe)))]
    if ranks.leads:
        say(runs[0])
        suggest(
            "Next, score it, encode your own sentences, or load it in Python:",
            f"structviews eval {typeable(runs[0])} --senteval DIR",
            f"structviews encode {typeable(runs[0])} sentences.txt -o vectors.npy",
            f'from structviews import Embedder; embedder = Embedder.load("{runs[0]}")',
        )


def resumed(run: Path, config: Path | None, recipe: str | None, flags: Mapping[str, Any]) -> "TrainConfig":
    """The settings of a resumed run, with the epochs or steps of the flags, if any; no other flags are allowed."""
    from structviews.training.checkpoint import extended

    others = [name for name in flags if name not in ("epochs", "steps")]
    others += [name for name, value in (("config", config), ("recipe", recipe)) if value]
    if others:
        raise InputError(f"--resume uses the run's own settings: leave out --{others[0].replace('_', '-')}")
    return extended(run, flags.get("epochs"), flags.get("steps"))


def training_jobs(config: Path | None, recipe: str | None, flags: Mapping[str, Any]) -> list["TrainConfig"]:
    """Settings from a file or a recipe, overridden by flags; those of several runs where a recipe joins runs.

    Looks for a corpus if none is named. Runs to be joined are trained next to the joined run's folder,
    each in a folder named after its recipe.
    """
    from structviews.recipes.recipe import Recipe
    from structviews.runs.config import TrainConfig
    from structviews.runs.settings_file import load_config
    from structviews.words import FIXED

    if config and recipe:
        raise InputError("--config and --recipe both give settings: leave one out")
    if config:
        another = {"out": ""} if "views" in flags else {}
        return [load_config(config)[0].replaced(**another | dict(flags))]
    if not recipe and "views" not in flags:
        raise InputError("no views: choose some with --views, as in --views dep,const")
    # Report an unknown view before looking for a corpus.
    jobs = []
    if recipe:
        wanted = Recipe.load(recipe)
        folder = Path(flags.get("out", RUNS / recipe))
        fixed = [name for name, (each, _) in wanted.runs.items() if FIXED in each.channels]
        for name, (each, seed) in wanted.runs.items():
            out = folder.parent / name if wanted.members else folder
            # Of members with fixed and with trained words, those with fixed ones alone read the vectors.
            own = {key: value for key, value in flags.items() if key != "vectors" or name in fixed or not fixed}
            jobs.append(each.config(**{"corpus": "", "seed": seed, **own, "out": str(out)}))
    else:
        jobs.append(TrainConfig.of("command line", **{"corpus": "", **flags}))
    return [job if job.data.corpus else job.replaced(corpus=str(options.only_corpus())) for job in jobs]


TRAINED_BY = {"window", "negative", "workers"}  # flags of the training of word vectors


@app.command("vectors")
@with_flags(chosen_flags(Word2VecConfig))
def learn_word_vectors(
    corpus: options.Corpus,
    out: Annotated[
        Path,
        options.out_option(
            "File to write, in word2vec's format: binary if it ends in .bin, else text. With --subwords it must end in "
            ".bin, and has fastText's format."
        ),
    ],
    teacher: Annotated[
        str,
        Option(
            metavar="TEACHER",
            help="Take the words' vectors from this sentence-transformers model. They are trained only if --epochs is "
            "given.",
        ),
    ] = "",
    beside: Annotated[
        Path | None, Option(help="File of word vectors, such as skip-gram's, to put after the teacher's.")
    ] = None,
    flags: Mapping[str, Any] = NO_FLAGS,
) -> None:
    """Train word vectors on a parsed corpus, or take a teacher's.

    The fixed channel and the baselines read them.
    If training is stopped, run the same command again to resume after the last finished epoch.
    A teacher's vectors are reduced to --dim dimensions and weighted by smooth inverse frequency, so that their plain
    mean is a sentence's vector. With --epochs they are then trained so that it agrees with the teacher's.

    Example: structviews vectors corpus.parsed -o corpus.vec --workers 2

    Example: structviews vectors corpus.parsed -o taught.vec --teacher sentence-transformers/all-MiniLM-L6-v2
    """
    from structviews.runtime.files import writing
    from structviews.words.learning import check_name, learn_file

    options.check_writable(out)
    config = Word2VecConfig(**flags)
    if teacher and (wrong := sorted(flags.keys() & TRAINED_BY)):
        raise InputError(f"--{wrong[0]}: a setting of skip-gram, not of --teacher: leave one of them out")
    if beside and not teacher:
        raise InputError("--beside: the file is put beside a teacher's words: name the teacher with --teacher")
    epochs = config.epochs if "epochs" in flags else 0
    job = ("reading", "words") if teacher and not epochs else ("learning", "sentences")
    check_name(out, config)
    with resuming(), writing(out):
        parsed, taught_by, further = options.opened(corpus), None, None
        if teacher:
            from structviews.pretrained.sentence_models import Teacher
            from structviews.training.loop import read_by
            from structviews.training.teacher_words import take_file
            from structviews.words.vector_files import WordVectors

            further = WordVectors.open(beside) if beside else None
            taught_by = Teacher.open(teacher)
            if epochs:
                read_by(taught_by, parsed, errors)
        with Bar(errors, *job) as progress:
            progress.stage("counting the words")
            if taught_by:
                n_words = take_file(out, parsed, config, taught_by, epochs, progress, further)
            else:
                n_words = learn_file(out, parsed, config, progress)
    dim = config.dim + (further.dim if further else 0)
    say(f"{out}: {counted(n_words, 'word')}, {counted(dim, 'dimension')}")
    channel = f"--channels fixed --vectors {typeable(out)}"
    suggest("Next, train on these words:", f"structviews train --views dep,const {channel}")


def scale(help: str, show_default: str = "the recipe's", **bounds: Any) -> Any:
    """An option of reproduce that makes a row smaller than the paper's."""
    return Option(help=help, show_default=show_default, rich_help_panel="Scale, for smaller machines", **bounds)


@app.command("reproduce")
def reproduce_a_row(
    recipe: Annotated[str, Argument(help="Recipe of the row (see structviews recipes).")],
    corpus: Annotated[
        list[str],
        Option(
            metavar="FILE",
            help="Text, or a parsed corpus; again as NAME=FILE for the runs of an ensemble that the recipes train on "
            "NAME.",
        ),
    ],
    senteval: Annotated[Path, Option(help="Folder with SentEval's MR/, SICK/, STS/ and so on.")],
    vectors: Annotated[
        Path | None,
        Option(help="Word vectors: GloVe, word2vec or fastText.", show_default="learn them from the corpus if needed"),
    ] = None,
    parser: Parser = "builtin",
    out: Annotated[
        Path, options.out_option("Folder for all that is made; recipes with the same folder share it.")
    ] = Path("reproduced"),
    device: options.Device = "",
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what is left to do.")] = False,
    hidden: Annotated[int | None, scale("Dimension of each view's vector.", min=1, max=MOST_DIMENSIONS)] = None,
    sentences: Annotated[
        int | None,
        scale(
            "Use at most this many sentences: whole documents from the beginning; of a first document that is longer, "
            "its first sentences.",
            show_default="all",
            min=1,
        ),
    ] = None,
    epochs: Annotated[int | None, scale("Passes over the corpus.", min=1, max=MOST_EPOCHS)] = None,
    tasks: Annotated[str, scale("Comma-separated tasks, such as MR,SUBJ, in any case.")] = "",
) -> None:
    """Make a row of a paper's table from a text.

    Parses, trains, expands, joins and scores as the recipe says. It ends with our row beside the published one and a
    list of all that differs from the paper; both also go to RECIPE.md and RECIPE.json in the folder. If it is stopped,
    run the same command again to resume.

    Example: structviews reproduce mc-qt --corpus books.txt --senteval senteval --vectors glove.840B.300d.txt

    Example: structviews reproduce uni-qt --corpus books.txt --senteval senteval --hidden 300 --sentences 100000
    """
    from structviews.recipes.outcome import LEGEND
    from structviews.recipes.recipe import Recipe
    from structviews.recipes.reproduction import Reproduction
    from structviews.recipes.stages import plan, reproduce
    from structviews.runtime.device import using

    row = Recipe.load(recipe)
    named = (each.rpartition("=") if not Path(each).exists() else ("", "", each) for each in corpus)
    corpora = {name: Path(file) for name, _, file in named}
    job = Reproduction(row, corpora, senteval, out, vectors, hidden, epochs, sentences, options.names_in(tasks), parser)
    with resuming(), using(device):
        if dry_run:
            inform(*plan(job, errors))
            return
        outcome = reproduce(job, errors)
    explain(f"{outcome.recipe}: {outcome.row}")
    console.print(outcome.table())
    explain(LEGEND)
    say("What differs from the paper:")
    explain(*(f"- {line}" for line in outcome.differences))
    suggest("Next, compare it with other runs:", f"structviews table {typeable(out / 'runs')} --published")


@app.command("recipes")
def list_recipes(name: Annotated[str | None, Argument(help="Recipe to show.")] = None) -> None:
    """List the recipes of the papers' models, or show one.

    They are for reproduce, train --recipe and eval --recipe.

    Example: structviews recipes mc-qt
    """
    from structviews.recipes.recipe import Recipe, names

    if name:
        shown = Recipe.load(name)
        write(f"# {shown.credit}\n# Its facts are from: {shown.version}.\n\n{shown.text}")
        return
    by_paper: dict[str, list[Recipe]] = {}
    for each in map(Recipe.load, names()):
        by_paper.setdefault(each.credit, []).append(each)
    for paper, recipes in by_paper.items():
        table = Table("recipe", "model", "place", box=None, title=paper, title_justify="left", title_style="bold")
        table.columns[0].no_wrap = True
        for each in recipes:
            table.add_row(each.name, each.summary, each.source.place)
        console.print(table)
        console.print()
