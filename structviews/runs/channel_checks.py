"""Which channels of words a run can have: what each needs, and what cannot read it."""

from collections.abc import Sequence

from structviews.errors import InputError
from structviews.objectives import OBJECTIVES
from structviews.pretrained.encoder_name import EncoderName
from structviews.views import VIEWS
from structviews.words import CONTEXTUAL, FIXED, TRAINED
from structviews.words.word_settings import MEAN, ZERO, Words


def check_channels(words: Words) -> None:
    """Raise InputError unless the channels have the files that they read, and these a channel."""
    channels, vectors = words.channels, words.vectors
    listed = ",".join(channels)
    if not channels or len(set(channels)) < len(channels):
        raise InputError(f"channels = {listed!r}: name each channel once")
    if FIXED in channels and not vectors:
        raise InputError(
            f"channels = {listed}: the channel {FIXED!r} needs word vectors: give a file with --vectors; "
            "`structviews vectors` can make one"
        )
    if vectors and FIXED not in channels:
        raise InputError(
            f"vectors = {vectors}: only the channel {FIXED!r} reads them: add --channels {FIXED} or "
            f"--channels {FIXED},{TRAINED}"
        )
    if words.unknown_words != ZERO and FIXED not in channels:
        raise InputError(
            f"unknown_words = {words.unknown_words}: only the channel {FIXED!r} has such words: leave it out, "
            f"or add --channels {FIXED}"
        )


def check_contextual(words: Words, views: Sequence[str], objective: str) -> None:
    """Raise InputError unless the contextual channel has an encoder, and the views and the objective can read it."""
    channels, encoder, pooling = words.channels, words.encoder, words.pooling
    if CONTEXTUAL not in channels:
        for name, value in (("encoder", encoder), ("word_pooling", pooling if pooling != MEAN else "")):
            if value:
                raise InputError(
                    f"{name} = {value}: only the channel {CONTEXTUAL!r} reads it: leave it out, or add "
                    f"--channels {CONTEXTUAL}"
                )
        return
    if not encoder:
        raise InputError(
            f"channels = {','.join(channels)}: the channel {CONTEXTUAL!r} needs a pretrained encoder: give a "
            "folder, or a name on the Hugging Face Hub, with --encoder"
        )
    EncoderName.of(encoder)
    if "words" in OBJECTIVES[objective].needs:
        raise InputError(
            f"objective = {objective}: predicts words of a vocabulary, and the channel {CONTEXTUAL!r} "
            "has none: choose another objective, such as pairwise, or other channels"
        )
    for name in views:
        if VIEWS[name].reads_frequencies:
            raise InputError(
                f"views = {','.join(views)}: {name!r} weights words by their frequency, and the channel "
                f"{CONTEXTUAL!r} has no words of a vocabulary: leave it out, or choose other channels"
            )
