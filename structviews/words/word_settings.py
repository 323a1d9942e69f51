"""The settings of a run's words and of learning word vectors; imports no more than flags need."""

from dataclasses import dataclass

from structviews.errors import InputError
from structviews.settings import LARGEST_SEED, MOST_DIMENSIONS, MOST_EPOCHS, Settings, setting
from structviews.words import CHANNELS, TRAINED

# The initial range of word vectors that leaves it to each view, see ``model.Channel``.
VIEWS_OWN = -1.0
# What stands for words without a fixed vector.
ZERO, RANDOM = "zero", "random"
# How the states of a word's pieces become its vector.
MEAN, FIRST = "mean", "first"
# Fifty times fastText's default: 120 GB with 300 dimensions.
MOST_BUCKETS = 100_000_000


@dataclass(frozen=True)
class Words(Settings):
    """Where word vectors come from."""

    channels: tuple[str, ...] = setting(
        (TRAINED,), "Word vectors: trained, fixed, contextual, or several, such as fixed,trained.", choices=CHANNELS
    )
    vectors: str = setting("", "File for the fixed channel: GloVe, word2vec or fastText.", path=True, compare=False)
    encoder: str = setting(
        "",
        "Pretrained encoder of the channel contextual or the view transformer: a folder, or an id on the Hugging Face "
        "Hub; for the channel also with layers, such as roberta-base:-4..-1.",
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
        ZERO, "Fixed vector of words without one: zero, or random (from U(0, 1)).", choices=(ZERO, RANDOM), rare=True
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


@dataclass(frozen=True)
class Word2VecConfig(Settings):
    """Settings of word2vec's skip-gram with negative sampling (Mikolov et al. 2013); fastText's with sub-words."""

    dim: int = setting(300, "Dimension of the vectors.", least=1, most=MOST_DIMENSIONS)
    window: int = setting(5, "Number of context words on each side.", least=1, most=1000)
    negative: int = setting(5, "Negative samples per context word.", least=1, most=1000)
    min_count: int = setting(5, "Ignore words with fewer occurrences.", least=1, most=1_000_000_000)
    lower_case: bool = setting(
        False, "Learn vectors of lower-cased words; a file without capitals is looked up in lower case."
    )
    subwords: int = setting(
        0,
        "Learn vectors of character n-grams too, in N rows, from which unknown words are composed; 0 for none.",
        least=0,
        most=MOST_BUCKETS,
        metavar="N",
    )
    epochs: int = setting(5, "Passes over the corpus.", least=1, most=MOST_EPOCHS)
    workers: int = setting(
        1, "Number of threads; with more than 1, vectors differ from run to run.", least=1, most=1024
    )
    seed: int = setting(1, "Random seed.", least=0, most=LARGEST_SEED)
