"""The command line: parse flags, call, print."""

import os
import sys
import warnings
from contextlib import contextmanager
from dataclasses import fields, replace
from enum import StrEnum
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from structviews.cache_tools.commands import app as cache
from structviews.errors import InputError
from structviews.shipped import check_own, run_folder, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import TaskID
    from rich.status import Status

    from structviews.config import TrainConfig
    from structviews.recipes import Recipe
    from structviews.selection import Chosen

app = typer.Typer(
    name="structviews",
    help="Syntax-aware, multi-view sentence embeddings: parse a text, train on it, eval the run; or see the demo.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cache, name="cache")
console = Console()
errors = Console(stderr=True, highlight=False)
# What Typer raises for a wrong argument; where it is kept differs from version to version.
UsageError: Any = typer.BadParameter.__base__


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit code 2."""
    warnings.showwarning = lambda message, *_: warn_once(str(message))
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except UsageError as error:
        if what := " ".join(error.format_message().split()):  # else the help has been shown
            place = error.ctx.command_path if error.ctx else "structviews"
            complain("red", "error", f"{what} (see {place} --help)")
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output went away (``| head``): nothing is wrong. Python's own flush of
        # stdout at exit would complain once more, so it is given somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except InputError as error:
        complain("red", "error", str(error))
        sys.exit(2)
    except OSError as error:
        # A full disk, a folder that may not be written: nothing half-written bears its final name.
        complain("red", "error", f"{error.filename or 'disk'}: {error.strerror}: mend that, then repeat the command")
        sys.exit(2)


@once
def warn_once(what: str) -> None:
    """A warning that has not been given yet: Python forgets those it has shown whenever a filter is changed."""
    complain("yellow", "warning", what)


def complain(colour: str, kind: str, what: str) -> None:
    """One line on stderr."""
    errors.print(f"[{colour}]{kind}:[/{colour}]", end=" ")
    errors.print(what, markup=False, soft_wrap=True)


@contextmanager
def stages() -> "Iterator[Callable[[str], None]]":
    """A line on stderr that says what is being done; where that is a file, a line for each stage."""

    def tell(stage: str) -> None:
        errors.print(stage, markup=False, soft_wrap=True)

    if errors.is_terminal:
        with errors.status("") as status:
            yield status.update
    else:
        yield tell


def own_runs(given: Any) -> Any:
    """Runs, or one, or none, that a command writes to: not the model that comes with the package."""
    check_own(given if isinstance(given, list) else [given])
    return given


# Runs that a command reads, which may be the model that comes with the package, and those that it writes to.
Run = Annotated[
    Path,
    typer.Argument(help="A run's folder, or default: the model in the box.", show_default=False, parser=run_folder),
]
Runs = Annotated[
    list[Path],
    typer.Argument(
        help="Run folders of any kind, or default: the model in the box.", show_default=False, parser=run_folder
    ),
]
OwnRun = Annotated[
    Path,
    typer.Argument(help="A run's folder.", show_default=False, parser=run_folder, callback=own_runs),
]
OwnRuns = Annotated[
    list[Path],
    typer.Argument(help="Run folders of any kind.", show_default=False, parser=run_folder, callback=own_runs),
]

# Which vectors a run gives; by default those of its settings.
Pooling = Annotated[
    str | None,
    typer.Option(
        help="vector: what training scored; pooled: max, mean, min and last of the states; mean of the states.",
        show_default="the run's",
    ),
]
RemoveComponent = Annotated[
    bool | None,
    typer.Option(help="Remove each view's first principal component.", show_default="the run's"),
]
Normalise = Annotated[bool | None, typer.Option(help="Scale each view's vector to length 1.", show_default="the run's")]
Join = Annotated[
    str | None,
    typer.Option(help="concatenation of the views, or average of their normalised vectors.", show_default="the run's"),
]
SimilarityPooling = Annotated[
    str | None, typer.Option(help="Pooling for similarity tasks.", show_default="as --pooling")
]
SimilarityJoin = Annotated[str | None, typer.Option(help="Join for similarity tasks.", show_default="as --join")]
Transductive = Annotated[
    bool | None,
    typer.Option(
        "--transductive",
        help="Fit the component on the sentences that are encoded, as papers do, not on training sentences.",
        show_default=False,
    ),
]

Tokenised = Annotated[bool, typer.Option("--tokenised", help="Words stand between white space.")]
ForSimilarity = Annotated[
    bool, typer.Option("--similarity", help="Take the run's vectors for similarity tasks.", show_default=False)
]


# Which tasks' sentences.
Senteval = Annotated[
    Path | None, typer.Option(help="Folder with SentEval's MR/, SICK/, STS/ and so on.", show_default=False)
]
Probing = Annotated[
    Path | None, typer.Option(help="Folder with probing tasks, a .txt each, in SentEval's format.", show_default=False)
]
Tasks = Annotated[
    str,
    typer.Option(help="Tasks with commas between, such as MR,SUBJ.", show_default="all of the folders"),
]


# What parsers are loaded with.
Language = Annotated[str, typer.Option(help="Language of the text, such as de or zh-hans.")]
Models = Annotated[
    Path | None,
    typer.Option(help="Folder with the parsers' models.", show_default="where their libraries keep them"),
]


class TextFormat(StrEnum):
    """How sentences are laid out in a text."""

    lines = "lines"
    prose = "prose"


class Compression(StrEnum):
    """How files are made smaller."""

    zstd = "zstd"


class ParseEngine(StrEnum):
    """What runs the processes that parse."""

    local = "local"
    ray = "ray"


@app.command("parse")
def parse_text(
    source: Annotated[
        list[str] | None,
        typer.Argument(
            help="A text (.txt, .txt.zst, .gz, - for standard input); with --parser treebank a .conllu file, "
            "a file of bracketed trees, or both.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder to write.", show_default="SOURCE.parsed")
    ] = None,
    senteval: Senteval = None,
    probing: Probing = None,
    tasks: Tasks = "",
    parser: Annotated[
        str | None,
        typer.Option(
            help="What gives the trees: builtin, stanza, benepar, spacy:PIPELINE, trivial:SHAPE, treebank; "
            "DEP+CONST for two parsers.",
            show_default="builtin",
        ),
    ] = None,
    dep: Annotated[
        str | None, typer.Option(help="With --const: what gives the dependency trees.", show_default=False)
    ] = None,
    const: Annotated[
        str | None,
        typer.Option(help="With --dep: what gives the constituency trees, over the same words.", show_default=False),
    ] = None,
    lang: Language = "en",
    models: Models = None,
    device: Annotated[
        str, typer.Option(help="Where parsers run that can choose: cpu, cuda, cuda:1.", show_default="a GPU if there")
    ] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a sentence that the parser fails at, instead of skipping it.")
    ] = False,
    format: Annotated[
        TextFormat | None,
        typer.Option(help="One sentence a line, or running text.", show_default="guessed, and said"),
    ] = None,
    tokenised: Tokenised = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes; the result is the same for any number.", show_default="1; on a cluster all it has room for"
        ),
    ] = None,
    engine: Annotated[
        ParseEngine, typer.Option(help="What runs them: local, or ray (needs structviews\\[ray]).")
    ] = ParseEngine.local,
    address: Annotated[
        str | None,
        typer.Option(
            help="Ray cluster: HOST:6379, or auto on a machine that belongs to one.",
            show_default="Ray is started on this machine",
        ),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Skip longer sentences.", show_default="120; of tasks none")
    ] = None,
    compress: Annotated[
        Compression | None,
        typer.Option(help="Half the size on disk, a little slower to read.", show_default="not compressed"),
    ] = None,
) -> None:
    """Parse a text into a folder with a dependency and a constituency tree for every sentence.

    With --senteval or --probing, the distinct sentences of evaluation tasks, for eval --parsed.
    Stopped at any point, the same command goes on where it was.

    Example: structviews parse corpus.txt --workers 4
    Example: structviews parse corpus.txt --engine ray --address head:6379
    """
    from tempfile import TemporaryDirectory

    from structviews.parsing.backends import Options
    from structviews.parsing.sources import MOST_TOKENS, output_name
    from structviews.sentence_vectors import write_sentences

    folder = senteval or probing
    settings: dict[str, Any] = {
        "parser": parser_of(parser, dep, const),
        "options": Options(lang, models, device),
        "strict": strict,
        "workers": workers,
        "engine": engine,
        "address": address,
        "compression": compress.value if compress else None,
    }
    if folder is None:
        if not source:
            raise InputError("nothing to parse: name a text, or give --senteval or --probing")
        limit = 120 if max_tokens is None else max_tokens
        out = out or Path(output_name(source[0]))
        parse_into(out, source, layout=format, tokenised=tokenised, max_tokens=limit, **settings)
        return
    if source or format or tokenised or parser == "treebank":
        raise InputError("the tasks' words are parsed: give no text, --format, --tokenised or --parser treebank")
    with TemporaryDirectory(prefix="structviews-") as temporary:
        text = Path(temporary) / "sentences.txt"
        write_sentences(text, sentences_of_tasks(senteval, probing, tasks))
        limit = MOST_TOKENS if max_tokens is None else max_tokens
        out = out or Path(output_name(str(folder.resolve())))
        parse_into(out, [str(text)], layout=TextFormat.lines, tokenised=True, max_tokens=limit, **settings)


def parser_of(parser: str | None, dep: str | None, const: str | None) -> str:
    """The specification that --parser, or --dep and --const, give."""
    if dep is None and const is None:
        return parser or "builtin"
    if parser is not None:
        raise InputError(f"--parser {parser} beside --dep or --const: give --parser, or both of the others")
    if dep is None or const is None:
        raise InputError("--dep and --const go together: for what a single parser gives, name it with --parser")
    for flag, name in (("--dep", dep), ("--const", const)):
        if "+" in name:
            raise InputError(f"{flag} {name}: give one parser")
    return f"{dep}+{const}"


def parse_into(
    out: Path,
    source: list[str],
    *,
    workers: int | None,
    engine: ParseEngine,
    address: str | None,
    compression: str | None,
    **settings: Any,
) -> None:
    """Parse a text with the settings of ``open_source``, and say what came of it."""
    from structviews.parsing.pipeline import parse_corpus, summary
    from structviews.parsing.sources import open_source

    try:
        job = open_source(source, **settings)
        if job.note:
            errors.print(job.note, markup=False, soft_wrap=True)
        corpus, already = parse_corpus(
            job,
            out,
            workers=workers,
            engine=engine.value,
            address=address,
            console=errors,
            compression=compression,
        )
    except KeyboardInterrupt:
        errors.print(f"stopped; give the same command again to finish {out}", markup=False, soft_wrap=True)
        raise typer.Exit(130) from None
    counts = f"{len(corpus):,} sentences in {corpus.manifest['documents']:,} documents"
    there = " was there already" if already else ""
    kinds = {"dependency": corpus.has_dependencies, "constituency": corpus.has_constituents}
    lacking = "".join(f", no {kind} trees" for kind, has in kinds.items() if not has)
    console.print(f"{out}{there}: {counts}, {summary(corpus)}{lacking}", markup=False, highlight=False, soft_wrap=True)


class TreeKind(StrEnum):
    """What stands over the words of a sentence."""

    constituency = "constituency"
    dependency = "dependency"


@app.command("inspect")
def inspect_corpus(
    corpus: Annotated[Path | None, typer.Argument(help="A parsed corpus.", show_default=False)] = None,
    sentence: Annotated[
        int | None, typer.Option(help="Draw the trees of this sentence, counted from 0.", show_default=False)
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Draw sentences that hold this text, the first ten.", show_default=False),
    ] = None,
    random: Annotated[
        int | None,
        typer.Option(metavar="N", help="Draw so many sentences at random; with --grep, of those.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of --random.")] = 1,
    text: Annotated[
        str | None, typer.Option(metavar="SENTENCE", help="Parse this and draw its trees.", show_default=False)
    ] = None,
    parser: Annotated[str, typer.Option(help="What parses --text, named as for parse.")] = "builtin",
    lang: Language = "en",
    models: Models = None,
    tokenised: Annotated[
        bool, typer.Option("--tokenised", help="The words of --text stand between white space.")
    ] = False,
    tree: Annotated[TreeKind | None, typer.Option(help="Draw this kind alone.", show_default="both")] = None,
    svg: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Draw to a file .svg, or to a folder with one for each sentence.", show_default=False
        ),
    ] = None,
) -> None:
    """Show what a parsed corpus holds, or draw trees of its sentences or of one that you give.

    Constituency trees are drawn as they are and binarised.

    Example: structviews inspect corpus.parsed --sentence 7

    Example: structviews inspect corpus.parsed --grep "as well as" --random 3 --svg trees.svg

    Example: structviews inspect --text "A dog barks."
    """
    from structviews.selection import choose, given

    choosing = sentence, grep, random
    drawing = any(choice is not None for choice in choosing)
    if text is not None:
        if corpus or drawing:
            raise InputError("--text is drawn by itself: leave out the corpus and --sentence, --grep and --random")
        from structviews.parsing.backends import Options
        from structviews.parsing.sources import parse_sentence

        parsed = parse_sentence(text, parser=parser, options=Options(lang, models), tokenised=tokenised)
        draw_trees([given(text, parsed, tree)], svg)
        return
    if corpus is None:
        raise InputError("nothing to look at: name a parsed corpus, or give a sentence with --text")
    from structviews.cache import ParsedCorpus

    opened = ParsedCorpus.open(corpus)
    if drawing:
        found, note = choose(opened, *choosing, seed=seed, tree=tree)
        draw_trees(found, svg)
        if note:
            errors.print(note, markup=False, soft_wrap=True)
    elif tree or svg:
        raise InputError("no sentence to draw: choose with --sentence, --grep or --random")
    else:
        from structviews.cache_tools.statistics import overview

        console.print(overview(opened), highlight=False)


def draw_trees(sentences: "list[Chosen]", svg: Path | None) -> None:
    """Draw sentences on stdout, or as SVG."""
    if svg:
        from structviews.parsing.svg import write_svg

        for path in write_svg(svg, sentences):
            console.print(str(path), markup=False, highlight=False, soft_wrap=True)
        return
    from rich.text import Text

    from structviews.parsing.drawing import LINES, draw

    for number, sentence in enumerate(sentences):
        drawn = Text("\n" * (number > 0) + draw(sentence, console.width))
        drawn.highlight_regex(LINES, "cyan")
        console.print(drawn, highlight=False, soft_wrap=True)


@app.command("train")
def train_views(
    views: Annotated[str, typer.Option(help="Views with commas between, such as dep,const.", show_default=False)] = "",
    corpus: Annotated[Path | None, typer.Option(help="Parsed corpus.", show_default="the only *.parsed here")] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The run's folder.", show_default="runs/VIEWS")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings from a config.toml; flags override them.", show_default=False)
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Settings of a paper's model, see structviews recipes; flags override them.", show_default=False
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on with this run; only --epochs and --steps may be given too.",
            show_default=False,
            metavar="PATH",
            parser=run_folder,
            callback=own_runs,
        ),
    ] = None,
    init_from: Annotated[
        Path | None,
        typer.Option(
            help="Begin with the weights and words of this run.", show_default=False, metavar="PATH", parser=run_folder
        ),
    ] = None,
    channels: Annotated[
        str | None,
        typer.Option(help="Word vectors: trained, fixed, or fixed,trained for both at once.", show_default="trained"),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(help="Word vectors of fixed: GloVe, word2vec or fastText .vec.", show_default=False),
    ] = None,
    objective: Annotated[str | None, typer.Option(help="Objective.", show_default="pairwise")] = None,
    context: Annotated[
        int | None,
        typer.Option(help="How far apart sentences are one another's context.", show_default="1"),
    ] = None,
    self_score: Annotated[
        str | None, typer.Option(help="A sentence's score with itself: masked or zero.", show_default="masked")
    ] = None,
    mask_duplicates: Annotated[
        bool | None,
        typer.Option(
            "--mask-duplicates/--keep-duplicates",
            help="Sentences that equal the anchor or one of its contexts are no candidates.",
            show_default="keep-duplicates",
        ),
    ] = None,
    agreement: Annotated[
        str | None,
        typer.Option(
            help="consensus: whose cosines count: multi, single, multi+single, within, skip.", show_default="multi"
        ),
    ] = None,
    include_self: Annotated[
        bool | None,
        typer.Option(
            "--include-self/--exclude-self",
            help="consensus: a sentence is among its own contexts.",
            show_default="include-self",
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="consensus: temperature, at the start.", show_default="1.0")
    ] = None,
    learn_temperature: Annotated[
        bool | None,
        typer.Option(
            "--learn-temperature/--fix-temperature",
            help="consensus: whether it is learnt.",
            show_default="learn-temperature",
        ),
    ] = None,
    power_iterations: Annotated[
        int | None,
        typer.Option(help="consensus: to find the component that is removed; 0: none is.", show_default="5"),
    ] = None,
    negatives: Annotated[
        int | None, typer.Option(help="generative: how many words stand against each.", show_default="1")
    ] = None,
    parseval: Annotated[
        float | None,
        typer.Option(help="generative: how strongly the decoder is kept orthonormal; 0: not.", show_default="0.01"),
    ] = None,
    hidden: Annotated[int | None, typer.Option(help="Length of each view's vector.", show_default="600")] = None,
    words_dim: Annotated[int | None, typer.Option(help="Length of a word vector.", show_default="300")] = None,
    words_spread: Annotated[
        float | None,
        typer.Option(help="Word vectors start uniformly within so much of 0; 0: Xavier's.", show_default="0.5"),
    ] = None,
    initialisation: Annotated[
        str | None, typer.Option(help="How the weights of views start: xavier or he.", show_default="xavier")
    ] = None,
    gate_bias: Annotated[
        float | None, typer.Option(help="Where the biases of a GRU's gates start.", show_default="0.0")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Words learnt, the most frequent ones.", show_default="50000")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Sentences in a batch.", show_default="400")] = None,
    accumulate: Annotated[
        int | None,
        typer.Option(help="Batches a step, each with its own negatives; gradients are averaged.", show_default="1"),
    ] = None,
    gather_negatives: Annotated[
        bool | None,
        typer.Option("--gather-negatives", help="Under torchrun, score against all ranks' sentences."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the corpus.", show_default="5")] = None,
    steps: Annotated[int | None, typer.Option(help="Stop after so many steps.", show_default=False)] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate of Adam.", show_default="0.0005")] = None,
    clip: Annotated[float | None, typer.Option(help="Largest norm of the gradient.", show_default="5.0")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.", show_default="1")] = None,
    held_out: Annotated[
        float | None, typer.Option(help="Share of the documents for validation.", show_default="0.05")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="auto, fp32 or bf16; auto is bf16 where that is faster.", show_default="auto")
    ] = None,
    tensorboard: Annotated[
        bool | None, typer.Option("--tensorboard", help="Log for TensorBoard too (needs structviews\\[tensorboard]).")
    ] = None,
    eval_every: Annotated[
        int | None, typer.Option(help="Score a similarity task after so many steps.", show_default=False)
    ] = None,
    eval_task: Annotated[str | None, typer.Option(help="Task that --eval-every scores.", show_default="STS14")] = None,
    eval_data: Annotated[
        Path | None, typer.Option(help="Folder with SentEval's MR/, SICK/, STS/ and so on.", show_default=False)
    ] = None,
    eval_parsed: Annotated[
        Path | None,
        typer.Option(help="Parsed corpus with that task's sentences.", show_default="they are parsed first"),
    ] = None,
    tree_backend: Annotated[
        str | None,
        typer.Option(
            help="What runs the tree encoders: level, dgl (needs structviews\\[dgl]), or naive, which is slow.",
            show_default="level",
        ),
    ] = None,
    pooling: Pooling = None,
    remove_component: RemoveComponent = None,
    normalise: Normalise = None,
    join: Join = None,
    similarity_pooling: SimilarityPooling = None,
    similarity_join: SimilarityJoin = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say steps, memory and hours; train nothing.")] = False,
) -> None:
    """Train views of a parsed corpus to agree on which sentences are neighbours.

    Stopped at any point, the same command goes on where it was.

    Example: structviews train --views dep,const --corpus corpus.parsed
    """
    from structviews.distributed import joined_ranks
    from structviews.recipes import Recipe
    from structviews.runs import extend, extended
    from structviews.signals import Interrupted
    from structviews.training import train

    flags = {
        "views": names_in(views) or None,
        "corpus": str(corpus) if corpus else None,
        "out": str(out) if out else None,
        "init_from": str(init_from) if init_from else None,
        "channels": names_in(channels or "") or None,
        "vectors": str(vectors) if vectors else None,
        "objective": objective,
        "context": context,
        "self_score": self_score,
        "mask_duplicates": mask_duplicates,
        "agreement": agreement,
        "include_self": include_self,
        "temperature": temperature,
        "learn_temperature": learn_temperature,
        "power_iterations": power_iterations,
        "negatives": negatives,
        "parseval": parseval,
        "hidden": hidden,
        "words_dim": words_dim,
        "words_spread": words_spread,
        "initialisation": initialisation,
        "gate_bias": gate_bias,
        "vocabulary": vocabulary,
        "batch_size": batch_size,
        "accumulate": accumulate,
        "gather_negatives": gather_negatives,
        "lr": lr,
        "clip": clip,
        "seed": seed,
        "held_out": held_out,
        "precision": precision,
        "tree_backend": tree_backend,
        "tensorboard": tensorboard,
        "eval_every": eval_every,
        "eval_task": eval_task,
        "eval_data": str(eval_data) if eval_data else None,
        "eval_parsed": str(eval_parsed) if eval_parsed else None,
        "pooling": pooling,
        "remove_component": remove_component,
        "normalise": normalise,
        "join": join,
        "similarity_pooling": similarity_pooling,
        "similarity_join": similarity_join,
    }
    try:
        with joined_ranks() as ranks:
            if resume:
                given = [name for name, value in flags.items() if value is not None]
                given += [name for name, value in (("config", config), ("recipe", recipe)) if value]
                if given:
                    raise InputError(f"--resume takes the run's own settings: leave out --{given[0]}")
                jobs = [extended(resume, epochs, steps)]
            else:
                jobs = training_jobs(config, recipe, flags | {"epochs": epochs, "steps": steps})
            if dry_run:
                for settings in jobs if ranks.leads else []:
                    print_estimate(settings)
                return
            if resume and ranks.leads:
                extend(jobs[0])
            ranks.wait()
            runs = [train(settings, errors, ranks) for settings in jobs]
            if recipe and Recipe.load(recipe).members and ranks.leads:
                runs = [join_members(Recipe.load(recipe), runs, out)]
    except Interrupted as stop:
        again = "give the same command again to go on"
        errors.print(f"stopped at step {stop.step}, saved; {again}", highlight=False, soft_wrap=True)
        raise typer.Exit(128 + stop.signal) from None
    if ranks.leads:
        console.print(str(runs[0]), markup=False, highlight=False, soft_wrap=True)


def print_estimate(settings: "TrainConfig") -> None:
    """Steps, memory and hours of a run, on one line."""
    from structviews.estimate import estimate

    needed = estimate(settings)
    console.print(
        f"{needed.steps:,} steps; {needed.parameters:,} parameters, {needed.gigabytes:.2f} GB with gradients and "
        f"Adam's moments; about {needed.sentences_per_second:,.0f} sentences/s, {needed.hours:.2f} hours",
        highlight=False,
        soft_wrap=True,
    )


def join_members(recipe: "Recipe", runs: list[Path], out: Path | None) -> Path:
    """The joined run of a recipe; made only once."""
    from structviews.joined import holds_joined, join_runs

    folder = out or Path("runs") / recipe.name
    return folder if holds_joined(folder, runs) else join_runs(runs, folder, similarity_join=recipe.similarity_join)


def names_in(text: str) -> list[str]:
    """The names of a list with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def training_jobs(config: Path | None, recipe: str | None, flags: dict[str, Any]) -> list["TrainConfig"]:
    """Settings from a file or a recipe, overruled by flags; of several runs where the recipe joins them.

    The corpus is looked for if none is named. Runs to be joined are trained beside the folder of
    their join, each in a folder of its recipe's name.
    """
    from structviews.cache import find_corpus
    from structviews.config import TrainConfig, load_config
    from structviews.recipes import Recipe

    given = {name: value for name, value in flags.items() if value is not None}
    if config and recipe:
        raise InputError("--config and --recipe both give settings: leave one out")
    if config:
        settings = vars(load_config(config)[0]) | given
        if "views" in given and "out" not in given:
            del settings["out"]
        return [TrainConfig.from_settings(settings, str(config))]
    if not recipe and "views" not in given:
        raise InputError("no views: name them with --views, as in --views dep,const")
    # An unknown view is told before a corpus is looked for.
    place, settings = "command line", {"corpus": ""}
    jobs = [settings | given]
    if recipe:
        place, wanted = f"recipe {recipe}", Recipe.load(recipe)
        folder = Path(given.pop("out", f"runs/{recipe}"))
        members = {folder.parent / name: Recipe.load(name) for name in wanted.members} or {folder: wanted}
        jobs = [settings | member.settings | given | {"out": str(out)} for out, member in members.items()]
    checked = [TrainConfig.from_settings(job, place) for job in jobs]
    return [job if job.corpus else replace(job, corpus=str(find_corpus())) for job in checked]


@app.command("recipes")
def list_recipes(
    name: Annotated[str | None, typer.Argument(help="Show this one.", show_default=False)] = None,
) -> None:
    """List the papers' models that train --recipe knows, or show one's settings.

    Example: structviews recipes mc-qt
    """
    from rich.table import Table

    from structviews.recipes import Recipe, names, text

    if name:
        print(text(name), end="")
        return
    by_paper: dict[str, list[Recipe]] = {}
    for each in map(Recipe.load, names()):
        by_paper.setdefault(each.paper, []).append(each)
    for paper, recipes in by_paper.items():
        table = Table("recipe", "model", "place", box=None, title=paper, title_justify="left", title_style="bold")
        table.columns[0].no_wrap = True
        for each in recipes:
            table.add_row(each.name, each.summary, each.place)
        console.print(table)
        console.print()


@app.command("sweep", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def sweep_views(
    context: typer.Context,
    views: Annotated[list[str], typer.Option(help="Views with commas between; once for each set.", show_default=False)],
    seeds: Annotated[int, typer.Option(help="Train each set with the seeds from 1 to this.")] = 3,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the runs.")] = Path("runs/sweep"),
) -> None:
    """Train several sets of views, each with several seeds, one after another.

    All other flags of train may be given and hold for every run. Stopped at any point, the same
    command goes on where it was; runs that are trained already are left alone.

    Example: structviews sweep --views dep,const --views seq,seq --seeds 3 --corpus corpus.parsed
    """
    from structviews.distributed import joined_ranks
    from structviews.signals import Interrupted
    from structviews.sweep import sweep_jobs, train_jobs

    command = context.parent.command.commands["train"]  # type: ignore[union-attr]  # the group's
    given = vars(command.make_context("sweep", list(context.args)))["params"]
    try:
        with joined_ranks() as ranks:
            jobs = sweep_jobs([tuple(names_in(names)) for names in views], seeds, out, sweep_settings(given))
            runs = train_jobs(jobs, errors, ranks)
    except Interrupted as stop:
        again = "give the same command again to go on"
        errors.print(f"stopped at step {stop.step} of a run, saved; {again}", highlight=False, soft_wrap=True)
        raise typer.Exit(128 + stop.signal) from None
    if ranks.leads:
        for run in runs:
            console.print(str(run), markup=False, highlight=False, soft_wrap=True)


def sweep_settings(given: dict[str, Any]) -> dict[str, Any]:
    """The settings that flags of ``train`` give all runs of a sweep."""
    from structviews.cache import find_corpus
    from structviews.config import TrainConfig, load_config

    for name in ("resume", "recipe", "seed", "dry_run"):
        if given.pop(name):
            raise InputError(f"--{name.replace('_', '-')} is no flag of sweep: leave it out")
    config = given.pop("config")
    listed = {f.name for f in fields(TrainConfig) if f.type == tuple[str, ...]}
    flags = {
        name: names_in(value) if name in listed else str(value) if isinstance(value, Path) else value
        for name, value in given.items()
        if value not in (None, "")
    }
    settings = (vars(load_config(config)[0]) if config else {}) | flags
    return settings | {"corpus": settings.get("corpus") or str(find_corpus())}


@app.command("vectors")
def learn_word_vectors(
    corpus: Annotated[Path, typer.Argument(help="A parsed corpus.", show_default=False)],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="File to write: word2vec text, or binary if it ends with .bin.")
    ],
    dim: Annotated[int, typer.Option(help="Length of a vector.")] = 300,
    window: Annotated[int, typer.Option(help="Words to each side that are predicted.")] = 5,
    negative: Annotated[int, typer.Option(help="Words drawn for each that is predicted.")] = 5,
    min_count: Annotated[int, typer.Option(help="Rarer words get no vector.")] = 5,
    epochs: Annotated[int, typer.Option(help="Passes over the corpus.")] = 5,
    workers: Annotated[int, typer.Option(help="Threads; with one the same vectors come out again.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 1,
) -> None:
    """Learn word vectors on a parsed corpus, for the fixed channel and the baselines.

    Stopped at any point, the same command goes on after the last pass that was finished.

    Example: structviews vectors corpus.parsed -o corpus.vec --workers 2
    """
    from structviews.cache import ParsedCorpus
    from structviews.log import rate_bar
    from structviews.word2vec import Word2VecConfig, learn_vectors
    from structviews.word_vectors import save_vectors

    if out.is_dir() or not out.parent.is_dir():
        raise InputError(f"{out}: cannot be written: give --out the name of a file in a folder that is there")
    state = out.with_name(f".{out.name}.state")
    config = Word2VecConfig(dim, window, negative, min_count, epochs, workers, seed)
    try:
        with rate_bar(errors, "learning", "sentences") as progress:
            words, vectors = learn_vectors(ParsedCorpus.open(corpus), config, state, progress)
    except KeyboardInterrupt:
        errors.print("stopped; give the same command again to go on", markup=False, soft_wrap=True)
        raise typer.Exit(130) from None
    save_vectors(out, words, vectors)
    state.unlink()
    console.print(f"{out}: {len(words):,} words, {dim} numbers each", markup=False, highlight=False, soft_wrap=True)


@app.command("expand")
def expand_vocabulary(
    run: OwnRun,
    vectors: Annotated[Path, typer.Option(help="Word vectors: GloVe, word2vec or fastText .vec.")],
) -> None:
    """Let a trained run read every word of a vector file, by a linear map fitted on the words that both know.

    The file is read whenever the run encodes, so it has to stay where it is.

    Example: structviews expand runs/dep-const --vectors glove.840B.300d.txt
    """
    from structviews.expansion import expand
    from structviews.log import rate_bar

    with rate_bar(errors, f"reading {vectors}", "MB", 10**6) as progress:
        report = expand(run, vectors, progress)
    lines = [f"{run}: {report.n_new:,} words more, of {vectors}"]
    lines += [
        f"  {fit.view}: R^2 {fit.r2:.3f} on {report.n_shared:,} shared words; {fit.r2_left_out:.3f} on a tenth of them "
        "when it is left out"
        for fit in report.fits
    ]
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


@app.command("encode")
def encode_sentences(
    run: Run,
    source: Annotated[Path | None, typer.Argument(help="One sentence a line.", show_default="standard input")] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="File to write.", show_default="standard output")
    ] = None,
    tokenised: Tokenised = False,
    batch_size: Annotated[int, typer.Option(help="Sentences encoded together.")] = 256,
    workers: Annotated[int, typer.Option(help="Processes; each loads the run.")] = 1,
    pooling: Pooling = None,
    remove_component: RemoveComponent = None,
    normalise: Normalise = None,
    join: Join = None,
    transductive: Transductive = None,
) -> None:
    """Encode sentences, one a line, as a numpy array with one row each, in the same memory for any number.

    With --out, stopped at any point, the same command goes on where it was; the file appears when it is whole.

    Example: structviews encode runs/dep-const big.txt -o vectors.npy --workers 4

    Example: structviews encode runs/dep-const < sentences.txt > vectors.npy
    """
    from contextlib import nullcontext
    from shutil import copyfileobj
    from tempfile import TemporaryDirectory

    from structviews.embedder import Embedder
    from structviews.log import rate_bar
    from structviews.streaming import encode_text, open_text

    if out is None and sys.stdout.isatty():
        raise InputError("the vectors are binary: send them to a file with --out vectors.npy or > vectors.npy")
    if out and (out.is_dir() or not out.parent.is_dir()):
        raise InputError(f"{out}: cannot be written: give --out the name of a file in a folder that is there")
    if workers < 1:
        raise InputError(f"--workers {workers}: give a number from 1")
    changes = chosen(
        pooling=pooling,
        remove_component=remove_component,
        normalise=normalise,
        join=join,
        transductive=transductive,
    )
    with open_text(source) as text, TemporaryDirectory(prefix="structviews-") as temporary:
        embedder = Embedder.load(run).represented(**changes)
        file = out or Path(temporary) / "vectors.npy"
        try:
            with (
                rate_bar(errors, "encoding", "sentences") as progress,
                embedder.processes(workers) if workers > 1 else nullcontext() as pool,
            ):
                encode_text(
                    text, embedder, file, tokenised=tokenised, batch_size=batch_size, pool=pool, progress=progress
                )
        except KeyboardInterrupt:
            again = "; give the same command again to go on" if out else ""
            errors.print(f"stopped{again}", markup=False, soft_wrap=True)
            raise typer.Exit(130) from None
        if out is None:
            with file.open("rb") as vectors:
                copyfileobj(vectors, sys.stdout.buffer)
        else:
            console.print(str(out), markup=False, highlight=False, soft_wrap=True)


