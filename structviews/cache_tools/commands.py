"""``structviews cache``: parse flags, call, print."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from structviews.errors import InputError

app = typer.Typer(help="Merge, split, verify, describe and export parsed corpora.", no_args_is_help=True)
console = Console()
errors = Console(stderr=True, highlight=False)

Corpus = Annotated[Path, typer.Argument(help="A parsed corpus.", show_default=False)]
Out = Annotated[Path, typer.Option("-o", "--out", help="Folder to make.", show_default=False)]


@app.command("merge")
def merge_corpora(
    corpora: Annotated[list[Path], typer.Argument(help="Parsed corpora.", show_default=False)], out: Out
) -> None:
    """Make one corpus of several that were parsed alike, one behind the other.

    Example: structviews cache merge novels.parsed news.parsed -o all.parsed
    """
    from structviews.cache import ParsedCorpus
    from structviews.cache_tools.merging import merge
    from structviews.log import rate_bar

    with rate_bar(errors, "merging", "shards") as progress:
        merged = merge([ParsedCorpus.open(corpus) for corpus in corpora], out, progress)
    say(described(out, len(merged), merged.manifest["documents"]))


@app.command("split")
def split_corpus(
    corpus: Corpus,
    out: Out,
    parts: Annotated[int | None, typer.Option(help="Deal documents to so many parts.", show_default=False)] = None,
    shares: Annotated[
        str | None, typer.Option(help="Parts with their shares: train=0.9,dev=0.1.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the dealing.")] = 1,
) -> None:
    """Deal a corpus' documents to several corpora at random.

    Example: structviews cache split corpus.parsed --shares train=0.95,dev=0.05 -o parts
    """
    from structviews.cache import ParsedCorpus
    from structviews.cache_tools.splitting import equal_shares, read_shares, split
    from structviews.log import rate_bar

    if (parts is None) == (shares is None):
        raise InputError("give either --parts or --shares")
    dealt = equal_shares(parts) if parts is not None else read_shares(shares or "")
    with rate_bar(errors, "splitting", "shards") as progress:
        found = split(ParsedCorpus.open(corpus), dealt, out, seed, progress)
    for part in found.values():
        say(described(part.path, len(part), part.manifest["documents"]))


@app.command("verify")
def verify_corpus(corpus: Corpus) -> None:
    """Check files, counts and every tree of a corpus; a line for each fault, and exit code 1 if there is one.

    Example: structviews cache verify corpus.parsed
    """
    from structviews.cache_tools.verification import verify
    from structviews.log import rate_bar

    n_faults = 0
    with rate_bar(errors, "verifying", "shards") as progress:
        for fault in verify(corpus, progress):
            say(fault)
            n_faults += 1
    if n_faults:
        raise typer.Exit(1)
    say(f"{corpus}: no faults")


@app.command("stats")
def describe_corpus(
    corpus: Corpus, as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all names.")] = False
) -> None:
    """Show sizes, frequencies and what a token takes on disk.

    Example: structviews cache stats corpus.parsed
    """
    from structviews.cache import ParsedCorpus
    from structviews.cache_tools import statistics

    opened = ParsedCorpus.open(corpus)
    if as_json:
        found = statistics.as_json(opened, statistics.Statistics.of(opened))
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        console.print(statistics.overview(opened, with_bytes=True), highlight=False)


@app.command("export")
def export_corpus(
    corpus: Corpus,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Files to write, without an ending.", show_default="CORPUS")
    ] = None,
) -> None:
    """Write CoNLL-U and bracketed trees; parse --parser treebank makes the same corpus of them again.

    Example: structviews cache export corpus.parsed -o corpus
    """
    from structviews.cache import ParsedCorpus
    from structviews.log import rate_bar
    from structviews.parsing.export import export

    opened = ParsedCorpus.open(corpus)
    with rate_bar(errors, "exporting", "shards") as progress:
        for path in export(opened, out or Path(corpus.resolve().name.removesuffix(".parsed")), progress):
            say(str(path))


def described(path: Path, sentences: int, documents: int) -> str:
    """What a corpus holds, in a line."""
    return f"{path}: {sentences:,} sentences in {documents:,} documents"


def say(line: str) -> None:
    """Print a line as it is."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)
