"""Word vectors learnt on a parsed corpus, where no pretrained file is at hand."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from structviews.cache import ParsedCorpus
from structviews.errors import InputError
from structviews.vocabulary import count_words

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Word2VecConfig:
    """Settings of word2vec's skip-gram with negative sampling (Mikolov et al. 2013).

    Attributes:
        dim: length of a vector.
        window: how many words to each side are predicted, at most.
        negative: words drawn for each that is predicted.
        min_count: rarer words get no vector.
        epochs: passes over the corpus.
        workers: threads; the same vectors come out again with one alone.
        seed: of everything random.
    """

    dim: int = 300
    window: int = 5
    negative: int = 5
    min_count: int = 5
    epochs: int = 5
    workers: int = 1
    seed: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < (name != "seed"):
                raise InputError(f"{name} = {value}: give at least {int(name != 'seed')}")


class _Sentences:
    """The sentences of a corpus as lists of words, shard by shard, as often as they are asked for."""

    def __init__(self, corpus: ParsedCorpus, passes: int, progress: Progress | None):
        self._corpus = corpus
        self._total = passes * len(corpus)
        self._done = 0
        self._progress = progress

    def __iter__(self) -> Iterator[list[str]]:
        for number in range(self._corpus.n_shards):
            table = self._corpus.shard(number)
            for lists in table["tokens"].chunks:
                words = np.array(lists.values.dictionary.to_pylist(), dtype=object)[lists.values.indices.to_numpy()]
                offsets = lists.offsets.to_numpy()
                yield from (words[a:b].tolist() for a, b in pairwise(offsets))
            self._done += table.num_rows
            if self._progress:
                self._progress(self._done, self._total)


def learn_vectors(
    corpus: ParsedCorpus, config: Word2VecConfig, progress: Progress | None = None
) -> tuple[list[str], np.ndarray]:
    """Learn word vectors on a corpus with gensim; only words and vectors are held in memory.

    Args:
        corpus: its words are taken as they are, cased.
        config: the settings.
        progress: called with the number of sentences read and how often one will be.

    Returns:
        The words ``(V,)``, the most frequent first, and their vectors ``(V, dim)``, float32.

    Raises:
        InputError: without gensim, or if no word is frequent enough.
    """
    try:
        from gensim.models import Word2Vec  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError("learning word vectors needs gensim: pip install 'structviews[vectors]'") from None
    counts = count_words(corpus)
    most_frequent = max(counts.values(), default=0)
    if most_frequent < config.min_count:
        raise InputError(
            f"{corpus.path}: no word occurs {config.min_count} times: give at most --min-count {most_frequent}"
        )
    model = Word2Vec(
        vector_size=config.dim,
        window=config.window,
        negative=config.negative,
        min_count=config.min_count,
        workers=config.workers,
        seed=config.seed,
        sg=1,
    )
    model.build_vocab_from_freq(counts, corpus_count=len(corpus))
    sentences = _Sentences(corpus, config.epochs, progress)
    model.train(sentences, total_examples=len(corpus), epochs=config.epochs)
    return list(model.wv.index_to_key), model.wv.vectors
