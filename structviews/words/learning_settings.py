"""The settings of learning word vectors; imports no more than flags need."""

from dataclasses import dataclass

from structviews.settings import LARGEST_SEED, MOST_DIMENSIONS, MOST_EPOCHS, Settings, setting

# Fifty times fastText's default: 120 GB with 300 dimensions.
MOST_BUCKETS = 100_000_000


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
        "Learn vectors of character n-grams too, in N rows, of which unknown words are composed; 0 for none.",
        least=0,
        most=MOST_BUCKETS,
        metavar="N",
    )
    epochs: int = setting(5, "Passes over the corpus.", least=1, most=MOST_EPOCHS)
    workers: int = setting(
        1,
        "Number of threads; with more than 1, vectors differ from run to run.",
        least=1,
        most=1024,
    )
    seed: int = setting(1, "Random seed.", least=0, most=LARGEST_SEED)
