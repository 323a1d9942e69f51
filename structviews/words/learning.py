"""Training word vectors on a parsed corpus, if no pretrained file is available."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.runtime.files import write_whole
from structviews.runtime.machine import available_bytes, check_memory
from structviews.runtime.seals import read_arrays, read_head, write_arrays
from structviews.runtime.terminal import OnProgress
from structviews.words.vector_files import save_vectors
from structviews.words.vocabulary import count_words, spelt
from structviews.words.word_settings import Word2VecConfig

REMEDY = "start over"
# Numbers of a vector are far below this; products of such numbers are finite.
LARGEST = 1e6
# What gensim takes for the list of a word's n-grams: an array, and four bytes each.
NGRAM_BYTES = 200


def read_state(path: Path, of: str) -> tuple[dict[str, np.ndarray], int]:
    """The arrays of a checkpoint and the number of epochs done; none and 0 unless it is there, and ``of`` the same."""
    try:
        notes = read_head(path, REMEDY).notes
        same = notes.get("of") == of and isinstance(notes.get("done"), int)
        return (read_arrays(path, REMEDY), notes["done"]) if same else ({}, 0)
    except InputError:  # missing, damaged, or of another way to learn
        return {}, 0


def _learnt(model: Any) -> dict[str, np.ndarray]:
    if hasattr(model.wv, "vectors_ngrams"):  # a word's vector is composed of its own and those of its n-grams
        return {"words": model.wv.vectors_vocab, "n-grams": model.wv.vectors_ngrams, "contexts": model.syn1neg}
    return {"words": model.wv.vectors, "contexts": model.syn1neg}


def check_name(out: Path, config: Word2VecConfig) -> None:
    """Raise InputError if a file of this name cannot hold such vectors."""
    if config.subwords and out.suffix != ".bin":
        raise InputError(f"{out}: subwords = {config.subwords} needs fastText's format: give a name that ends in .bin")


def learn_file(out: Path, corpus: ParsedCorpus, config: Word2VecConfig, progress: OnProgress | None = None) -> int:
    """Train word vectors on a corpus and write them to a file; return the number of words.

    If it is interrupted, the same call resumes after the last finished epoch, which ``.NAME.state`` beside the file
    holds until the end.
    """
    check_name(out, config)
    state = out.with_name(f".{out.name}.state")
    return write_model(out, learn_model(corpus, config, state, progress), state)


def write_model(out: Path, model: Any, state: Path) -> int:
    """Write gensim's model, atomically, and delete its checkpoint; return the number of words.

    With sub-words the file is in fastText's own format, else as ``save_vectors`` writes it.
    """
    if hasattr(model.wv, "vectors_ngrams"):
        from gensim.models.fasttext import save_facebook_model  # noqa: PLC0415 - an extra

        write_whole(out, lambda file: save_facebook_model(model, file))
    else:
        save_vectors(out, model.wv.index_to_key, model.wv.vectors)
    state.unlink(missing_ok=True)
    return len(model.wv)


def learn_model(corpus: ParsedCorpus, config: Word2VecConfig, state: Path, progress: OnProgress | None = None) -> Any:
    """Train word vectors on a corpus: gensim's ``Word2Vec`` or ``FastText``, words by descending frequency.

    After an interruption, the same call resumes after the last finished epoch; with one worker it gives the same bytes.
    Several workers write to the same vectors without locks, so that these differ from run to run. Words are used as
    they are, cased, unless the settings say otherwise. The checkpoint file ``state`` is written after each epoch.
    Raises InputError if gensim is missing or no word is frequent enough.
    """
    model = new_model(corpus, config)
    of, n = json.dumps([corpus.fingerprint, asdict(config)]), len(corpus)
    saved, done = read_state(state, of)
    for name, target in _learnt(model).items() if done else ():
        # gensim looks products up in a table, and crashes on NaN, also on one that large numbers lead to.
        if name not in saved or saved[name].shape != target.shape or not (np.abs(saved[name]) < LARGEST).all():
            done = 0
            break
        target[:] = saved[name]
    if done and hasattr(model.wv, "adjust_vectors"):
        model.wv.adjust_vectors()
    rates = np.linspace(model.alpha, model.min_alpha, config.epochs + 1).tolist()
    for epoch in range(done, config.epochs):
        # Seed each epoch separately, so that a resumed run draws the same numbers.
        model.random.seed([config.seed, epoch])
        errors = list[Exception]()
        sentences = _sentences(corpus, config.lower_case, epoch * n, config.epochs * n, progress, errors)
        model.train(sentences, total_examples=n, epochs=1, start_alpha=rates[epoch], end_alpha=rates[epoch + 1])
        if errors:
            raise errors[0]
        write_arrays(state, _learnt(model), {"of": of, "done": epoch + 1})
    return model


def _sentences(
    corpus: ParsedCorpus, uncased: bool, done: int, total: int, progress: OnProgress | None, errors: list[Exception]
) -> Iterator[list[str]]:
    """The sentences of a corpus as lists of words; ``done`` of ``total`` were read before.

    gensim iterates in its own thread and would hang if that failed, so an error ends the iteration.
    """
    try:
        for number in range(corpus.n_shards):
            table = corpus.shard(number)
            for lists in table["tokens"].chunks:
                forms = list(spelt(lists.values.dictionary.to_pylist(), uncased))
                words = np.array(forms, dtype=object)[lists.values.indices.to_numpy()]
                yield from (words[a:b].tolist() for a, b in pairwise(lists.offsets.to_numpy()))
            done += table.num_rows
            if progress:
                progress(done, total)
    except Exception as error:
        errors.append(error)


def require_gensim(otherwise: str = "") -> None:
    """Raise InputError unless gensim is installed; the message may end in what to do ``otherwise``."""
    try:
        import gensim  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise InputError(f"learning word vectors needs gensim: pip install 'structviews[vectors]'{otherwise}") from None


def new_model(corpus: ParsedCorpus, config: Word2VecConfig) -> Any:
    """gensim's model of the words of a corpus, by descending frequency, before it has vectors; see ``learn_model``."""
    require_gensim()
    from gensim.models import FastText, Word2Vec  # noqa: PLC0415 - an extra

    counts = count_words(corpus, config.lower_case)
    most_frequent = max(counts.values(), default=0)
    if most_frequent < config.min_count:
        fault = f"no word occurs {config.min_count} times"
        raise InputError(f"{corpus.path}: {fault}: use --min-count {most_frequent} or less")
    same = ("window", "negative", "min_count", "workers", "seed")  # by the same names
    settings = {"vector_size": config.dim, "sg": 1} | {name: getattr(config, name) for name in same}
    model = FastText(**settings, bucket=config.subwords) if config.subwords else Word2Vec(**settings)
    n_words = sum(count >= config.min_count for count in counts.values())
    needed = Word2Vec.estimate_memory(model, n_words)["total"]
    if config.subwords:  # the words' own vectors and those of n-grams, and the n-grams of each word
        needed += 4 * config.dim * (n_words + config.subwords) + NGRAM_BYTES * n_words
    what = f"dim = {config.dim}: vectors of {n_words:,} words"
    remedy = f"lower --dim{' or --subwords' * bool(config.subwords)}, or raise --min-count"
    check_memory(what, needed, available_bytes(), remedy)
    model.build_vocab_from_freq(counts, corpus_count=len(corpus))
    # gensim writes it to fastText's files, and knows it only of a corpus that it counts itself.
    model.corpus_total_words = counts.total()
    return model
