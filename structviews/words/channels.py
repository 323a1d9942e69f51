"""Vocabularies and fixed vectors of a run's channels (quick-thoughts 4.4.1, structured views 4.1)."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.words import FIXED
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import Vocabulary


def corpus_words(
    channels: Sequence[str],
    corpus: ParsedCorpus,
    vectors: WordVectors | None,
    size: int,
    unknown: np.random.Generator | None = None,
) -> tuple[dict[str, Vocabulary], Tensor | None]:
    """The vocabulary of each channel on a corpus, and the fixed channel's table (see ``fixed_words``) or None.

    Args:
        channels: names of the channels.
        corpus: the corpus.
        vectors: word vectors of the fixed channel, if there is one.
        size: vocabulary size of the trained channel, which keeps the most frequent words.
        unknown: see ``fixed_words``.
    """
    vocabularies, table = {}, None
    for channel in channels:
        if vectors and channel == FIXED:
            vocabularies[channel], table = fixed_words(corpus, vectors, unknown)
        else:
            vocabularies[channel] = Vocabulary.of_corpus(corpus, size)
    return vocabularies, table


def fixed_words(
    corpus: ParsedCorpus, vectors: WordVectors, unknown: np.random.Generator | None = None
) -> tuple[Vocabulary, Tensor]:
    """The words of a corpus that have a vector, and the table ``(words, dim)`` of these vectors.

    The first row is for all unknown words. It is zeros (multi-view, supplement 4) or drawn from U(0, 1), as the
    quick-thoughts authors' code does. Like every row, the run keeps it for test time.

    Args:
        corpus: the corpus.
        vectors: the word vectors.
        unknown: draws the vector of unknown words; None for zeros.

    Raises:
        InputError: if the file has no word of the corpus.
    """
    every = Vocabulary.of_corpus(corpus, uncased=vectors.uncased)
    places = vectors.find(every.words[1:])
    if (places < 0).all():
        raise InputError(f"{vectors.path}: has no word of {corpus.path}: give vectors for its language")
    known = np.concatenate([[True], places >= 0])
    words = [word for word, keep in zip(every.words, known.tolist(), strict=True) if keep]
    occurrences = np.array(every.counts)
    counts = occurrences[known]
    counts[0] += occurrences[~known].sum()
    table = vectors.rows(np.concatenate([[-1], places[places >= 0]]))
    if unknown:
        table[0] = unknown.random(vectors.dim)
    return Vocabulary(words, counts, vectors.uncased), torch.from_numpy(table)
