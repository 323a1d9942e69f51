"""``structviews cache``."""

import json
from pathlib import Path
from typing import Annotated

import typer

from structviews.cli.console import console, errors, say, write
from structviews.cli.options import Corpus, NewFolder, Seed
from structviews.errors import InputError
from structviews.runtime.wording import counted

PANEL = "Corpora"
GROUP = "cache"
app = typer.Typer(help="Merge, split, describe and export parsed corpora.", no_args_is_help=True)


@app.command("merge")
def merge_corpora(
    corpora: Annotated[list[Path], typer.Argument(help="Parsed corpora.", show_default=False)], out: NewFolder
) -> None:
    """Concatenate corpora that were parsed with the same settings.

    Example: structviews cache merge novels.parsed news.parsed -o all.parsed
    """
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.corpus.tools.merging import merge
    from structviews.runtime.terminal import rate_bar

    with rate_bar(errors, "merging", "shards") as progress:
        merged = merge([ParsedCorpus.open(corpus) for corpus in corpora], out, progress)
    say(described(out, len(merged), merged.manifest["documents"]))


@app.command("split")
def split_corpus(
    corpus: Corpus,
    out: NewFolder,
    parts: Annotated[int | None, typer.Option(help="Number of equal parts.", show_default=False)] = None,
    shares: Annotated[
        str | None, typer.Option(help="Names and shares of the parts: train=0.9,dev=0.1.", show_default=False)
    ] = None,
    seed: Seed = 1,
) -> None:
    """Split a corpus into several at random, by documents.

    Example: structviews cache split corpus.parsed --shares train=0.95,dev=0.05 -o parts
    """
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.corpus.tools.splitting import equal_shares, read_shares, split
    from structviews.runtime.terminal import rate_bar

    if (parts is None) == (shares is None):
        raise InputError("give either --parts or --shares")
    dealt = equal_shares(parts) if parts is not None else read_shares(shares or "")
    with rate_bar(errors, "splitting", "shards") as progress:
        found = split(ParsedCorpus.open(corpus), dealt, out, seed, progress)
    for part in found.values():
        say(described(part.path, len(part), part.manifest["documents"]))


@app.command("stats")
def describe_corpus(
    corpus: Corpus, as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False
) -> None:
    """Show sizes, frequencies and bytes per token.

    Example: structviews cache stats corpus.parsed
    """
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.corpus.tools import corpus_statistics

    opened = ParsedCorpus.open(corpus)
    if as_json:
        found = corpus_statistics.as_json(opened, corpus_statistics.Statistics.of(opened))
        write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    else:
        console.print(corpus_statistics.overview(opened, with_bytes=True), highlight=False)


@app.command("export")
def export_corpus(
    corpus: Corpus,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Path of the files to write, without extension.", show_default="CORPUS"),
    ] = None,
) -> None:
    """Write CoNLL-U and bracketed trees; parse --parser treebank turns them back into the same corpus.

    Example: structviews cache export corpus.parsed -o corpus
    """
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.parsing.export import export
    from structviews.runtime.terminal import rate_bar

    opened = ParsedCorpus.open(corpus)
    with rate_bar(errors, "exporting", "shards") as progress:
        written = export(opened, out or Path(corpus.resolve().name.removesuffix(".parsed")), progress)
    for path in written:
        say(str(path))


def described(path: Path, sentences: int, documents: int) -> str:
    """One line with a corpus' size."""
    return f"{path}: {counted(sentences, 'sentence')} in {counted(documents, 'document')}"
