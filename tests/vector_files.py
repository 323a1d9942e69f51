"""Small files of word vectors, in every format that is read."""

import gzip
import struct

import numpy as np


def lines(words, vectors, end="\n"):
    return "".join(f"{w} {' '.join(f'{x:.9g}' for x in v)}{end}" for w, v in zip(words, vectors, strict=True))


def header(vectors):
    return f"{len(vectors)} {vectors.shape[1]}\n"


def glove(words, vectors):
    return lines(words, vectors).encode()


def word2vec_text(words, vectors):
    return (header(vectors) + lines(words, vectors)).encode()


def fasttext(words, vectors):
    return (header(vectors) + lines(words, vectors, " \n")).encode()


def crlf(words, vectors):
    return lines(words, vectors, "\r\n").encode()


def word2vec_binary(words, vectors, end=b"\n"):
    rows = (w.encode() + b" " + v.astype("<f4").tobytes() + end for w, v in zip(words, vectors, strict=True))
    return header(vectors).encode() + b"".join(rows)


def gensim_binary(words, vectors):
    return word2vec_binary(words, vectors, b"")


def gzipped(words, vectors):
    return gzip.compress(fasttext(words, vectors))


def gzipped_binary(words, vectors):
    return gzip.compress(word2vec_binary(words, vectors))


def fasttext_model(words, rows, kind=2, quantised=False, labels=0, lengths=(3, 6), version=12, dim=None):
    """fastText's own format, field by field: ``rows`` of words and then of n-grams."""
    dim, buckets = rows.shape[1] if dim is None else dim, len(rows) - len(words)
    head = struct.pack("<14id", 793712314, version, dim, 5, 5, 1, 5, 1, 2, kind, buckets, *lengths, 100, 1e-4)
    entries = b"".join(word.encode() + b"\0" + struct.pack("<qb", 7, 0) for word in words)
    dictionary = struct.pack("<3i2q", len(words), len(words), labels, 99, -1) + entries
    given = struct.pack("<?2q", quantised, *rows.shape) + rows.astype("<f4").tobytes()
    contexts = np.ones((len(words), dim), "<f4")
    return head + dictionary + given + struct.pack("<?2q", False, *contexts.shape) + contexts.tobytes()


FORMATS = [glove, word2vec_text, fasttext, crlf, word2vec_binary, gensim_binary, gzipped, gzipped_binary]


def random_vectors(words, dim=5, seed=0):
    """Vectors ``(words, dim)``, float32, some of whose bytes are spaces and line ends."""
    vectors = np.random.default_rng(seed).standard_normal((len(words), dim)).astype(np.float32)
    vectors[0, 0] = np.frombuffer(b" \n\x20\x3e", dtype="<f4")[0]
    return vectors


def write_vectors(path, words, vectors=None, form=glove):
    """A vector file; random vectors unless some are given."""
    path.write_bytes(form(words, random_vectors(words) if vectors is None else vectors))
    return path
