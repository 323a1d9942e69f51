"""``structviews parse`` and ``parser``."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from structviews.cli.console import errors, resuming, say, suggest, typeable
from structviews.cli.options import Device, Language, Models, Probing, Senteval, Tasks, Tokenised, sentences_of_tasks
from structviews.errors import InputError
from structviews.runtime.wording import counted

if TYPE_CHECKING:
    from structviews.corpus.parsed_corpus import ParsedCorpus

app = typer.Typer()
parser_app = typer.Typer(help="Download models for other libraries' parsers.", no_args_is_help=True)
app.add_typer(parser_app, name="parser")

TextFormat = StrEnum("TextFormat", ["lines", "prose"])
Compression = StrEnum("Compression", ["zstd"])
ParseEngine = StrEnum("ParseEngine", ["local", "ray"])

Sources = Annotated[
    list[str] | None,
    typer.Argument(
        help="Text file (.txt, .txt.zst, .gz; - for standard input). With --parser treebank: a .conllu file, "
        "a file of bracketed trees, or both."
    ),
]

# Which parser.
Parser = Annotated[
    str,
    typer.Option(
        help="Parser: builtin, stanza, benepar, spacy:PIPELINE, trivial:SHAPE, treebank; DEP+CONST combines two."
    ),
]

# Which processes.
Workers = Annotated[
    int | None,
    typer.Option(
        help="Number of processes; does not affect the result.", show_default="1; on a cluster as many as fit"
    ),
]
Engine = Annotated[ParseEngine, typer.Option(help="What runs the processes: local, or ray (needs structviews\\[ray]).")]
Address = Annotated[
    str | None,
    typer.Option(
        help="Ray cluster: HOST:6379, or auto on one of its machines.", show_default="start Ray on this machine"
    ),
]


@app.command("parse")
def parse_text(
    source: Sources = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder to write.", show_default="SOURCE.parsed")
    ] = None,
    senteval: Senteval = None,
    probing: Probing = None,
    tasks: Tasks = "",
    parser: Parser = "builtin",
    lang: Language = "en",
    models: Models = None,
    device: Device = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at a sentence that cannot be parsed, instead of skipping it.")
    ] = False,
    format: Annotated[
        TextFormat | None,
        typer.Option(help="One sentence per line, or running text.", show_default="guessed and reported"),
    ] = None,
    tokenised: Tokenised = False,
    workers: Workers = None,
    engine: Engine = ParseEngine.local,
    address: Address = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Skip longer sentences.", show_default="120; no limit for tasks")
    ] = None,
    compress: Annotated[
        Compression | None,
        typer.Option(help="Compress: half the size on disk, slightly slower to read.", show_default="not compressed"),
    ] = None,
) -> None:
    """Parse a text into dependency and constituency trees.

    It writes a folder with both trees of every sentence. With --senteval or --probing, it parses the distinct sentences
    of evaluation tasks, for eval --parsed. If it is stopped, run the same command again to resume.

    Example: structviews parse corpus.txt --workers 4

    Example: structviews parse corpus.txt --engine ray --address head:6379
    """
    from structviews.parsing.parser import Options
    from structviews.parsing.sources import output_name

    settings: dict[str, Any] = {
        "parser": parser,
        "options": Options(lang, models, device),
        "strict": strict,
        "workers": workers,
        "engine": engine,
        "address": address,
        "compression": compress.value if compress else None,
    }
    if not (senteval or probing):
        if not source:
            raise InputError("nothing to parse: name a text, or give --senteval or --probing")
        out = out or Path(output_name(source[0]))
        limit = 120 if max_tokens is None else max_tokens
        corpus = parse_into(out, source, layout=format, tokenised=tokenised, max_tokens=limit, **settings)
        views = ["dep"] * corpus.has_dependencies + ["const"] * corpus.has_constituents
        views += ["seq"] * (2 - len(views))
        suggest("Next, train on it:", f"structviews train --views {','.join(views)} --corpus {typeable(out)}")
        return
    if source or format or tokenised or parser == "treebank":
        raise InputError(
            "--senteval and --probing parse the tasks' own tokens: "
            "give no text, --format, --tokenised or --parser treebank"
        )
    parse_tasks(senteval, probing, tasks, out, max_tokens=max_tokens, **settings)


def parse_tasks(
    senteval: Path | None, probing: Path | None, tasks: str, out: Path | None, max_tokens: int | None, **settings: Any
) -> None:
    """Parse the distinct sentences of evaluation tasks, and say how to score with their trees."""
    from tempfile import TemporaryDirectory

    from structviews.encoding.sentence_vectors import write_sentences
    from structviews.parsing.sources import MOST_TOKENS, output_name

    flags = {"--senteval": senteval, "--probing": probing}
    folders = {flag: folder for flag, folder in flags.items() if folder}
    with TemporaryDirectory(prefix="structviews-") as temporary:
        text = Path(temporary) / "sentences.txt"
        write_sentences(text, sentences_of_tasks(senteval, probing, tasks))
        limit = MOST_TOKENS if max_tokens is None else max_tokens
        out = out or Path(output_name(str(next(iter(folders.values())).resolve())))
        parse_into(out, [str(text)], layout=TextFormat.lines, tokenised=True, max_tokens=limit, **settings)
    where = " ".join(f"{flag} {typeable(folder)}" for flag, folder in folders.items())
    suggest("Next, score a run with these trees:", f"structviews eval RUN {where} --parsed {typeable(out)}")


def parse_into(
    out: Path,
    source: list[str],
    *,
    workers: int | None,
    engine: ParseEngine,
    address: str | None,
    compression: str | None,
    **settings: Any,
) -> "ParsedCorpus":
    """Parse a text with the settings of ``open_source`` and print a summary; return the corpus."""
    from structviews.parsing.pipeline import parse_corpus, summary
    from structviews.parsing.sources import open_source

    with resuming():
        job = open_source(source, **settings)
        where: dict[str, Any] = {"workers": workers, "engine": engine.value, "address": address}
        corpus, already = parse_corpus(job, out, console=errors, compression=compression, **where)
    counts = f"{counted(len(corpus), 'sentence')} in {counted(corpus.manifest['documents'], 'document')}"
    suffix = " already exists" if already else ""
    kinds = {"dependency": corpus.has_dependencies, "constituency": corpus.has_constituents}
    lacking = "".join(f", no {kind} trees" for kind, has in kinds.items() if not has)
    say(f"{out}{suffix}: {counts}, {summary(corpus)}{lacking}")
    return corpus


@parser_app.callback()
def group() -> None:
    """Download models for other libraries' parsers."""


@parser_app.command("download")
def download_models(
    library: Annotated[str, typer.Argument(help="stanza, benepar or spacy.")],
    model: Annotated[
        str,
        typer.Argument(
            help="A stanza package, a benepar model or a spaCy pipeline.", show_default="the language's; none for spaCy"
        ),
    ] = "",
    lang: Annotated[str, typer.Option(help="Language of the models.")] = "en",
    models: Annotated[
        Path | None, typer.Option(help="Folder for the models, for parse --models.", show_default="the library's")
    ] = None,
) -> None:
    """Download a library's models with its own downloader.

    Example: structviews parser download stanza --lang en
    """
    from structviews.parsing.download import download
    from structviews.parsing.parser import Options

    download(library, model, Options(language=lang, models=models))
    say("downloaded")
