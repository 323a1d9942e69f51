"""``structviews states``."""

from collections.abc import Mapping
from typing import Any

import typer

from structviews.cli.console import GO_ON, errors, inform, say, suggest, typeable
from structviews.cli.options import Corpus, Device
from structviews.cli.setting_flags import NONE_GIVEN, chosen_flags, with_flags
from structviews.runtime.wording import counted
from structviews.words.word_settings import Words

PANEL = "Training"
app = typer.Typer()


@app.command("states")
@with_flags(chosen_flags(Words, ["encoder", "word_pooling"]))
def store_encoder_states(corpus: Corpus, device: Device = "", given: Mapping[str, Any] = NONE_GIVEN) -> None:
    """Compute a frozen encoder's states of all words of a parsed corpus, for training with the contextual channel.

    They are kept beside the corpus, two bytes a number, and train finds them there. If it is stopped, run the same
    command again to resume.

    Example: structviews states corpus.parsed --encoder roberta-base
    """
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.pretrained.frozen import FrozenEncoder
    from structviews.pretrained.stored_states import outdated, store_states
    from structviews.runtime.device import using
    from structviews.runtime.terminal import rate_bar

    words = Words(**{{"word_pooling": "pooling"}.get(name, name): value for name, value in given.items()})

    def told(n_words: int, size: int) -> None:
        inform(f"{corpus}: {counted(n_words, 'word')} to compute, which take {size / 1e9:,.2f} GB on disk")

    try:
        with using(device), rate_bar(errors, "reading sentences", "sentences") as progress:
            progress.stage("reading the corpus")
            opened = ParsedCorpus.open(corpus)
            progress.stage("finding the encoder")
            encoder = FrozenEncoder.open(words.encoder, words.pooling)
            folder = store_states(opened, encoder, told, progress)
    except KeyboardInterrupt:
        inform(f"stopped; {GO_ON}")
        raise typer.Exit(130) from None
    say(f"{folder}: {counted(opened.manifest['tokens'], 'word')}, {counted(encoder.dim, 'dimension')}")
    for old, size in outdated(opened).items():
        what = f"{size / 1e9:,.2f} GB of an earlier version of the corpus or of structviews"
        inform(f"{old}: {what}: delete it, as nothing reads it")
    flags = f"--channels contextual --encoder {typeable(words.encoder)}"
    flags += f" --word-pooling {words.pooling}" * ("word_pooling" in given)
    suggest("Next, train on these words:", f"structviews train --views dep,const --corpus {typeable(corpus)} {flags}")
