"""Vectors and their sentences in files, and as a run."""

import io
import pickle

import numpy as np
import pytest

from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.baseline import given_run
from structviews.encoding.sentence_vectors import read_sentences, saved, write_sentences
from structviews.errors import InputError
from structviews.runs.folder import model_checksum

SENTENCES = [("a", "b"), ("café", "."), ("b", "a")]
VECTORS = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, VECTORS)
    write_sentences(tmp_path / "x.txt", SENTENCES)
    return path


def test_sentences_are_lines(file):
    assert file.with_suffix(".txt").read_text("utf-8") == "a b\ncafé .\nb a\n"
    assert read_sentences(file.with_suffix(".txt")) == {tokens: line for line, tokens in enumerate(SENTENCES)}
    # By hand: white space of any kind, no newline at the end.
    file.with_suffix(".txt").write_bytes("\ufeffa\u2028b\r\n café\t. \nb a".encode())
    assert list(read_sentences(file.with_suffix(".txt"))) == SENTENCES


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


BAD = [
    ("x.npy", None, r"x.npy: no such file or directory: give a .npy file"),
    ("x.npy", npy(VECTORS[:2]), r"x.npy: 2 vectors for the 3 lines of x.txt: give one per line"),
    ("x.npy", npy(VECTORS.ravel()), r"x.npy: an array of float32 and shape \(6,\): give floating-point numbers"),
    ("x.npy", npy(np.array([{}, {}, {}], dtype=object)), r"x.npy: not an array of numbers \(.*with numpy.save"),
    ("x.npy", pickle.dumps(VECTORS), r"x.npy: not an array of numbers \(.*\): save one with numpy.save"),
    ("x.npy", npy(VECTORS)[:-4], r"x.npy: not an array of numbers"),
    ("x.npy", npy(np.where(VECTORS == 3, np.nan, VECTORS)), r"x.npy: the vector of x.txt:2 is not finite"),
    ("x.txt", None, r"x.txt: No such file or directory: give the path of a text file"),
    ("x.txt", b"", r"x.txt: empty: give one sentence per line"),
    ("x.txt", b"a b\n\nc\n", r"x.txt:2: blank line: put one sentence on each line"),
    ("x.txt", b"a b\nc\n a  b\n", r"x.txt:3: repeats the sentence of line 1: remove one"),
    ("x.txt", b"a b\nd\xe9j\xe0\nc\n", r"x.txt: not UTF-8 at byte 5: convert it to UTF-8"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD)
@pytest.mark.filterwarnings("error")
def test_bad_files_are_one_line(name, content, message, file, tmp_path, one_line):
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with one_line(message):
        given_run(file, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_an_encoder_gives_is_kept(tmp_path):
    table = dict(zip(SENTENCES, VECTORS, strict=True))
    path = tmp_path / "kept.npy"

    def encode_blocks(blocks):
        return (np.array([table[tokens] for tokens in block], dtype=np.float64) for block in blocks)

    with saved(encode_blocks, path) as encode:
        np.testing.assert_array_equal(np.concatenate(list(encode(iter([SENTENCES[:2], SENTENCES[2:]])))), VECTORS)
        assert not path.exists()
    assert np.load(path).dtype == np.float32
    np.testing.assert_array_equal(np.load(path), VECTORS)
    assert list(read_sentences(path.with_suffix(".txt"))) == SENTENCES
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept.npy", "kept.txt"]


def test_nothing_is_kept_after_an_error(tmp_path):
    def fail(blocks):
        yield VECTORS
        raise RuntimeError

    with pytest.raises(RuntimeError), saved(fail, tmp_path / "kept.npy") as encode:
        list(encode(iter([SENTENCES, SENTENCES[:1]])))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_a_run_of_given_vectors(dtype, file, tmp_path):
    np.save(file, VECTORS.astype(dtype))
    run = given_run(file, tmp_path / "runs" / "x")
    embedder = Embedder.load(run)
    np.testing.assert_array_equal(embedder.encode([list(SENTENCES[2]), list(SENTENCES[0])]), VECTORS[[2, 0]])
    assert (embedder.dim, embedder.views, embedder.needs) == (2, ("x",), {"tokens"})
    unit = embedder.with_representation(normalise=True).encode([list(SENTENCES[1])])
    np.testing.assert_allclose(unit, VECTORS[1:2] / np.linalg.norm(VECTORS[1]))
    with pytest.raises(InputError, match=r"x.txt: 1 of 2 sentences of MR are missing, such as 'c': encode the output"):
        embedder.check([SENTENCES[0], ("c",)], "MR")
    with pytest.raises(InputError, match=r"x.txt: 1 of 1 sentences of the input are missing, such as 'c d'"):
        embedder.encode([["c", "d"]])


def test_other_vectors_in_the_same_file_bring_the_run_up_to_date(file, tmp_path):
    run = given_run(file, tmp_path / "x")
    first = model_checksum(run)
    assert model_checksum(given_run(file, run)) == first
    np.save(file, VECTORS + 1)
    with pytest.raises(InputError, match=r"x.npy: not the vectors that .*x was made from: run eval --vectors"):
        Embedder.load(run)
    assert model_checksum(given_run(file, run)) != first
    np.testing.assert_array_equal(Embedder.load(run).encode([list(SENTENCES[1])]), VECTORS[1:2] + 1)
    np.save(tmp_path / "y.npy", VECTORS)
    write_sentences(tmp_path / "y.txt", SENTENCES)
    with pytest.raises(InputError, match="x: already exists: give another folder with --out"):
        given_run(tmp_path / "y.npy", run)