def chosen(**flags: Any) -> dict[str, Any]:
    """The flags that were given."""
    return {name: value for name, value in flags.items() if value is not None}


def written(flags: dict[str, Any]) -> str:
    """Flags as a user types them, each after a space."""
    words = []
    for name, value in flags.items():
        flag = name.replace("_", "-")
        words.append(f" --{flag} {value}" if isinstance(value, str) else f" --{'' if value else 'no-'}{flag}")
    return "".join(words)


@app.command("sentences")
def write_sentences_of_tasks(
    out: Annotated[Path, typer.Option("-o", "--out", help="Text to write.", show_default=False)],
    senteval: Senteval = None,
    probing: Probing = None,
    tasks: Tasks = "",
) -> None:
    """Write the distinct sentences of evaluation tasks, one a line, to encode them elsewhere for eval --vectors.

    Example: structviews sentences --senteval senteval -o x.txt
    """
    from structviews.sentence_vectors import write_sentences

    if out.is_dir() or not out.parent.is_dir():
        raise InputError(f"{out}: cannot be written: give --out the name of a file in a folder that is there")
    sentences = sentences_of_tasks(senteval, probing, tasks)
    write_sentences(out, sentences)
    console.print(f"{out}: {len(sentences):,} sentences", markup=False, highlight=False, soft_wrap=True)


