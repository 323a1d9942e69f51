"""``structviews analogy``."""

from pathlib import Path
from typing import Annotated

import typer

from structviews.cli.console import console, errors, say
from structviews.cli.options import Corpus, ForSimilarity, Precision, Tokenised, check_writable
from structviews.cli.which_runs import OwnRun
from structviews.errors import InputError
from structviews.runtime.wording import counted

WORD_ANALOGIES = Path("questions-words.txt")
PANEL = "Evaluation"
GROUP = "analogy"
app = typer.Typer(help="Make and score sentence analogies: A is to B as C is to D.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Make and score sentence analogies: A is to B as C is to D."""


@app.command("make")
def make_analogies(
    corpus: Corpus,
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write.", show_default=False)],
    words: Annotated[Path, typer.Option(help="Word analogies, in the format of word2vec's questions-words.txt.")] = (
        WORD_ANALOGIES
    ),
) -> None:
    """Make sentence analogies: sentences of a corpus that differ in one word, combined by word analogies.

    questions-words.txt comes with the source code of word2vec (Mikolov et al. 2013), and with gensim.

    Example: structviews analogy make corpus.parsed --words questions-words.txt -o analogies.tsv
    """
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.evaluation.retrieval.analogy_mining import (
        mine,
        read_word_analogies,
        write_tuples,
    )

    check_writable(out)
    if words == WORD_ANALOGIES and not words.exists():
        raise InputError(
            f"{words}: not here: copy it from the source code of word2vec, or from gensim's folder test/test_data, or "
            "give a file of your own with --words, whose lines have four words such as: he she king queen"
        )
    mined = mine(ParsedCorpus.open(corpus), read_word_analogies(words))
    write_tuples(out, mined)
    lines = [
        f"{name}: {counted(len(found.tuples), 'tuple')} from "
        f"{counted(found.analogies, 'word analogy', 'word analogies')}"
        for name, found in mined.items()
    ]
    lines.append(f"{out}: {counted(sum(len(found.tuples) for found in mined.values()), 'sentence tuple')}")
    say("\n".join(lines))


@app.command("score")
def score_analogies(
    run: OwnRun,
    tuples: Annotated[Path, typer.Option(help="Analogies, one per line: four tab-separated sentences.")],
    pool: Annotated[Path, typer.Option(help="Other candidates: one sentence per line, or a parsed corpus.")],
    tokenised: Tokenised = False,
    similarity: ForSimilarity = False,
    precision: Precision = "auto",
) -> None:
    """Find the sentence nearest to v(C) + v(B) - v(A), with each of a tuple's four sentences as the target in turn.

    Writes scores to RUN/retrieval.json. The output of analogy make is tokenised.

    Example: structviews analogy score runs/dep-const --tuples analogies.tsv --pool corpus.parsed --tokenised
    """
    from structviews.encoding.embedder import Embedder
    from structviews.evaluation.retrieval import analogy
    from structviews.evaluation.retrieval.candidates import open_pool
    from structviews.evaluation.retrieval.records import save_entry
    from structviews.runtime.terminal import rate_bar

    opened = open_pool(pool, tokenised)
    read = analogy.read_tuples(tuples, opened)
    with rate_bar(errors, f"encoding {pool}", "sentences") as progress:
        progress.stage("loading the run")
        embedder = Embedder.load(run, precision=precision)
        embedder = embedder.for_similarity() if similarity else embedder
        answers = analogy.answer(read, opened, run, embedder, progress)
    scores = analogy.analogy_scores(answers)
    save_entry(run, analogy.entry(embedder.description, tuples, read, opened, scores))
    console.print(analogy.analogy_table(scores))
