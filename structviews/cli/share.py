"""``structviews report``, ``serve``, ``push``, ``pull`` and ``demo``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

from structviews.cli.console import console, errors, inform, resuming, say, stages, write
from structviews.cli.options import ForSimilarity, Labels, Precision, Run, Runs, Tokenised, lines_of, out_option
from structviews.cli.setting_flags import NO_FLAGS, chosen_flags, with_flags
from structviews.encoding.word_limit import WordLimit
from structviews.errors import InputError
from structviews.runs.bundled import or_bundled
from structviews.runtime.terminal import Bar

app = Typer()


@app.command("report")
def report_on_runs(
    runs: Runs,
    out: Annotated[Path, out_option("Page to write.")] = Path("report.html"),
    corpus: Annotated[
        Path | None, Option(help="Sentences to show: one per line, or a parsed corpus.", show_default="the runs'")
    ] = None,
    labels: Labels = None,
    query: Annotated[
        list[str] | None,
        Option(help="Example sentence, or a file with one per line; repeatable.", show_default="some of the corpus"),
    ] = None,
    tokenised: Tokenised = False,
    precision: Precision = "auto",
) -> None:
    """Write a page about runs.

    The page is a single self-contained file with scores, training curves, projections, neighbours, trees with
    attention, and settings. For each missing part it names the command that makes it.

    Example: structviews report runs --corpus corpus.parsed -o report.html
    """
    from structviews.report.page import write_report

    queries = [line for each in query or [] for line in lines_of(each)]
    how: dict[str, Any] = {"labels": labels, "queries": queries, "tokenised": tokenised, "precision": precision}
    with stages() as progress:
        write_report(runs, out, corpus=corpus, progress=progress, **how)
    say(out)


@app.command("serve")
@with_flags(chosen_flags(WordLimit))
def serve_runs(
    runs: Runs,
    corpus: Annotated[
        Path | None, Option(help="Sentences to search for neighbours: one per line, or a parsed corpus.")
    ] = None,
    host: Annotated[str, Option(help="Address to listen on; any but loopback needs --token.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8000,
    token: Annotated[
        str | None, Option(envvar="STRUCTVIEWS_TOKEN", help="Bearer token that requests must carry.")
    ] = None,
    tokenised: Annotated[
        bool, Option("--tokenised", help="--corpus and its queries are already tokenised (separated by white space).")
    ] = False,
    similarity: ForSimilarity = False,
    precision: Precision = "auto",
    flags: Mapping[str, Any] = NO_FLAGS,
) -> None:
    """Serve runs on an interactive page and as JSON endpoints.

    Needs structviews\\[serve]. Shows two sentences' trees, attention, cosines and nearest neighbours in a corpus. Each
    run encodes the corpus once, to CORPUS.vectors/; if encoding is stopped, run the same command again to resume.

    Example: structviews serve runs/dep-const runs/seq-seq --corpus corpus.parsed
    """
    try:
        from structviews.serving.endpoints import create_app
        from structviews.serving.server import allowed_hosts, bound_socket, check_token, serve, url
    except ImportError as error:
        raise InputError(f"serve needs an extra ({error}): pip install 'structviews[serve]'") from None
    from structviews.evaluation.retrieval.candidates import Pool
    from structviews.serving.served import open_runs

    check_token(host, token)
    with bound_socket(host, port) as bound:
        pool = Pool(corpus, tokenised) if corpus else None
        limit = WordLimit(**flags)
        served = open_runs(runs, pool, similarity, lambda what: Bar(errors, what, "sentences"), limit, precision)
        server = serve(create_app(served, token, allowed_hosts(host, token)), bound)
        say(url(bound))
        names = ", ".join(run.name for run in served)
        inform(f"serving {names}; press Ctrl-C to stop")
        try:
            server.run(sockets=[bound])
        except KeyboardInterrupt:
            inform("stopped")


@app.command("push")
def push_run(
    run: Run,
    repo: Annotated[str, Argument(help="Repository on the Hugging Face Hub: OWNER/NAME.")],
    licence: Annotated[
        str, Option(help="Licence, by its name on the Hub: apache-2.0, cc-by-4.0.", show_default="none")
    ] = "",
    private: Annotated[bool, Option("--private", help="Make the repository private.")] = False,
    card: Annotated[
        Path | None, Option(help="Model card to upload.", show_default="generated from settings and scores")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print the card and the files; upload nothing.")] = False,
) -> None:
    """Upload a run to the Hugging Face Hub.

    Uploads weights, vocabulary, settings, scores and a model card. Local paths, training states and logs are not
    uploaded.

    Example: structviews push runs/dep-const me/dep-const --licence cc-by-4.0 --dry-run
    """
    from structviews.hub.transfer import push

    pushed = push(run, repo, private=private, licence=licence, card=card, dry_run=dry_run)
    inform(*pushed.notes)
    if dry_run:
        write(pushed.card)
        inform(*(f"{size / 1000:9,.0f} kB  {name}" for name, size in pushed.files.items()), "nothing was uploaded")
    else:
        say(pushed.url)


@app.command("pull")
def pull_run(
    repo: Annotated[str, Argument(help=f"Repository on the Hugging Face Hub, OWNER/NAME{or_bundled()}.")],
    out: Annotated[Path | None, out_option("Folder to create.", "runs/NAME")] = None,
    revision: Annotated[
        str | None, Option(help="Branch, tag or commit of the repository.", show_default="the newest commit")
    ] = None,
) -> None:
    """Download a run from the Hub, or copy a bundled one.

    Never executes downloaded code. The commit that was downloaded is recorded in pulled.json in the folder.

    Example: structviews pull me/dep-const -o runs/dep-const

    Example: structviews pull default -o runs/default
    """
    from structviews.hub.transfer import pull

    say(pull(repo, out, revision=revision))


@app.command("demo")
def demonstrate(
    folder: Annotated[Path, out_option("Working folder; created if missing.")] = Path("structviews-demo"),
) -> None:
    """Compare four pairs of views on Python's documentation.

    Needs no data and no network. Takes a few minutes on two cores. If it is stopped, run the same command again to
    resume.

    Example: structviews demo
    """
    from structviews.demo.job import run_demo

    with resuming():
        run_demo(folder, console)
