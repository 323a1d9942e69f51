"""A teacher's words: its vectors of single words, or trained so that their mean agrees with its vector of a sentence.

Shapes: V words, d dimensions of a vector, T of the teacher's.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import nn

from structviews.batches.reader import CorpusReader, epoch_batches, n_batches, prefetch
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding.representation import normalised
from structviews.errors import InputError
from structviews.objectives.objective import Context, Inputs
from structviews.objectives.teacher import TeacherAgreement, TeacherConfig
from structviews.pretrained.sentence_models import Teacher
from structviews.pretrained.stored_states import StoredStates
from structviews.runtime.seals import write_arrays
from structviews.runtime.terminal import OnProgress
from structviews.training.optimiser import LazyAdam
from structviews.words.learning import check_name, new_model, read_state, write_model
from structviews.words.sub_words import SubWords, hashed_ngrams
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import UNKNOWN, Vocabulary, smooth_inverse
from structviews.words.word_settings import Word2VecConfig

WORDS = "words"
# Of the training: sentences in a batch, and the highest learning rates, to which they rise over the first steps.
BATCH, RATES, WARM_UP = 1024, {WORDS: 2e-3, "map": 1e-3}, 100
# Words that a teacher reads at once.
AT_ONCE = 2048
# Of 52,351 words with 60,000 rows, a tenth that is left out of the fit is composed at a mean cosine of 0.54.
RIDGE, ITERATIONS, TINY = 0.03, 15, 1e-30
# Root mean square of other words' vectors, as a share of the teacher's: features gain, and cosines stay the teacher's.
BESIDE = 0.2


def take_file(
    out: Path,
    corpus: ParsedCorpus,
    config: Word2VecConfig,
    teacher: Teacher,
    epochs: int = 0,
    progress: OnProgress | None = None,
    beside: WordVectors | None = None,
) -> int:
    """Write a teacher's vectors of single words to a file, as ``learn_file`` does; return the number of words.

    They are made for a bag of words (after model2vec, Tulkens and van Dongen 2024): centred, reduced to their first d
    principal components, and weighted by the smooth inverse frequency a / (a + p(w)) of each word (Arora et al. 2017,
    algorithm 1), so that their plain mean is a sentence's vector. Then they are trained for some ``epochs``, see
    ``trained``. N-grams get the vectors whose means are nearest to the words', without the weights: further words are
    rare. A word's vector in the file ``beside``, if one is given, scaled as ``scaled_beside`` says, comes after the
    teacher's.

    Raises InputError as ``learn_file``; or if the teacher has fewer dimensions, or its vectors of the corpus's
    sentences, which the training needs, are not stored.
    """
    check_name(out, config)
    if config.dim > teacher.dim:
        raise InputError(f"dim = {config.dim}: more than the {teacher.dim} dimensions of {teacher.name}: lower --dim")
    state = out.with_name(f".{out.name}.state")
    model = new_model(corpus, replace(config, dim=config.dim + (beside.dim if beside else 0)))
    found = []
    words: list[str] = model.wv.index_to_key
    for start in range(0, len(words), AT_ONCE):
        found.append(teacher.states([[word] for word in words[start : start + AT_ONCE]]).cpu().numpy())
        if progress and not epochs:
            progress(min(start + AT_ONCE, len(words)), len(words))
    alone = np.concatenate(found)
    centred = alone - alone.mean(axis=0)
    directions = principal(centred, config.dim)
    vectors = centred @ directions
    counts = np.array([model.wv.get_vecattr(word, "count") for word in words])[:, None]
    weights = smooth_inverse(counts / model.corpus_total_words).astype(np.float32)
    weighted = weights * vectors
    if epochs:
        vocabulary = Vocabulary([UNKNOWN, *words], uncased=config.lower_case)
        mapped = trained(corpus, vocabulary, teacher, config.seed, weighted, directions, epochs, state, progress)
        weighted = mapped @ principal(np.sqrt(counts) * mapped, config.dim)  # of the words of a text
        vectors = weighted / weights
    if beside:
        further = scaled_beside(beside, words, counts, weighted)
        weighted, vectors = (np.concatenate([each, further], axis=1) for each in (weighted, vectors))
    model.init_weights()
    if config.subwords:
        sub_words = SubWords(model.wv.vectors_ngrams, None, model.wv.min_n, model.wv.max_n)
        fit_ngrams(sub_words, words, vectors)
        # A word's vector is the mean of its own and its n-grams' rows.
        sums, sizes = sub_words.sums([word.encode() for word in words])
        model.wv.vectors_vocab[:] = (sizes + 1)[:, None] * weighted - sums
        model.wv.adjust_vectors()
    else:
        model.wv.vectors[:] = weighted
    return write_model(out, model, state)


def trained(
    corpus: ParsedCorpus,
    vocabulary: Vocabulary,
    teacher: Teacher,
    seed: int,
    words: np.ndarray,
    directions: np.ndarray,
    epochs: int,
    state: Path,
    progress: OnProgress | None = None,
) -> np.ndarray:
    """Words' vectors ``(V, d)``, trained and mapped to the teacher's space ``(V, T)``, where their means agree.

    A linear map of the mean of a sentence's words, which begins as the ``directions (T, d)`` that the words were
    reduced to, is to agree with the teacher's vector as the objective ``teacher`` says; known words alone count. This
    is what a static table can keep of the teacher (tokenlearn, Tulkens and van Dongen 2024). The checkpoint file
    ``state`` is written after each epoch, and the same call resumes from it. Raises InputError if the teacher's vectors
    of the sentences are not stored.
    """
    reader = CorpusReader(corpus, {WORDS: vocabulary}, (), teacher=StoredStates.of_teacher(corpus, teacher))
    size, dim = words.shape
    table = nn.EmbeddingBag(size + 1, dim, mode="mean", sparse=True, padding_idx=0)
    agreement = TeacherAgreement(Inputs((WORDS,), (dim,), teacher_dim=len(directions)), TeacherConfig())
    to_teacher = cast("nn.Linear", agreement.maps[0])
    to_teacher.register_parameter("bias", None)  # so that the mean of mapped words is the mapped mean
    learnt = {WORDS: table.weight, "map": to_teacher.weight}
    with torch.no_grad():
        table.weight[0] = 0
        table.weight[1:] = torch.from_numpy(words)
        to_teacher.weight.copy_(torch.from_numpy(directions))
    optimiser = LazyAdam([{"params": [learnt[name]], "name": name} for name in learnt], 0)
    of = json.dumps([corpus.fingerprint, teacher.about, seed, len(vocabulary), vocabulary.uncased, epochs, dim])
    rows = np.arange(len(reader))
    ends = np.cumsum([n_batches(len(rows), BATCH, seed, epoch) for epoch in range(epochs)]).tolist()
    saved, done = read_state(state, of)
    for name, parameter in learnt.items() if done else ():
        own = {key: torch.from_numpy(each) for key, each in saved.items() if key.split()[0] == name}
        with torch.no_grad():
            parameter.copy_(own.pop(name))
        optimiser.state[parameter] = {key.removeprefix(f"{name} "): each for key, each in own.items()}
    for epoch in range(done, epochs):
        drawn = epoch_batches(rows, BATCH, seed, epoch, shuffled=True)
        for step, batch in enumerate(prefetch(map(reader.batch, drawn)), [0, *ends][epoch]):
            for group in optimiser.param_groups:
                group["lr"] = RATES[group["name"]] * min(1, (step + 1) / WARM_UP) * (1 - step / ends[-1])
            ids = batch.ids[WORDS]
            means = table(ids.distinct[ids.inverse], batch.offsets[:-1])
            loss, _ = agreement([means], Context(batch.position[:, None], teacher=batch.teacher))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if progress:
                progress(epochs * len(rows) * (step + 1) // ends[-1], epochs * len(rows))
        moments = {f"{name} {key}": each for name in learnt for key, each in optimiser.state[learnt[name]].items()}
        write_arrays(state, learnt | moments, {"of": of, "done": epoch + 1})
    return (table.weight[1:] @ to_teacher.weight.T).detach().numpy()


def principal(vectors: np.ndarray, dim: int) -> np.ndarray:
    """The first directions ``(T, dim)``, float32, of vectors ``(V, T)``: those of the greatest mean square."""
    product = vectors.T.astype(np.float64) @ vectors.astype(np.float64)
    return np.linalg.eigh(product)[1][:, ::-1][:, :dim].astype(np.float32)  # eigh's are in ascending order


def scaled_beside(beside: WordVectors, words: Sequence[str], counts: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The vectors ``(V, dim)`` of words in a file, all of one length; 0 for those that it does not have.

    Function words, which a teacher's weights all but silence, are as loud as others here. Over a text, with ``counts
    (V, 1)`` of the words, their root mean square is ``BESIDE`` times that of a teacher's ``own (V, d)``.
    """
    has_vector, found = beside.read(words)
    vectors = np.zeros((len(words), beside.dim), np.float32)
    vectors[has_vector] = normalised(found)
    squares = [(counts * np.square(each)).sum() for each in (own, vectors)]
    return vectors * np.float32(BESIDE * np.sqrt(squares[0] / max(squares[1], TINY)))


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
