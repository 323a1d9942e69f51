"""A teacher's vectors of single words: a file of word vectors without training.

Shapes: V words, d dimensions of a vector, T of the teacher's.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.pretrained.sentence_models import Teacher
from structviews.runtime.terminal import OnProgress
from structviews.words.learning import check_name, new_model, write_model
from structviews.words.sub_words import SubWords, hashed_ngrams
from structviews.words.vocabulary import smooth_inverse
from structviews.words.word_settings import Word2VecConfig

# Words that a teacher reads at once.
AT_ONCE = 2048
# Of 52,351 words with 60,000 rows, a tenth that is left out of the fit is composed at a mean cosine of 0.54.
RIDGE, ITERATIONS, TINY = 0.03, 15, 1e-30


def take_file(
    out: Path, corpus: ParsedCorpus, config: Word2VecConfig, teacher: Teacher, progress: OnProgress | None = None
) -> int:
    """Write a teacher's vectors of a corpus's words to a file, see ``write_model``; return the number of words."""
    check_name(out, config)
    model = taught_model(corpus, config, teacher, progress)
    write_model(out, model)
    return len(model.wv)


def taught_model(
    corpus: ParsedCorpus, config: Word2VecConfig, teacher: Teacher, progress: OnProgress | None = None
) -> Any:
    """A teacher's vectors of single words, as a bag of words needs them (after model2vec, Tulkens and van Dongen 2024).

    They are centred, reduced to their first d principal components, and weighted by the smooth inverse frequency
    a / (a + p(w)) of each word (Arora et al. 2017, algorithm 1), so that their plain mean is a sentence's vector.
    N-grams get the vectors whose means are nearest to the words', which are not weighted: further words are rare.

    Returns:
        gensim's ``Word2Vec`` or ``FastText``, words by descending frequency.

    Raises:
        InputError: if gensim is missing, no word is frequent enough, or the teacher has fewer dimensions.
    """
    if config.dim > teacher.dim:
        raise InputError(f"dim = {config.dim}: more than the {teacher.dim} dimensions of {teacher.name}: lower --dim")
    model, found = new_model(corpus, config), []
    words: list[str] = model.wv.index_to_key
    for start in range(0, len(words), AT_ONCE):
        found.append(teacher.states([[word] for word in words[start : start + AT_ONCE]]).cpu().numpy())
        if progress:
            progress(min(start + AT_ONCE, len(words)), len(words))
    vectors = principal(np.concatenate(found), config.dim)
    counts = np.array([model.wv.get_vecattr(word, "count") for word in words])
    weighted = smooth_inverse(counts / model.corpus_total_words)[:, None] * vectors
    model.init_weights()
    if not config.subwords:
        model.wv.vectors[:] = weighted
        return model
    sub_words = SubWords(model.wv.vectors_ngrams, None, model.wv.min_n, model.wv.max_n)
    fit_ngrams(sub_words, words, vectors)
    # A word's vector is the mean of its own and its n-grams' rows.
    sums, sizes = sub_words.sums([word.encode() for word in words])
    model.wv.vectors_vocab[:] = (sizes + 1)[:, None] * weighted - sums
    model.wv.adjust_vectors()
    return model


def principal(vectors: np.ndarray, dim: int) -> np.ndarray:
    """Vectors ``(V, T)``, centred, by their first principal components ``(V, dim)``, float32."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    _, directions = np.linalg.eigh(centred.T @ centred)  # in ascending order of variance
    return (centred @ directions[:, ::-1][:, :dim]).astype(np.float32)


def fit_ngrams(sub_words: SubWords, words: Sequence[str], vectors: np.ndarray) -> None:
    """Set the rows of n-grams so that a word's mean of them is near its vector ``(V, d)``: ridge regression.

    Solved by conjugate gradients for all dimensions at once.
    """
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - gensim brings it

    rows = sub_words.rows
    hashes, sizes = hashed_ngrams([word.encode() for word in words], sub_words.shortest, sub_words.longest)
    shares = np.repeat(1 / np.maximum(sizes, 1), sizes).astype(np.float32)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    means = csr_matrix((shares, (hashes % len(rows)).astype(np.int64), bounds), shape=(len(words), len(rows)))
    rows[:] = 0
    left = means.T @ vectors
    step, size = left.copy(), np.square(left).sum(axis=0)
    for _ in range(ITERATIONS):
        product = means.T @ (means @ step) + RIDGE * step
        length = size / np.maximum((step * product).sum(axis=0), TINY)
        rows += length * step
        left -= length * product
        before, size = size, np.square(left).sum(axis=0)
        step = left + size / np.maximum(before, TINY) * step
