"""``structviews vectors`` and ``expand``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from structviews.cli.console import GO_ON, errors, inform, say, suggest, typeable
from structviews.cli.options import Corpus, check_writable
from structviews.cli.setting_flags import NONE_GIVEN, chosen_flags, with_flags
from structviews.cli.which_runs import OwnRun
from structviews.runtime.wording import counted
from structviews.words.learning_settings import Word2VecConfig

PANEL = "Training"
app = typer.Typer()


@app.command("vectors")
@with_flags(chosen_flags(Word2VecConfig))
def learn_word_vectors(
    corpus: Corpus,
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            help="File to write, in word2vec's format: binary if it ends in .bin, else text. With --subwords it must "
            "end in .bin, and has fastText's format.",
        ),
    ],
    given: Mapping[str, Any] = NONE_GIVEN,
) -> None:
    """Train word vectors on a parsed corpus, for the fixed channel and the baselines.

    If it is stopped, run the same command again to resume after the last finished epoch.

    Example: structviews vectors corpus.parsed -o corpus.vec --workers 2
    """
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.runtime.files import writing
    from structviews.runtime.terminal import rate_bar
    from structviews.words.learning import check_name, learn_file

    check_writable(out)
    config = Word2VecConfig(**given)
    check_name(out, config)
    try:
        with writing(out), rate_bar(errors, "learning", "sentences") as progress:
            progress.stage("counting the words")
            n_words = learn_file(out, ParsedCorpus.open(corpus), config, progress)
    except KeyboardInterrupt:
        inform(f"stopped; {GO_ON}")
        raise typer.Exit(130) from None
    say(f"{out}: {counted(n_words, 'word')}, {counted(config.dim, 'dimension')}")
    flags = f"--channels fixed --vectors {typeable(out)}"
    suggest("Next, train on these words:", f"structviews train --views dep,const {flags}")


@app.command("expand")
def expand_vocabulary(
    run: OwnRun,
    vectors: Annotated[Path, typer.Option(help="Word vectors: GloVe, word2vec or fastText.")],
) -> None:
    """Extend the vocabulary of trained words to all words of a vector file, by a linear map fitted on the shared words.

    The run reads the file whenever it encodes, so the file must stay where it is. Runs with fixed vectors read theirs
    without this command, which tells them where it is if it was moved.

    Example: structviews expand runs/dep-const --vectors glove.840B.300d.txt
    """
    from structviews.encoding.expansion import expand
    from structviews.runtime.terminal import rate_bar

    with rate_bar(errors, f"reading {vectors}", "MB", 10**6) as progress:
        report = expand(run, vectors, progress)
    lines = [f"{run}: added {counted(report.n_new, 'word')} from {vectors}"]
    lines += [
        f"  {fit.view}: R^2 {fit.r2:.3f} on {counted(report.n_shared, 'shared word')}; "
        f"{fit.r2_left_out:.3f} on a held-out tenth"
        for fit in report.fits
    ]
    say("\n".join(lines))
