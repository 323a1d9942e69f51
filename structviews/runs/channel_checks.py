"""Which channels of words a run can have: what each needs, and what cannot read it."""

from collections.abc import Sequence

from structviews.errors import InputError
from structviews.objectives import OBJECTIVES
from structviews.pretrained.encoder_name import LAST, EncoderName
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


def check_encoder(words: Words, views: Sequence[str], objective: str) -> None:
    """Raise InputError unless there is a pretrained encoder where one is read, and the rest can read it too."""
    contextual, pieces = CONTEXTUAL in words.channels, [name for name in views if VIEWS[name].reads_pieces]
    named = [("encoder", words.encoder, contextual or bool(pieces))]
    named += [("word_pooling", words.pooling if words.pooling != MEAN else "", contextual)]
    for name, value, read in named:
        if value and not read:
            also = " and the view 'transformer' read" if name == "encoder" else " reads"
            raise InputError(
                f"{name} = {value}: only the channel {CONTEXTUAL!r}{also} it: leave it out, or add "
                f"--channels {CONTEXTUAL}"
            )
    if (contextual or pieces) and not words.encoder:
        reader = f"the view {pieces[0]!r}" if pieces else f"the channel {CONTEXTUAL!r}"
        raise InputError(
            f"{'views' if pieces else 'channels'} = {','.join(views if pieces else words.channels)}: {reader} needs a "
            "pretrained encoder: give a folder, or a name on the Hugging Face Hub, with --encoder"
        )
    if pieces:
        _check_pieces(words, views, pieces[0], objective)
    if contextual:
        EncoderName.of(words.encoder)
        _check_contextual(views, objective)


def _check_pieces(words: Words, views: Sequence[str], view: str, objective: str) -> None:
    """Raise InputError unless the settings of words suit a view that reads none."""
    listed = ",".join(views)
    if len(words.channels) > 1:
        raise InputError(
            f"channels = {','.join(words.channels)}: the view {view!r} reads no channel's words, and would be trained "
            "once for each: name one channel"
        )
    if CONTEXTUAL not in words.channels and EncoderName.of(words.encoder).layers != LAST:
        raise InputError(
            f"encoder = {words.encoder}: the view {view!r} reads the last layer, and only the channel {CONTEXTUAL!r} "
            "reads others: leave them out"
        )
    reads_words = any(VIEWS[name].learns and not VIEWS[name].reads_pieces for name in views)
    if words.channels == (TRAINED,) and not reads_words:
        for name in views:
            if not VIEWS[name].learns:
                raise InputError(
                    f"views = {listed}: {name!r} reads the words that another view learns, and none of them learns "
                    f"any: leave it out, or add --channels {FIXED}"
                )
        if "words" in OBJECTIVES[objective].needs:
            raise InputError(
                f"objective = {objective}: predicts words of a vocabulary, and no view of {listed} has one: choose "
                "another objective, such as pairwise, or add a view"
            )


def _check_contextual(views: Sequence[str], objective: str) -> None:
    """Raise InputError unless the objective and the views need no words of a vocabulary."""
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
