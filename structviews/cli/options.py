"""Arguments and options shared by several commands."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from structviews.cli.console import inform
from structviews.cli.setting_flags import names_in
from structviews.encoding.word_limit import WordLimit
from structviews.errors import InputError
from structviews.settings import LARGEST_SEED, settings_of

if TYPE_CHECKING:
    from structviews.evaluation.senteval.tasks.reading import Task


def only_corpus(several: str = "name one of them", **remedies: str) -> Path:
    """The only parsed corpus here; ``find_corpus`` has the remedies."""
    from structviews.corpus.parsed_corpus import find_corpus

    return find_corpus(several=several, **remedies)


Corpus = Annotated[
    Path, typer.Argument(default_factory=only_corpus, help="A parsed corpus.", show_default="the only *.parsed here")
]


Sentences = Annotated[
    Path,
    typer.Option(
        "--corpus",
        default_factory=lambda: only_corpus("choose one with --corpus"),
        help="Sentences: one per line, or a parsed corpus.",
        show_default="the only *.parsed here",
    ),
]


NewFolder = Annotated[Path, typer.Option("-o", "--out", help="Folder to create.", show_default=False)]


Tokenised = Annotated[bool, typer.Option("--tokenised", help="Input is already tokenised (separated by white space).")]


ForSimilarity = Annotated[
    bool, typer.Option("--similarity", help="Use the run's vectors for similarity tasks.", show_default=False)
]


# Which tasks.
Senteval = Annotated[
    Path | None, typer.Option(help="Folder with SentEval's MR/, SICK/, STS/ and so on.", show_default=False)
]


Probing = Annotated[
    Path | None,
    typer.Option(help="Folder with probing tasks, one .txt each, in SentEval's format.", show_default=False),
]


Tasks = Annotated[
    str,
    typer.Option(help="Comma-separated tasks, such as MR,SUBJ, in any case.", show_default="all in the folders"),
]


Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Random seed.")]


# How parsers are loaded.
Language = Annotated[str, typer.Option(help="Language of the text, such as de or zh-hans.")]


Device = Annotated[str, typer.Option(help="Device: cpu, cuda, cuda:1.", show_default="a GPU if available")]


Precision = Annotated[
    str,
    typer.Option(help="Of the encoders' products: fp32, bf16, or auto: bf16 where the CPU multiplies it."),
]


Models = Annotated[
    Path | None,
    typer.Option(help="Folder with the parsers' models.", show_default="the libraries' own folders"),
]


def own_device(name: str, ranks: int) -> str:
    """The named device, which several processes must not share if it is a GPU."""
    if name.startswith("cuda") and ranks > 1:
        raise InputError(f"--device {name}: torchrun gives each process a GPU of its own: leave it out")
    return name


def readable_tasks(
    tasks: str, senteval: Path | None, probing: Path | None, partial: bool
) -> "tuple[list[Task], dict[str, str]]":
    """The named tasks, or all in the folders, that can be read; and for each other task the reason why not.

    Raises:
        InputError: if a folder has none of those that are wanted from it.
    """
    from structviews.evaluation.senteval.suite import read_tasks
    from structviews.evaluation.senteval.tasks import TASKS
    from structviews.evaluation.senteval.tasks.finding import none_read

    found, unavailable = read_tasks(task_names(tasks, senteval, probing), senteval, probing, allow_partial=partial)
    for folder, senteval_s in ((senteval, True), (probing, False)):
        reasons = {name: why for name, why in unavailable.items() if (name in TASKS) == senteval_s}
        if folder and reasons and not any((task.name in TASKS) == senteval_s for task in found):
            raise none_read(folder, reasons)
    return found, unavailable


def sentences_of_tasks(senteval: Path | None, probing: Path | None, tasks: str) -> list[tuple[str, ...]]:
    """The distinct sentences of tasks, including incomplete ones; reports tasks that cannot be read."""
    found, unavailable = readable_tasks(tasks, senteval, probing, partial=True)
    for name, reason in unavailable.items():
        inform(f"skipping {name}: {reason}")
    return list(dict.fromkeys(sentence for task in found for sentence in task.sentences()))


def task_names(tasks: str, senteval: Path | None, probing: Path | None) -> list[str]:
    """The named tasks; if none is named, all that the folders may contain."""
    from structviews.evaluation.senteval.tasks.finding import known_tasks
    from structviews.evaluation.senteval.tasks.finding import task_names as all_tasks
    from structviews.evaluation.senteval.tasks.probing import probing_files

    if not senteval and not probing:
        raise InputError("no tasks: give --senteval with the folder of SentEval's tasks, --probing, or both")
    every = [*(all_tasks() if senteval else ()), *(probing_files(probing) if probing else ())]
    return list(dict.fromkeys(known_tasks(names_in(tasks), senteval, probing))) or every


def lines_of(query: str) -> list[str]:
    """The query itself, or the lines of the file that it names."""
    from structviews.encoding.streaming import open_text

    if not query.strip():
        raise InputError("--query: empty: give a sentence, or a file of sentences")
    if not os.path.isfile(query):  # unlike Path.is_file, no error for a sentence too long to be a path
        return [query]
    with open_text(Path(query), skip_blank=True) as text:
        return text.lines(0, text.n)


def word_limit(given: Mapping[str, Any]) -> tuple[WordLimit, dict[str, Any]]:
    """The limit for the length of sentences that the flags set, and the other flags."""
    limit = {each.name: given[each.name] for each in settings_of(WordLimit) if each.name in given}
    return WordLimit(**limit), {name: value for name, value in given.items() if name not in limit}


def check_writable(out: Path) -> None:
    """Raise InputError unless a file of this name can be created."""
    if out.is_dir() or not out.parent.is_dir():
        raise InputError(f"{out}: cannot be written: give --out the name of a file in a folder that exists")


Transductive = Annotated[
    bool | None,
    typer.Option(
        "--transductive/--no-transductive",
        help="Fit the removed component on the encoded sentences, as papers do, not on training sentences.",
        show_default=False,
    ),
]
