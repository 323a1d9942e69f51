"""The settings of a run's words; imports no more than flags need."""

from dataclasses import dataclass

from structviews.errors import InputError
from structviews.settings import MOST_DIMENSIONS, Settings, setting
from structviews.words import CHANNELS, TRAINED

# The initial range of word vectors that leaves it to each view, see ``word_init`` of ``model.Channel``.
VIEWS_OWN = -1.0
# What stands for words without a fixed vector.
ZERO, RANDOM = "zero", "random"
# How the states of a word's pieces become its vector.
MEAN, FIRST = "mean", "first"


@dataclass(frozen=True)
class Words(Settings):
    """Where word vectors come from."""

    channels: tuple[str, ...] = setting(
        (TRAINED,), "Word vectors: trained, fixed, contextual, or several, such as fixed,trained.", choices=CHANNELS
    )
    vectors: str = setting("", "File for the fixed channel: GloVe, word2vec or fastText.", path=True, compare=False)
    encoder: str = setting(
        "",
        "Pretrained encoder, which the channel contextual reads and the view transformer begins from: a folder or an "
        "id on the Hugging Face Hub; for the channel with layers, such as roberta-base:-4..-1.",
        compare=False,
        metavar="ENCODER[:LAYERS]",
    )
    pooling: str = setting(
        MEAN,
        "Vector of a word in the contextual channel: the mean of its pieces, or the first.",
        flat="word_pooling",
        choices=(MEAN, FIRST),
    )
    dim: int = setting(300, "Dimension of trained word vectors.", flat="word_dim", least=1, most=MOST_DIMENSIONS)
    init: float = setting(
        VIEWS_OWN,
        "Initialise trained word vectors from U(-x, x); 0 is Xavier; -1 is Xavier for the view bow, else 0.5.",
        flat="word_init",
        least=VIEWS_OWN,
        most=1000,
        metavar="X",
    )
    vocabulary: int = setting(50_000, "Vocabulary size: the most frequent words.", least=1, most=100_000_000)
    unknown_words: str = setting(
        ZERO,
        "Fixed vector of words without one: zero, or random (from U(0, 1)).",
        choices=(ZERO, RANDOM),
        rare=True,
    )
    cut_off: int = setting(
        0,
        "Train on the first N words of each sentence; 0 for all. Not with views that read trees.",
        least=0,
        most=1_000_000,
        rare=True,
        metavar="N",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if VIEWS_OWN < self.init < 0:
            raise InputError(f"word_init = {self.init}: give a number at least 0, or {VIEWS_OWN:g}")
