"""Readers of word vectors, sentence vectors, and of what encoding and searching keep."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import vector_files
from corpora import RandomParser, opened, topic_corpus
from readers import CACHE, SEALED, TEXT, Shared, half_done, reader
from tiny_encoders import encoder_folder, in_shards

from structviews.encoding import streaming
from structviews.encoding.embedder import Embedder
from structviews.evaluation.retrieval import captions
from structviews.evaluation.retrieval.analogy import read_tuples
from structviews.evaluation.retrieval.candidates import Pool, pool_vectors
from structviews.pretrained.states import FrozenEncoder
from structviews.pretrained.stored_states import StoredStates, store_states
from structviews.report.projection import read_labels
from structviews.runs.weights import load_sub_words, save_sub_words
from structviews.words.learning import Word2VecConfig, learn_model
from structviews.words.sub_words import SubWords
from structviews.words.vector_files import WordVectors

WORDS = ["the", "of", "cat", "naïve", "dog", "x"]
LINES = [f"the topic0-{i % 4} of it" for i in range(10)]


def everything(path: Path) -> Any:
    vectors = WordVectors.open(path)
    return vectors.words.to_pylist(), vectors.rows(np.arange(len(vectors))), vectors.fingerprint


def in_form(form: Any) -> Any:
    return lambda folder, shared: vector_files.write_vectors(folder / "v.vec", WORDS, form=form)


for each in (vector_files.glove, vector_files.word2vec_text, vector_files.word2vec_binary, vector_files.gzipped):
    name = f"word-vectors-{each.__name__.replace('_', '-')}"
    reader(TEXT, "v.vec", in_form(each), name=name)(lambda folder: everything(folder / "v.vec"))


def with_sub_words(folder: Path, shared: Shared) -> None:
    rows = vector_files.random_vectors(range(len(WORDS) + 9))
    (folder / "v.bin").write_bytes(vector_files.fasttext_model(WORDS, rows))


@reader(TEXT, "v.bin", with_sub_words)
def word_vectors_fasttext_model(folder: Path) -> Any:
    return everything(folder / "v.bin"), WordVectors.open(folder / "v.bin").read(["unheard", "the", "of it"])


def packed_sub_words(folder: Path, shared: Shared) -> None:
    save_sub_words(folder, SubWords(vector_files.random_vectors(range(9)), None, 3, 6))


@reader(SEALED, "sub-words.safetensors", packed_sub_words)
def sub_words(folder: Path) -> Any:
    return load_sub_words(folder, 5).read(["unheard", "the"])


def encoders(folder: Path, shared: Shared) -> None:
    in_shards(encoder_folder(folder / "tiny"), folder / "shards")


@reader(TEXT, "tiny/config.json tiny/*.safetensors tiny/token*.json shards/*.index.json", encoders, named="tiny shards")
def pretrained_encoder(folder: Path) -> Any:
    return [FrozenEncoder.open(str(folder / name), "mean").states([["the", "film"]]) for name in ("tiny", "shards")]


def stored(folder: Path, shared: Shared) -> None:
    encoder_folder(folder / "tiny")
    topic_corpus(folder / "x.parsed", documents=4)
    store_states(opened(folder / "x.parsed"), FrozenEncoder.open(str(folder / "tiny"), "mean"), lambda *told: None)


@reader(CACHE, "x.parsed.states/*/*", stored, missing=(None,))
def stored_states(folder: Path) -> Any:
    corpus = opened(folder / "x.parsed")
    found = StoredStates.find(corpus, FrozenEncoder.open(str(folder / "tiny"), "mean"))
    return found and [np.array(found.shard(number)) for number in range(corpus.n_shards)]


def converted(folder: Path, shared: Shared) -> None:
    everything(vector_files.write_vectors(folder / "v.vec", WORDS))


@reader(CACHE, "v.vec.arrow", converted)
def word_vectors_cache(folder: Path) -> Any:
    return everything(folder / "v.vec")


def half_learnt(folder: Path, shared: Shared) -> None:
    topic_corpus(folder / "corpus", documents=2)
    half_done(lambda stop: learn(folder, stop))


@reader(CACHE, "v.vec.state", half_learnt, name="half-learnt-vectors")
def learn(folder: Path, progress: Any = None) -> Any:
    config = Word2VecConfig(dim=4, min_count=1, epochs=3)
    words = learn_model(opened(folder / "corpus"), config, folder / "v.vec.state", progress).wv
    return words.index_to_key, words.vectors


def embedder(folder: Path) -> Embedder:
    return Embedder.load(folder / "run", RandomParser())


def to_encode(folder: Path, shared: Shared) -> None:
    shared.run(folder / "run", views=("seq", "avg"))
    (folder / "x.txt").write_text("\n".join(LINES) + "\n")


def half_encoded(folder: Path, shared: Shared) -> None:
    to_encode(folder, shared)
    half_done(lambda stop: encode(folder, stop))


@reader(CACHE, ".x.npy.*.partial .x.npy.*.digests", half_encoded, name="partial-encoding", named="x.npy")
@reader(TEXT, "x.txt", to_encode, name="text-to-encode", named="x.npy")
def encode(folder: Path, progress: Any = None) -> bytes:
    with mock.patch.object(streaming, "AT_ONCE", 2), streaming.open_text(folder / "x.txt") as text:
        streaming.encode_text(text, embedder(folder), folder / "x.npy", tokenised=True, progress=progress)
    return (folder / "x.npy").read_bytes()


def searched(folder: Path, shared: Shared) -> None:
    shared.run(folder / "run", views=("seq", "avg"))
    (folder / "pool.txt").write_text("\n".join([*LINES, "a b", "", "c d"]) + "\n")
    search(folder)


@reader(CACHE, "pool.txt.vectors/*", searched, name="pool-of-vectors")
@reader(TEXT, "pool.txt", searched, name="pool-of-sentences")
def search(folder: Path) -> np.ndarray:
    return pool_vectors(Pool(folder / "pool.txt", tokenised=True), folder / "run", embedder(folder))


def labelled(folder: Path, shared: Shared) -> None:
    (folder / "pool.txt").write_text("a b\nc d\n\ne f\n")
    (folder / "labels.txt").write_text("news\nnovels\n\nnews\n")


@reader(TEXT, "labels.txt", labelled, named=":")
def labels(folder: Path) -> Any:
    pool = Pool(folder / "pool.txt", tokenised=True)
    return read_labels(folder / "labels.txt", pool, np.arange(len(pool)))


def analogies_file(folder: Path, shared: Shared) -> None:
    (folder / "pool.txt").write_text("a b\nc d\n")
    lines = [f"a {i}\tb {i}\tc {i}\td {i}" for i in range(5)]
    (folder / "tuples.tsv").write_text(": family\n" + "\n".join(lines) + "\n")


@reader(TEXT, "tuples.tsv", analogies_file)
def sentence_analogies(folder: Path) -> Any:
    return read_tuples(folder / "tuples.tsv", Pool(folder / "pool.txt", tokenised=True))


def captioned(folder: Path, shared: Shared) -> None:
    for split in captions.SPLITS:
        names = [f"{split}-{i}" for i in range(8)]
        np.savez(folder / f"{split}.npz", features=np.ones((8, 3), np.float32), images=np.array(names))
        lines = [json.dumps({"image": image, "captions": ["a b", "c", "d", "e", "f"]}) for image in names]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")


@reader(TEXT, "*.npz", captioned, name="image-features", named=".jsonl")  # fmt: skip
@reader(TEXT, "*.jsonl", captioned, name="captions", named=".npz")
def read_all_captions(folder: Path) -> Any:
    return captions.read_captions(folder, least=30)
