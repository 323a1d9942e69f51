"""Arguments and options shared by several commands; runs by name, and several of them as a folder of runs."""

import os
from collections.abc import Callable, Mapping
from filecmp import cmp
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from structviews.cli.console import inform
from structviews.encoding.word_limit import WordLimit
from structviews.errors import InputError
from structviews.runs import RUNS
from structviews.runs.bundled import check_own, is_bundled, or_bundled, run_folder
from structviews.settings import LARGEST_SEED, settings_of

if TYPE_CHECKING:
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.encoding.embedder import Embedder
    from structviews.evaluation.senteval.tasks.reading import Task
    from structviews.runtime.terminal import Bar


def only_corpus(**remedies: str) -> Path:
    """The only parsed corpus here; see ``find_corpus``."""
    from structviews.corpus.parsed_corpus import find_corpus

    return find_corpus(**remedies)


def opened(corpus: Path) -> "ParsedCorpus":
    """A parsed corpus, to be read."""
    from structviews.corpus.parsed_corpus import ParsedCorpus

    return ParsedCorpus.open(corpus)


def loaded(run: Path, progress: "Bar", precision: str = "auto", similarity: bool = False) -> "Embedder":
    """A run's embedder, with its vectors for similarity tasks if wanted; that it is loaded is shown."""
    from structviews.encoding.embedder import Embedder

    progress.stage("loading the run")
    embedder = Embedder.load(run, precision=precision)
    return embedder.for_similarity() if similarity else embedder


def out_option(help: str, show_default: str | bool = True) -> Any:
    """The option for what to write, the same in all commands."""
    return Option("-o", "--out", help=help, show_default=show_default)


NAME_ONE = "name one of them"
ONLY = "the only *.parsed here"
Corpus = Annotated[
    Path, Argument(default_factory=lambda: only_corpus(several=NAME_ONE), help="A parsed corpus.", show_default=ONLY)
]
Sentences = Annotated[
    Path,
    Option(
        "--corpus", default_factory=only_corpus, help="Sentences: one per line, or a parsed corpus.", show_default=ONLY
    ),
]
NewFolder = Annotated[Path, out_option("Folder to create.")]
Tokenised = Annotated[bool, Option("--tokenised", help="Input is already tokenised (separated by white space).")]
ForSimilarity = Annotated[bool, Option("--similarity", help="Use the run's vectors for similarity tasks.")]
ConfigFile = Annotated[Path | None, Option(help="Settings from a config.toml; flags override them.")]
Labels = Annotated[Path | None, Option(help="Labels to colour by: one per line of the corpus's text.")]

# Which tasks.
Senteval = Annotated[Path | None, Option(help="Folder with SentEval's MR/, SICK/, STS/ and so on.")]
Probing = Annotated[Path | None, Option(help="Folder with probing tasks, one .txt each, in SentEval's format.")]
Tasks = Annotated[
    str, Option(help="Comma-separated tasks, such as MR,SUBJ, in any case.", show_default="all in the folders")
]
Seed = Annotated[int, Option(min=0, max=LARGEST_SEED, help="Random seed.")]

# How parsers are loaded.
Language = Annotated[str, Option(help="Language of the text, such as de or zh-hans.")]
Device = Annotated[str, Option(help="Device: cpu, cuda, cuda:1.", show_default="a GPU if available")]
Precision = Annotated[
    str, Option(help="Matrix-multiply precision: fp32, bf16 or auto (bf16 on CPUs that multiply it faster).")
]
Models = Annotated[
    Path | None, Option(help="Folder with the parsers' models.", show_default="the libraries' own folders")
]


