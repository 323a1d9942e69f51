"""``structviews join`` and ``baseline``, which make runs without training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from structviews.cli.console import errors, say, suggest, typeable
from structviews.cli.options import NewFolder
from structviews.cli.setting_flags import NONE_GIVEN, some_train_flags, with_flags
from structviews.cli.which_runs import Members

PANEL = "Vectors"
app = typer.Typer()


@app.command("join")
def join_several(
    members: Members,
    out: NewFolder,
    join: Annotated[
        str,
        typer.Option(help="concatenation of the members' vectors, or average of the normalised vectors."),
    ] = "concatenation",
    similarity_join: Annotated[str, typer.Option(help="Join for similarity tasks.", show_default="as --join")] = "",
) -> None:
    """Join runs, or single views, into one that encode, eval and table accept like any other; it contains copies.

    Example: structviews join runs/seq-uni-seq-uni runs/seq-seq -o runs/combine-qt

    Example: structviews join runs/one:seq runs/two:seq -o runs/ensemble
    """
    from structviews.encoding.kinds.joined import join_runs

    say(str(join_runs(members, out, join, similarity_join)))


@app.command("baseline")
@with_flags(some_train_flags(["views", "hidden", "word_dim", "encoder", "seed"], "For random"))
def make_a_baseline(
    kind: Annotated[
        str,
        typer.Argument(
            help="average, tfidf, sif, up, all-but-the-top, random, or sentence-transformers:PATH.", show_default=False
        ),
    ],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder to create.", show_default="runs/NAME")] = None,
    corpus: Annotated[Path | None, typer.Option(help="Parsed corpus.", show_default="the only *.parsed here")] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="Word vectors: GloVe, word2vec or fastText.", show_default=False)
    ] = None,
    given: Mapping[str, Any] = NONE_GIVEN,
) -> None:
    """Make a baseline: an untrained run that encode, eval and table accept like any other.

    NAME is the baseline's, for random with its views, and for a sentence-transformers model that of its folder.

    Example: structviews baseline sif --corpus corpus.parsed --vectors glove.840B.300d.txt
    """
    from structviews.training.baselines import make_baseline

    run = make_baseline(kind, corpus, out, vectors, dict(given), errors)
    say(str(run))
    suggest("Next, score it:", f"structviews eval {typeable(run)} --senteval DIR")
