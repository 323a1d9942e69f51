"""``structviews project``, ``report`` and ``serve``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from structviews.cli.console import errors, inform, say, stages
from structviews.cli.options import ForSimilarity, Precision, Sentences, Tokenised, lines_of
from structviews.cli.setting_flags import NONE_GIVEN, chosen_flags, with_flags
from structviews.cli.which_runs import Run, Runs
from structviews.encoding.word_limit import WordLimit
from structviews.errors import InputError
from structviews.runtime.wording import counted

PANEL = "Pages"
app = typer.Typer()


@app.command("project")
def project_sentences(
    run: Run,
    corpus: Sentences,
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Picture to write: .png, .svg, or .html with the sentences.")
    ],
    labels: Annotated[
        Path | None,
        typer.Option(help="Labels to colour by: one per line of the corpus's text.", show_default=False),
    ] = None,
    max_sentences: Annotated[int, typer.Option(help="Draw at most this many sentences, evenly spaced.")] = 2000,
    tokenised: Tokenised = False,
    precision: Precision = "auto",
) -> None:
    """Plot sentence vectors in two dimensions.

    Uses UMAP if umap-learn is installed (structviews\\[umap]), else PCA.

    Example: structviews project runs/dep-const --corpus subj.txt --labels subj.labels -o subj.html
    """
    from structviews.evaluation.retrieval.candidates import open_pool
    from structviews.report.project import check_out, draw_run
    from structviews.runtime.terminal import rate_bar

    check_out(out)
    if max_sentences < 3:
        raise InputError(f"--max-sentences {max_sentences}: give at least 3")
    pool = open_pool(corpus, tokenised)
    with rate_bar(errors, f"encoding {corpus}", "sentences") as progress:
        progress.stage("loading the run")
        how: dict[str, Any] = {"labels": labels, "most": max_sentences, "progress": progress, "precision": precision}
        projection, sample = draw_run(run, pool, out, **how)
    some = f"{len(sample.texts):,} of " if len(pool) > len(sample.texts) else ""
    say(f"{out}: {some}{counted(len(pool), 'sentence')}, {projection.method}")


@app.command("report")
def report_on_runs(
    runs: Runs,
    out: Annotated[Path, typer.Option("-o", "--out", help="Page to write.")] = Path("report.html"),
    corpus: Annotated[
        Path | None,
        typer.Option(help="Sentences to show: one per line, or a parsed corpus.", show_default="the runs'"),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Labels to colour by: one per line of the corpus's text.", show_default=False),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(
            help="Example sentence, or a file with one per line; repeatable.", show_default="some of the corpus"
        ),
    ] = None,
    tokenised: Tokenised = False,
    precision: Precision = "auto",
) -> None:
    """Write a page about runs: scores, training curves, projections, neighbours, trees with attention, settings.

    The page is a single self-contained file. For each missing part it names the command that makes it.

    Example: structviews report runs --corpus corpus.parsed -o report.html
    """
    from structviews.report.page import write_report

    queries = [line for each in query or [] for line in lines_of(each)]
    how: dict[str, Any] = {"labels": labels, "queries": queries, "tokenised": tokenised, "precision": precision}
    with stages() as tell:
        write_report(runs, out, corpus=corpus, tell=tell, **how)
    say(str(out))


@app.command("serve")
@with_flags(chosen_flags(WordLimit))
def serve_runs(
    runs: Runs,
    corpus: Annotated[
        Path | None,
        typer.Option(help="Sentences to search for neighbours: one per line, or a parsed corpus.", show_default=False),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; any but loopback needs --token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="STRUCTVIEWS_TOKEN", help="Bearer token that requests must carry.", show_default=False),
    ] = None,
    tokenised: Annotated[
        bool,
        typer.Option("--tokenised", help="--corpus and its queries are already tokenised (separated by white space)."),
    ] = False,
    similarity: ForSimilarity = False,
    precision: Precision = "auto",
    given: Mapping[str, Any] = NONE_GIVEN,
) -> None:
    """Serve runs on an interactive page and as JSON endpoints (needs structviews\\[serve]).

    Shows two sentences' trees, attention, cosines and nearest neighbours in a corpus. Each run encodes the corpus once,
    to CORPUS.vectors/; if encoding is stopped, run the same command again to resume.

    Example: structviews serve runs/dep-const runs/seq-seq --corpus corpus.parsed
    """
    from structviews.runtime.machine import keep_few_shapes

    keep_few_shapes()  # before PyTorch is imported
    _serve(runs, corpus, host, port, token, tokenised, similarity, precision, WordLimit(**given))


def _serve(
    runs: list[Path],
    corpus: Path | None,
    host: str,
    port: int,
    token: str | None,
    tokenised: bool,
    similarity: bool,
    precision: str,
    limit: WordLimit,
) -> None:
    try:
        from structviews.serving.endpoints import create_app
        from structviews.serving.server import allowed_hosts, bound_socket, check_token, serve, url
    except ImportError as error:
        raise InputError(f"serve needs an extra ({error}): pip install 'structviews[serve]'") from None
    from structviews.evaluation.retrieval.candidates import open_pool
    from structviews.runtime.terminal import rate_bar
    from structviews.serving.served import open_runs

    check_token(host, token)
    with bound_socket(host, port) as bound:
        pool = open_pool(corpus, tokenised) if corpus else None
        served = open_runs(runs, pool, similarity, lambda what: rate_bar(errors, what, "sentences"), limit, precision)
        server = serve(create_app(served, token, allowed_hosts(host, token)), bound)
        say(url(bound))
        names = ", ".join(run.name for run in served)
        inform(f"serving {names}; press Ctrl-C to stop")
        try:
            server.run(sockets=[bound])
        except KeyboardInterrupt:
            inform("stopped")