def sentences_of_tasks(senteval: Path | None, probing: Path | None, tasks: str) -> list[tuple[str, ...]]:
    """The distinct sentences of tasks, also of incomplete ones; those that cannot be read are said."""
    from structviews.evaluation.suite import read_tasks

    found, unavailable = read_tasks(task_names(tasks, senteval, probing), senteval, probing, allow_partial=True)
    for name, reason in unavailable.items():
        errors.print(f"without {name}: {reason}", markup=False, soft_wrap=True)
    if not found:
        raise InputError("no task can be read: give the folder that has their files")
    return list(dict.fromkeys(sentence for task in found for sentence in task.sentences()))


@app.command("eval")
def evaluate_runs(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run folders of any kind.", show_default=False, parser=run_folder, callback=own_runs),
    ] = None,
    senteval: Senteval = None,
    probing: Probing = None,
    tasks: Tasks = "",
    protocol: Annotated[str, typer.Option(help="Folds, grids and classifiers: senteval, kiros (skip-thoughts).")] = (
        "senteval"
    ),
    ensemble: Annotated[
        bool, typer.Option("--ensemble", help="Of a run that join made: average its members' predictions.")
    ] = False,
    partial: Annotated[bool, typer.Option("--partial", help="Score incomplete task files too, marked with *.")] = False,
    parsed: Annotated[
        Path | None,
        typer.Option(help="The tasks' trees, from parse --senteval.", show_default="the run's parser makes them"),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="X.npy: score vectors made elsewhere, a row for each line of X.txt beside it.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Run folder for the scores of --vectors.", show_default="runs/X"),
    ] = None,
    save_vectors: Annotated[
        Path | None,
        typer.Option(help="Folder to keep the vectors in, with their sentences.", show_default=False),
    ] = None,
    view: Annotated[str, typer.Option(help="Score this view alone.", show_default="all of them")] = "",
    pooling: Pooling = None,
    remove_component: RemoveComponent = None,
    normalise: Normalise = None,
    join: Join = None,
    similarity_pooling: SimilarityPooling = None,
    similarity_join: SimilarityJoin = None,
    transductive: Transductive = None,
) -> None:
    """Score runs on evaluation tasks, keep the scores in RUN/results.json, and print the table.

    Scores by another protocol, of an ensemble, or of vectors that are not the run's own, by the flags from --view on,
    go to a results file beside it.

    Example: structviews eval runs/dep-const --senteval senteval --tasks MR,SUBJ,TREC,SICK-R
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from structviews.config import run_views
    from structviews.evaluation.protocols import named_protocol
    from structviews.evaluation.scoring import Scored, score_run
    from structviews.evaluation.suite import read_tasks
    from structviews.evaluation.trees import TaskTrees
    from structviews.given import given_run

    runs = list(runs or [])
    followed = named_protocol(protocol)
    for run in runs:
        run_views(run)
    names = task_names(tasks, senteval, probing)
    if vectors:
        runs.append(given_run(vectors, out or Path("runs") / vectors.stem))
    elif out:
        raise InputError("--out: for the scores of --vectors; those of a run go to its own folder")
    if not runs:
        raise InputError("nothing to score: name runs, or give --vectors")
    found, unavailable = read_tasks(names, senteval, probing, allow_partial=partial)
    trees = TaskTrees(parsed) if parsed else None
    if not tasks:
        found = [task for task in found if followed.covers(task)]
    changes = chosen(
        pooling=pooling,
        remove_component=remove_component,
        normalise=normalise,
        join=join,
        similarity_pooling=similarity_pooling,
        similarity_join=similarity_join,
        transductive=transductive,
    )
    scored = Scored(view, changes, written(chosen(view=view or None) | changes))
    n_scored = 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors) as progress:
        for run in runs:
            bar = progress.add_task(f"{run.name}: loading", total=len(found))

            def show(stage: str, bar: "TaskID" = bar, run: Path = run) -> None:
                progress.update(bar, description=f"{run.name}: {stage}")

            scores = score_run(
                run,
                found,
                unavailable,
                scored=scored,
                protocol=followed,
                ensemble=ensemble,
                trees=trees,
                save_vectors=save_vectors,
                progress=show,
            )
            for has_score in scores:
                n_scored += has_score
                progress.advance(bar)
            show("done")
    print_scores(runs, "rich")
    if not n_scored:
        raise typer.Exit(2)


def task_names(tasks: str, senteval: Path | None, probing: Path | None) -> list[str]:
    """The tasks that are named; if none is, all that the folders may have."""
    from structviews.evaluation.tasks import TASKS, probing_files

    if not senteval and not probing:
        raise InputError("no tasks: give --senteval with the folder of SentEval's tasks, --probing, or both")
    every = [*(TASKS if senteval else ()), *(probing_files(probing) if probing else ())]
    return list(dict.fromkeys(names_in(tasks))) or every


class TableFormat(StrEnum):
    """Formats of ``structviews table``."""

    rich = "rich"
    md = "md"
    csv = "csv"
    latex = "latex"
    html = "html"


probe_app = typer.Typer(no_args_is_help=True)
app.add_typer(probe_app, name="probe", help="Make probing tasks: what vectors know of syntax.")


@probe_app.command("make")
def make_probing_tasks(
    corpus: Annotated[Path, typer.Argument(help="A parsed corpus.", show_default=False)],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to make.", show_default=False)],
    size: Annotated[
        int, typer.Option(help="Training examples of a task at most; a tenth of it for dev and for test.")
    ] = 100_000,
    sentences: Annotated[int, typer.Option(help="Read so many sentences at most, shards at random.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 1,
) -> None:
    """Make SentEval's ten probing tasks, and four about trees, of a corpus' own sentences and trees.

    Training, dev and test parts share no document. A task with too few examples is left out, and said.

    Example: structviews probe make corpus.parsed -o probing
    """
    from rich.table import Column, Table

    from structviews.cache import ParsedCorpus
    from structviews.probing.make import make_tasks

    with stages() as tell:
        made = make_tasks(ParsedCorpus.open(corpus), out, size=size, sentences=sentences, seed=seed, progress=tell)
    table = Table("task", *(Column(name, justify="right") for name in ("tr", "va", "te", "classes")))
    for each in made:
        if not each.reason:
            table.add_row(each.task.name, *(f"{n:,}" for n in (*each.counts, len(each.labels))))
    console.print(table, f"in {out}", sep="\n")
    for each in made:
        if each.reason:
            console.print(f"{each.task.name} is left out: {each.reason}", highlight=False, soft_wrap=True)


@app.command("table")
def table_of_runs(
    runs: Runs,
    format: Annotated[TableFormat, typer.Option(help="How to print the table.")] = TableFormat.rich,
    intervals: Annotated[bool, typer.Option("--intervals", help="Write each score's 95 % interval behind it.")] = False,
    published: Annotated[bool, typer.Option("--published", help="Add the papers' published rows, apart.")] = False,
    matrix: Annotated[
        str | None, typer.Option(metavar="TASK", help="The scores of one task, view by view, instead.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="With --matrix: draw it, to a file .png, .svg or .pdf.", show_default=False)
    ] = None,
) -> None:
    """Print the scores of runs, a row each, or for one task as a matrix of views.

    Example: structviews table runs/* --format latex --published > table.tex

    Example: structviews table runs/* --matrix SICK-R --picture sick-r.svg
    """
    if matrix:
        if intervals or published or format != "rich":
            raise InputError("--matrix goes with --picture alone; leave --format, --intervals and --published out")
        print_matrix(runs, matrix, picture)
    elif picture:
        raise InputError(f"--picture {picture}: a picture is of one task; say which with --matrix TASK")
    else:
        print_scores(runs, format, intervals, published)


def print_scores(runs: list[Path], format: str, intervals: bool = False, published: bool = False) -> None:
    """The table on stdout; with csv what it says about the numbers goes to stderr."""
    from structviews.evaluation import rendering
    from structviews.evaluation.tables import score_table

    table = score_table(runs, intervals=intervals, published=published)
    written = {
        "md": rendering.as_markdown,
        "csv": rendering.as_csv,
        "latex": rendering.as_latex,
        "html": rendering.as_html,
    }
    if format in written:
        print(written[format](table), end="")
    else:
        console.print(*rendering.as_rich(table, console.width), sep="\n")
    if format in ("rich", "csv"):
        for note in (*table.legend, *table.notes):
            (errors if format == "csv" else console).print(note, markup=False, highlight=False, soft_wrap=True)


def print_matrix(runs: list[Path], task: str, picture: Path | None) -> None:
    """A task's scores view by view, on stdout and as a picture if there is to be one."""
    from structviews.evaluation import heatmap

    matrix = heatmap.view_matrix(runs, task)
    if picture:
        heatmap.draw(matrix, picture)
    console.print(heatmap.as_rich(matrix))
    for note in matrix.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)


@app.command("compare")
def compare_two(
    first: Run,
    second: Run,
) -> None:
    """Test whether two runs' scores differ by more than chance, on every task that both have.

    Example: structviews compare runs/dep-const runs/seq-seq
    """
    from structviews.evaluation import compare

    comparison = compare.compare_runs(first, second)
    console.print(compare.as_rich(comparison))
    for note in comparison.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)


@app.command("retrieve")
def retrieve_neighbours(
    runs: OwnRuns,
    corpus: Annotated[Path | None, typer.Option(help="Parsed corpus.", show_default="that of the runs")] = None,
    candidates: Annotated[int, typer.Option(help="Sentences to find the next one among.")] = 1000,
    max_sentences: Annotated[int, typer.Option(help="Draw documents with so many sentences at most.")] = 20_000,
    similarity: ForSimilarity = False,
) -> None:
    """Find each sentence's next one among others, in documents that none of the runs was trained on.

    All runs are asked the same. Scores go to RUN/retrieval.json.

    Example: structviews retrieve runs/dep-const runs/seq-seq
    """
    from structviews.cache import ParsedCorpus
    from structviews.embedder import Embedder
    from structviews.evaluation import context
    from structviews.evaluation.record import save_entry
    from structviews.log import rate_bar

    if candidates < 2:
        raise InputError(f"--candidates {candidates}: give at least 2")
    opened = ParsedCorpus.open(corpus or context.corpus_of(runs))
    passages = context.read_passages(runs, opened, max_sentences)
    trials = passages.trials(candidates)
    rows = []
    for run in runs:
        embedder = Embedder.load(run)
        embedder = embedder.for_similarity() if similarity else embedder
        with rate_bar(errors, run.name, "sentences") as progress:
            scores, dim = context.measure(embedder, passages, trials, progress)
        rows.append((run.name, dim, scores))
        save_entry(run, context.entry(embedder.description, opened, passages, trials, scores))
    console.print(context.context_table(rows, trials, passages))


@app.command("nearest")
def nearest_sentences(
    runs: Runs,
    corpus: Annotated[Path, typer.Option(help="Sentences to search: one a line, or a parsed corpus.")],
    query: Annotated[str, typer.Option(help="A sentence, or a file with one a line.")],
    k: Annotated[int, typer.Option("-k", help="How many are shown.")] = 10,
    tokenised: Tokenised = False,
    similarity: ForSimilarity = False,
) -> None:
    """Find the sentences of a corpus whose vectors have the highest cosine with that of a query.

    What several runs find is shown side by side.

    The corpus is encoded once, to CORPUS.vectors/; stopped at any point, the same command goes on where it was.

    Example: structviews nearest runs/dep-const --corpus corpus.parsed --query "A bird is singing." -k 5

    Example: structviews nearest runs/dep-const runs/seq-seq --corpus sick.txt --query queries.txt -k 2
    """
    from structviews.embedder import Embedder
    from structviews.evaluation import qualitative
    from structviews.evaluation.neighbours import nearest
    from structviews.evaluation.pool import open_pool, pool_vectors
    from structviews.log import rate_bar

    if k < 1:
        raise InputError(f"-k {k}: give at least 1")
    pool = open_pool(corpus, tokenised)
    texts, sentences = zip(*map(pool.read, lines_of(query)), strict=True)
    found = []
    for run in runs:
        embedder = Embedder.load(run)
        embedder = embedder.for_similarity() if similarity else embedder
        queries = embedder.encode(sentences)
        with rate_bar(errors, f"{run.name}: encoding {corpus}", "sentences") as progress:
            vectors = pool_vectors(pool, run, embedder, progress)
        found.append(nearest(queries, vectors, k, pool.rows_of(texts)))
    neighbours = qualitative.Neighbours(texts, list(map(typed, runs)), found)
    if len(runs) > 1:
        console.print(*qualitative.as_rich(neighbours, pool.describe), sep="\n")
        return
    for number, text in enumerate(texts):
        shown = [f"{score:7.3f}  {pool.describe(row)}" for score, row in neighbours.of(number, 0)]
        console.print("\n".join([text, *shown]), markup=False, highlight=False, soft_wrap=True)


def lines_of(query: str) -> list[str]:
    """A sentence, or those of the file that it names."""
    from structviews.streaming import open_text

    if not os.path.isfile(query):  # a long sentence is no path
        return [query]
    with open_text(Path(query)) as text:
        return text.lines(0, text.n)


@app.command("project")
def project_sentences(
    run: Run,
    corpus: Annotated[Path, typer.Option(help="Sentences: one a line, or a parsed corpus.")],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Picture to write: .png, .svg, or .html, which shows the sentences.")
    ],
    labels: Annotated[
        Path | None,
        typer.Option(help="Colours: a label a line, for each line of the corpus' text.", show_default=False),
    ] = None,
    max_sentences: Annotated[int, typer.Option(help="Draw so many sentences at most, evenly spread.")] = 2000,
    tokenised: Tokenised = False,
) -> None:
    """Draw sentences in the plane, near one another where their vectors are.

    By UMAP if umap-learn is installed (structviews\\[umap]), else by PCA.

    Example: structviews project runs/dep-const --corpus subj.txt --labels subj.labels -o subj.html
    """
    from structviews.evaluation.pool import open_pool
    from structviews.log import rate_bar
    from structviews.report.project import check_out, draw_run

    check_out(out)
    if max_sentences < 3:
        raise InputError(f"--max-sentences {max_sentences}: give at least 3")
    pool = open_pool(corpus, tokenised)
    with rate_bar(errors, f"encoding {corpus}", "sentences") as progress:
        projection, sample = draw_run(run, pool, out, labels=labels, most=max_sentences, progress=progress)
    of_all = f" of {len(pool):,}" if len(pool) > len(sample.texts) else ""
    console.print(
        f"{out}: {len(sample.texts):,}{of_all} sentences, {projection.method}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


@app.command("report")
def report_on_runs(
    runs: Runs,
    out: Annotated[Path, typer.Option("-o", "--out", help="Page to write.")] = Path("report.html"),
    corpus: Annotated[
        Path | None,
        typer.Option(help="Sentences to show: one a line, or a parsed corpus.", show_default="that of the runs"),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Colours: a label a line, for each line of the corpus' text.", show_default=False),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            help="Example sentence, or a file with one a line; may be repeated.", show_default="some of the corpus"
        ),
    ] = None,
    tokenised: Tokenised = False,
) -> None:
    """Write one page about runs: scores, training curves, projections, neighbours, trees with attention, settings.

    The page needs nothing but itself. What is missing says which command makes it.

    Example: structviews report runs/* --corpus corpus.parsed -o report.html
    """
    from structviews.report.page import write_report

    queries = [line for each in query or [] for line in lines_of(each)]
    with stages() as tell:
        write_report(runs, out, corpus=corpus, labels=labels, queries=queries, tokenised=tokenised, tell=tell)
    console.print(str(out), markup=False, highlight=False, soft_wrap=True)


@app.command("serve")
def serve_runs(
    runs: Runs,
    corpus: Annotated[
        Path | None,
        typer.Option(help="Sentences to search for neighbours: one a line, or a parsed corpus.", show_default=False),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback need --token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="STRUCTVIEWS_TOKEN", help="What requests must bear.", show_default=False),
    ] = None,
    tokenised: Annotated[
        bool, typer.Option("--tokenised", help="Of --corpus: words stand between white space, also in its queries.")
    ] = False,
    similarity: ForSimilarity = False,
) -> None:
    """Serve runs on a page to play with, and as JSON endpoints (needs structviews\\[serve]).

    Shows two sentences' trees, attention, cosines and nearest neighbours in a corpus, which is encoded once with each
    run, to CORPUS.vectors/; stopped while it does that, the same command goes on where it was.

    Example: structviews serve runs/dep-const runs/seq-seq --corpus corpus.parsed
    """
    from structviews.log import rate_bar
    from structviews.memory import keep_few_shapes

    keep_few_shapes()
    try:
        from structviews.serving.app import create_app
        from structviews.serving.server import allowed_hosts, bound_socket, check_token, serve, url
    except ImportError as error:
        raise InputError(f"serve needs an extra ({error}): pip install 'structviews[serve]'") from None
    from structviews.evaluation.pool import open_pool
    from structviews.serving.served import open_runs

    check_token(host, token)
    with bound_socket(host, port) as bound:
        pool = open_pool(corpus, tokenised) if corpus else None
        served = open_runs(runs, pool, similarity, lambda what: rate_bar(errors, what, "sentences"))
        server = serve(create_app(served, token, allowed_hosts(host, token)), bound)
        console.print(url(bound), markup=False, highlight=False, soft_wrap=True)
        names = ", ".join(run.name for run in served)
        errors.print(f"serving {names}; Ctrl-C stops", markup=False, soft_wrap=True)
        try:
            server.run(sockets=[bound])
        except KeyboardInterrupt:
            errors.print("stopped", highlight=False)


analogy = typer.Typer(help="Make and score sentence analogies: A is to B as C is to D.", no_args_is_help=True)
app.add_typer(analogy, name="analogy")


@analogy.command("make")
def make_analogies(
    corpus: Annotated[Path, typer.Argument(help="A parsed corpus.", show_default=False)],
    words: Annotated[Path, typer.Option(help="Word analogies, in the format of Google's questions-words.txt.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write.", show_default=False)],
) -> None:
    """Find sentences of a corpus that differ by one word each, and join them by word analogies to tuples.

    Example: structviews analogy make corpus.parsed --words questions-words.txt -o analogies.tsv
    """
    from structviews.cache import ParsedCorpus
    from structviews.evaluation.mining import mine, read_word_analogies, write_tuples

    if out.is_dir() or not out.parent.is_dir():
        raise InputError(f"{out}: cannot be written: give --out the name of a file in a folder that is there")
    mined = mine(ParsedCorpus.open(corpus), read_word_analogies(words))
    write_tuples(out, mined)
    lines = [
        f"{name}: {len(found.tuples):,} tuples for {found.analogies:,} word analogies" for name, found in mined.items()
    ]
    lines.append(f"{out}: {sum(len(found.tuples) for found in mined.values()):,} tuples of sentences")
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


@analogy.command("score")
def score_analogies(
    run: OwnRun,
    tuples: Annotated[Path, typer.Option(help="A line for each analogy: four sentences with tabs between.")],
    pool: Annotated[Path, typer.Option(help="Further candidates: one a line, or a parsed corpus.")],
    tokenised: Tokenised = False,
    similarity: ForSimilarity = False,
) -> None:
    """Ask which sentence is the nearest to v(C) + v(B) - v(A), for all four sentences of each tuple in turn.

    Scores go to RUN/retrieval.json. What analogy make has written is tokenised.

    Example: structviews analogy score runs/dep-const --tuples analogies.tsv --pool corpus.parsed --tokenised
    """
    from structviews.embedder import Embedder
    from structviews.evaluation import analogy as asked
    from structviews.evaluation.pool import open_pool
    from structviews.evaluation.record import save_entry
    from structviews.log import rate_bar

    embedder = Embedder.load(run)
    embedder = embedder.for_similarity() if similarity else embedder
    opened = open_pool(pool, tokenised)
    read = asked.read_tuples(tuples, opened)
    with rate_bar(errors, f"encoding {pool}", "sentences") as progress:
        answers = asked.answer(read, opened, run, embedder, progress)
    scores = asked.analogy_scores(answers)
    save_entry(run, asked.entry(embedder.description, tuples, read, opened, scores))
    console.print(asked.analogy_table(scores))


@app.command("captions")
def retrieve_captions(
    runs: OwnRuns,
    images: Annotated[
        Path, typer.Option(help="Folder with train, dev and test, each as .npz and .jsonl (docs/retrieval.md).")
    ],
    parsed: Annotated[
        Path | None, typer.Option(help="Parsed corpus with the captions.", show_default="they are parsed first")
    ] = None,
) -> None:
    """Learn maps of image features and captions to one space, and find each in it by the other (COCO's task).

    Scores go to RUN/results.json, beside those of eval.

    Example: structviews captions runs/dep-const --images coco
    """
    from structviews.embedder import Embedder
    from structviews.evaluation.captions import TASK, caption_table, evaluate_captions, read_captions
    from structviews.evaluation.results import save_results
    from structviews.evaluation.suite import results_of
    from structviews.evaluation.trees import TaskTrees

    data = read_captions(images)
    trees = TaskTrees(parsed) if parsed else None
    scored = []
    for run in runs:
        embedder = Embedder.load(run)
        with errors.status(run.name) as status:

            def show(stage: str, run: Path = run, status: "Status" = status) -> None:
                status.update(f"{run.name}: {stage}")

            entry = evaluate_captions(embedder, data, trees, show)
        results = results_of({TASK: entry}) | {"dim": entry["dim"]}
        save_results(run, results | {"representation": embedder.description, "flags": ""})
        scored.append((run.name, entry))
    console.print(caption_table(scored))


@app.command("join")
def join_several(
    runs: Runs,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to make.", show_default=False)],
    join: Annotated[
        str, typer.Option(help="concatenation of the runs' vectors, or average of them normalised.")
    ] = "concatenation",
    similarity_join: Annotated[str, typer.Option(help="Join for similarity tasks.", show_default="as --join")] = "",
) -> None:
    """Join runs into one that encode, eval and table take like any other; it holds copies of them.

    Example: structviews join runs/seq-uni-seq-uni runs/seq-seq -o runs/combine-qt
    """
    from structviews.joined import join_runs

    console.print(str(join_runs(runs, out, join, similarity_join)), markup=False, highlight=False, soft_wrap=True)


@app.command("baseline")
def make_a_baseline(
    kind: Annotated[
        str,
        typer.Argument(
            help="average, tfidf, sif, up, all-but-the-top, random, or sentence-transformers:PATH.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to make.", show_default=False)],
    corpus: Annotated[Path | None, typer.Option(help="Parsed corpus.", show_default="the only *.parsed here")] = None,
    vectors: Annotated[Path | None, typer.Option(help="File of word vectors.", show_default=False)] = None,
    views: Annotated[str, typer.Option(help="random: its views, with commas between.", show_default=False)] = "",
    hidden: Annotated[
        int | None, typer.Option(help="random: length of each view's vector.", show_default="600")
    ] = None,
    words_dim: Annotated[int | None, typer.Option(help="random: length of a word vector.", show_default="300")] = None,
    seed: Annotated[int | None, typer.Option(help="random: seed.", show_default="1")] = None,
) -> None:
    """Make a baseline: a run that nothing was trained for, which encode, eval and table take like any other.

    Example: structviews baseline sif --corpus corpus.parsed --vectors glove.840B.300d.txt -o runs/sif
    """
    from structviews.baselines import make_baseline
    from structviews.cache import find_corpus

    encoders = chosen(views=names_in(views) or None, hidden=hidden, words_dim=words_dim, seed=seed)
    run = make_baseline(kind, corpus or find_corpus(), out, vectors, encoders, errors)
    console.print(str(run), markup=False, highlight=False, soft_wrap=True)


@app.command("push")
def push_run(
    run: Run,
    repo: Annotated[str, typer.Argument(help="Repository of the Hugging Face Hub: OWNER/NAME.", show_default=False)],
    licence: Annotated[
        str, typer.Option(help="Licence, as the Hub names it: apache-2.0, cc-by-4.0.", show_default="none")
    ] = "",
    private: Annotated[bool, typer.Option("--private", help="Make the repository a private one.")] = False,
    card: Annotated[
        Path | None, typer.Option(help="Model card to send.", show_default="made from settings and scores")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the card and what would go; send nothing.")] = False,
) -> None:
    """Send a run to the Hugging Face Hub: weights, words, settings, scores and a model card.

    Paths of this machine, training states and logs stay here.

    Example: structviews push runs/dep-const me/dep-const --licence cc-by-4.0 --dry-run
    """
    from structviews.hub import push

    pushed = push(run, repo, private=private, licence=licence, card=card, dry_run=dry_run)
    for note in pushed.notes:
        errors.print(note, markup=False, soft_wrap=True)
    if dry_run:
        print(pushed.card, end="")
        for name, size in pushed.files.items():
            errors.print(f"{size / 1000:9,.0f} kB  {name}", markup=False, highlight=False, soft_wrap=True)
        errors.print("nothing was sent", highlight=False)
    else:
        console.print(pushed.url, markup=False, highlight=False, soft_wrap=True)


@app.command("pull")
def pull_run(
    repo: Annotated[
        str,
        typer.Argument(
            help="Repository of the Hugging Face Hub: OWNER/NAME; or default, the model in the box.", show_default=False
        ),
    ],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder to make.", show_default="runs/NAME")] = None,
) -> None:
    """Fetch a run from the Hugging Face Hub, or copy the one in the box. Nothing that comes is executed.

    Example: structviews pull me/dep-const -o runs/dep-const

    Example: structviews pull default -o runs/default
    """
    from structviews.hub import pull

    console.print(str(pull(repo, out)), markup=False, highlight=False, soft_wrap=True)


@app.command("demo")
def demonstrate(
    folder: Annotated[Path, typer.Option("-o", "--out", help="Work folder; made if need be.")] = Path(
        "structviews-demo"
    ),
) -> None:
    """Compare four pairs of views on the documentation of Python itself, with no data and no network.

    Takes some minutes on two cores. Stopped at any point, the same command goes on where it was.

    Example: structviews demo
    """
    from structviews.demo.run import run_demo
    from structviews.signals import Interrupted

    try:
        run_demo(folder, console)
    except (KeyboardInterrupt, Interrupted) as stop:
        errors.print("stopped; give the same command again to go on", markup=False, soft_wrap=True)
        raise typer.Exit(128 + stop.signal if isinstance(stop, Interrupted) else 130) from None


parser_app = typer.Typer(no_args_is_help=True)
app.add_typer(parser_app, name="parser", help="Models of other libraries' parsers.")


@parser_app.callback()
def parser_group() -> None:
    """Models of other libraries' parsers."""


@parser_app.command("download")
def download_models(
    library: Annotated[str, typer.Argument(help="stanza, benepar or spacy.", show_default=False)],
    model: Annotated[
        str,
        typer.Argument(
            help="A package of stanza's, a model of benepar's, a pipeline of spaCy's.",
            show_default="the language's; spaCy has none",
        ),
    ] = "",
    lang: Annotated[str, typer.Option(help="Language of the models.")] = "en",
    models: Annotated[
        Path | None,
        typer.Option(help="Folder for the models, as parse --models takes it.", show_default="the library's"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Fetch the models of a library's parsers, by the library's own downloader.

    Says what is fetched, from where, how large it is and under which licence, and asks once.

    Example: structviews parser download stanza --lang en
    """
    from structviews.parsing import download
    from structviews.parsing.backends import Options

    offered = download.offer(library, model, Options(language=lang, models=models))
    console.print(str(offered), markup=False, highlight=False, soft_wrap=True)
    if yes or typer.confirm("Fetch this?"):
        download.fetch(offered)
        console.print("fetched", highlight=False)


if __name__ == "__main__":
    main()
