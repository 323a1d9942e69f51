"""Word vectors learnt on a parsed corpus, where no pretrained file is at hand."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from structviews.cache import ParsedCorpus, write_whole
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
    """The sentences of a corpus as lists of words, shard by shard, as often as they are asked for.

    gensim reads them in a thread of its own and would wait for ever for one that failed, so an error ends
    them and is kept in ``error``.
    """

    def __init__(self, corpus: ParsedCorpus, done: int, total: int, progress: Progress | None):
        self.error: Exception | None = None
        self._corpus = corpus
        self._done = done
        self._total = total
        self._progress = progress

    def __iter__(self) -> Iterator[list[str]]:
        try:
            yield from self._read()
        except Exception as error:
            self.error = error

    def _read(self) -> Iterator[list[str]]:
        for number in range(self._corpus.n_shards):
            table = self._corpus.shard(number)
            for lists in table["tokens"].chunks:
                words = np.array(lists.values.dictionary.to_pylist(), dtype=object)[lists.values.indices.to_numpy()]
                yield from (words[a:b].tolist() for a, b in pairwise(lists.offsets.to_numpy()))
            self._done += table.num_rows
            if self._progress:
                self._progress(self._done, self._total)


class _Epochs:
    """The state after each epoch, in a file: what an interrupted run goes on from.

    Args:
        path: the file.
        corpus, config: what the state is of.
    """

    def __init__(self, path: Path, corpus: ParsedCorpus, config: Word2VecConfig):
        self._path = path
        self._of = json.dumps([corpus.fingerprint, asdict(config)])

    def save(self, model: Any, done: int) -> None:
        content = save(
            {"words": model.wv.vectors, "contexts": model.syn1neg}, metadata={"of": self._of, "done": str(done)}
        )
        write_whole(self._path, lambda file: file.write(content))

    def restore(self, model: Any) -> int:
        """Bring a model to the last state that is there; the number of epochs that it has."""
        try:
            with safe_open(self._path, "np") as file:
                notes = file.metadata() or {}
                if notes.get("of") != self._of:
                    return 0
                model.wv.vectors[:] = file.get_tensor("words")
                model.syn1neg[:] = file.get_tensor("contexts")
                return int(notes["done"])
        except (OSError, SafetensorError):  # none there, or not ours
            return 0


def learn_vectors(
    corpus: ParsedCorpus, config: Word2VecConfig, state: Path, progress: Progress | None = None
) -> tuple[list[str], np.ndarray]:
    """Learn word vectors on a corpus with gensim; only words and vectors are held in memory.

    Interrupted, the same call goes on after the last epoch that was finished.

    Args:
        corpus: its words are taken as they are, cased.
        config: the settings.
        state: file for the state after each epoch, to be deleted when the vectors are saved.
        progress: called with the number of sentences read and how often one will be.

    Returns:
        The words ``(V,)``, the most frequent first, and their vectors ``(V, dim)``, float32.

    Raises:
        InputError: without gensim, or if no word is frequent enough.
    """
    model = _new_model(corpus, config)
    epochs = _Epochs(state, corpus, config)
    done, n = epochs.restore(model), len(corpus)
    rates = np.linspace(model.alpha, model.min_alpha, config.epochs + 1).tolist()
    for epoch in range(done, config.epochs):
        # Numbers of its own for each epoch, so that none hangs on those before.
        model.random.seed([config.seed, epoch])
        sentences = _Sentences(corpus, epoch * n, config.epochs * n, progress)
        model.train(sentences, total_examples=n, epochs=1, start_alpha=rates[epoch], end_alpha=rates[epoch + 1])
        if sentences.error:
            raise sentences.error
        epochs.save(model, epoch + 1)
    return list(model.wv.index_to_key), model.wv.vectors


def _new_model(corpus: ParsedCorpus, config: Word2VecConfig) -> Any:
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
    return model