def names_in(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def own_device(name: str, ranks: int) -> str:
    """The named device, which several processes must not share if it is a GPU."""
    if name.startswith("cuda") and ranks > 1:
        raise InputError(f"--device {name}: torchrun gives each process a GPU of its own: leave it out")
    return name


def readable_tasks(
    tasks: str, senteval: Path | None, probing: Path | None, partial: bool
) -> "tuple[list[Task], dict[str, str]]":
    """The named tasks, or all in the folders, that can be read, if any; for each other task the reason why not."""
    from structviews.evaluation.senteval.suite import read_tasks
    from structviews.evaluation.senteval.tasks import TASKS
    from structviews.evaluation.senteval.tasks.finding import known_tasks, none_read, probing_files, tasks_in

    if not senteval and not probing:
        raise InputError("no tasks: give --senteval with the folder of SentEval's tasks, --probing, or both")
    every = [*(tasks_in(senteval) if senteval else ()), *(probing_files(probing) if probing else ())]
    named = list(dict.fromkeys(known_tasks(names_in(tasks), senteval, probing)))
    found, unavailable = read_tasks(named or every, senteval, probing, allow_partial=partial)
    for folder, is_senteval in ((senteval, True), (probing, False)):
        reasons = {name: reason for name, reason in unavailable.items() if (name in TASKS) == is_senteval}
        if folder and reasons and not any((task.name in TASKS) == is_senteval for task in found):
            raise none_read(folder, reasons)
    return found, unavailable


def sentences_of_tasks(senteval: Path | None, probing: Path | None, tasks: str) -> list[tuple[str, ...]]:
    """The distinct sentences of tasks, including incomplete ones; reports tasks that cannot be read."""
    found, unavailable = readable_tasks(tasks, senteval, probing, partial=True)
    inform(*(f"skipping {name}: {reason}" for name, reason in unavailable.items()))
    return list(dict.fromkeys(sentence for task in found for sentence in task.sentences()))


def lines_of(query: str) -> list[str]:
    """The query itself, or the lines of the file that it names."""
    from structviews.encoding.streaming import open_text

    if not query.strip():
        raise InputError("--query: empty: give a sentence, or a file of sentences")
    if not os.path.isfile(query):  # unlike Path.is_file, no error for a sentence too long to be a path
        return [query]
    with open_text(Path(query), skip_blank=True) as text:
        return text.lines(0, text.n)


def word_limit(flags: Mapping[str, Any]) -> tuple[WordLimit, dict[str, Any]]:
    """The limit for the length of sentences that the flags set, and the other flags."""
    limit = {each.name: flags[each.name] for each in settings_of(WordLimit) if each.name in flags}
    return WordLimit(**limit), {name: value for name, value in flags.items() if name not in limit}


def check_writable(out: Path) -> None:
    """Raise InputError unless a file of this name can be created."""
    if out.is_dir() or not out.parent.is_dir():
        raise InputError(f"{out}: cannot be written: give --out the name of a file in a folder that exists")


def named_run(name: str) -> Path:
    """The path that a run's name means: a bundled model, a path, or one in runs/ if it is not here."""
    path = run_folder(name)
    return RUNS / path if not os.path.exists(path) and os.path.exists(RUNS / path) else path


def one_run(path: Any) -> Any:
    """Check that a name means one run; None passes."""
    from structviews.runs.folder import find_runs, no_run

    if path and (found := find_runs(path)) != [path]:
        if not found:
            raise no_run(path)
        raise InputError(f"{path}: a folder of {len(found)} runs: name one of them, such as {found[0]}")
    return path


def own_run(path: Any) -> Any:
    """Check that a name means one run, which the command may write to; None passes."""
    check_own([path])
    return one_run(path)


def several_runs(paths: Any) -> Any:
    """The runs that names mean, where a folder of runs means all of these; skips files, as in runs/*; None passes."""
    from structviews.runs.folder import find_runs, no_run, run_names

    if not paths:
        return paths
    files = [path for path in paths if os.path.isfile(path)]
    folders = [path for path in paths if path not in files]
    runs = []
    for path in folders or files:
        if not (found := find_runs(path)):
            raise no_run(path)
        runs += found
    run_names(runs)  # raises if one is named twice
    inform(*(f"skipping {path}: not a run" for path in files))
    return runs


def own_runs(paths: Any) -> Any:
    """The runs that names mean, which the command may write to; see ``several_runs``."""
    check_own(paths or [])
    return several_runs(paths)


def own_copy(run: Path) -> Path:
    """The run; of a bundled model, which is read-only, the copy in runs/. It is made if nothing has its name there."""
    from structviews.hub.transfer import pull
    from structviews.runs.folder import WEIGHTS

    if not is_bundled(run):
        return run
    copy = RUNS / run.name
    if not copy.exists():
        inform(f"{run.name} is read-only: its scores go to a copy, {pull(run.name, copy)}")
    elif not (copy / WEIGHTS).is_file() or not cmp(run / WEIGHTS, copy / WEIGHTS, shallow=False):
        raise InputError(f"{copy}: not a copy of the bundled model {run.name}: rename it, or score it as ./{copy}")
    return copy


def named_member(name: str) -> tuple[Path, str]:
    """The run and the view that RUN:VIEW means; the view is empty for a whole run, whose path may have colons."""
    run, _, view = name.rpartition(":")
    if not (run and view) or set(view) & set("/\\") or os.path.exists(named_run(name)):
        return named_run(name), ""
    return named_run(run), view


def several_members(members: Any) -> Any:
    """The members of a join that names mean: runs, all runs of folders, and single views; see ``several_runs``."""
    from structviews.encoding.kinds.joined import Member

    found: list[Member] = []
    for single, adjacent in groupby(members, lambda each: bool(each[1])):
        if single:
            found += [Member(one_run(run), view) for run, view in adjacent]
        else:
            found += map(Member, several_runs([run for run, _ in adjacent]))
    seen = set()
    for run, view in found:
        if (run.resolve(), view) in seen:
            raise InputError(f"{run}{':' * bool(view)}{view}: named twice: name each run, or view, once")
        seen.add((run.resolve(), view))
    return found


def runs_argument(help: str, check: Callable[[Any], Any], parser: Callable[[str], Any] = named_run) -> Any:
    """An argument that names runs."""
    return Argument(help=help, parser=parser, callback=check)


# Runs that a command only reads may be bundled models; those that it writes to (Own...) may not.
Run = Annotated[Path, runs_argument(f"A run{or_bundled()}.", one_run)]
RUNS_HELP = f"Runs, or folders of runs{or_bundled()}."
Runs = Annotated[list[Path], runs_argument(RUNS_HELP, several_runs)]
OF_VIEWS = "Runs, folders of runs, or single views: RUN:VIEW (VIEW.1 where a run has several of that name)."
Members = Annotated[list[Path], runs_argument(OF_VIEWS, several_members, named_member)]
OwnRun = Annotated[Path, runs_argument("A run.", own_run)]
OwnRuns = Annotated[list[Path], runs_argument("Runs, or folders of runs.", own_runs)]
