import gzip
import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from vector_files import FORMATS, glove, lines, random_vectors, word2vec_binary, word2vec_text, write_vectors

from structviews.errors import InputError
from structviews.words import vector_files, vector_formats
from structviews.words.vector_files import WordVectors

pytestmark = pytest.mark.filterwarnings("error")
ODD = ["naïve", "日本", "'s", "\N{BIRD}", "3.14", "1e5", '"', "NULL", "a\xa0b", "-"]
WORDS = ["the", *ODD, *(f"w{i}" for i in range(40))]
VECTORS = random_vectors(WORDS)


@pytest.mark.parametrize("block", [1, 100, 2**22])
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.__name__)
def test_every_format_gives_its_words_and_vectors(form, block, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_formats, "BLOCK_BYTES", block)
    monkeypatch.setattr(vector_formats, "SAMPLE_BYTES", 400)  # so that most of the file is behind it
    monkeypatch.setattr(vector_files, "PART_BYTES", 3 * block)
    opened = WordVectors.open(write_vectors(tmp_path / "vectors", WORDS, VECTORS, form))
    assert (len(opened), opened.dim) == VECTORS.shape
    assert opened.words.to_pylist() == WORDS
    np.testing.assert_array_equal(opened.rows(np.arange(len(WORDS))), VECTORS)
    plain = WordVectors.open(write_vectors(tmp_path / "plain", WORDS, VECTORS))
    other = WordVectors.open(write_vectors(tmp_path / "other", WORDS, 2 * VECTORS))
    assert opened.fingerprint == plain.fingerprint != other.fingerprint


def test_lines_that_are_read_slowly_and_a_last_one_without_an_end(tmp_path):
    path = tmp_path / "v.txt"
    path.write_bytes(b"a 1 2\nb\xff +3 4.\nc 5 6\n")
    opened = WordVectors.open(path)
    assert opened.words.to_pylist() == ["a", "b�", "c"]
    assert opened.rows(np.arange(3)).tolist() == [[1, 2], [3, 4], [5, 6]]
    words = ["x", ". . .", "at name@domain.com", "5 a", "y"]
    opened = WordVectors.open(write_vectors(path, words, VECTORS[:5]))
    assert opened.words.to_pylist() == words
    np.testing.assert_array_equal(opened.rows(np.arange(5)), VECTORS[:5])
    path.write_text("a 1 2\nb 3 4")
    with pytest.warns(UserWarning, match=r"v\.txt: no newline at the end: .* truncated"):
        assert WordVectors.open(path).rows(np.arange(2)).tolist() == [[1, 2], [3, 4]]
    path.write_text("2 2\na 1 2\nb 3 4")
    assert len(WordVectors.open(path)) == 2


def test_numbers_are_those_that_python_reads(tmp_path):
    rng = np.random.default_rng(1)
    values = rng.standard_normal(3000) * 10.0 ** rng.integers(-30, 30, 3000)
    forms = ["{:.5f}", "{:g}", "{:e}", "{:.3E}", "{:.12g}", "{:.0f}"]
    texts = [forms[i % len(forms)].format(value) for i, value in enumerate(values)]
    (tmp_path / "v.txt").write_text("".join(f"w{i} {' '.join(texts[i : i + 6])}\n" for i in range(0, 3000, 6)))
    expected = np.array([float(text) for text in texts]).reshape(-1, 6)
    found = WordVectors.open(tmp_path / "v.txt").rows(np.arange(500))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-38)


@pytest.mark.parametrize(("form", "block"), [(glove, 1), (word2vec_text, 2**22)])
def test_the_first_of_two_is_kept(form, block, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_formats, "BLOCK_BYTES", block)
    monkeypatch.setattr(vector_files, "PART_BYTES", block)
    path = write_vectors(tmp_path / "v", ["a", "b", "a", "c", "b", "a"], VECTORS[:6], form)
    with pytest.warns(UserWarning, match=r"v: 3 of 6 words are duplicates: the first vector"):
        opened = WordVectors.open(path)
    assert opened.words.to_pylist() == ["a", "b", "c"]
    np.testing.assert_array_equal(opened.rows(np.arange(3)), VECTORS[[0, 1, 3]])
    assert WordVectors.open(path).words.to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize("block", [100, 2**22])
def test_rows_come_in_the_order_asked_for(block, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_formats, "BLOCK_BYTES", block)
    monkeypatch.setattr(vector_files, "PART_BYTES", block)
    vectors = WordVectors.open(write_vectors(tmp_path / "v.txt", WORDS, VECTORS))
    places = np.random.default_rng(2).integers(-1, len(WORDS), 500)
    rows = vectors.rows(places)
    assert rows.dtype == np.float32
    expected = [VECTORS[place] if place >= 0 else np.zeros(5) for place in places]
    np.testing.assert_array_equal(rows, expected)
    assert vectors.rows(np.array([], dtype=np.int64)).shape == (0, 5)
    wanted = ["w7", "the", "The", "", "日本", "the", "unheard of"]
    assert vectors.find(iter(wanted)).tolist() == [WORDS.index(word) if word in WORDS else -1 for word in wanted]


@pytest.mark.parametrize("change", ["the source", "the source, not its time", "the copy"])
def test_it_is_made_again_when_a_file_has_changed(change, tmp_path):
    path = write_vectors(tmp_path / "v.txt", WORDS, VECTORS)
    before, about, copy, expected = WordVectors.open(path), path.stat(), tmp_path / "v.txt.arrow", VECTORS
    if change == "the copy":
        copy.write_bytes(copy.read_bytes()[:-20])
    else:
        expected = -VECTORS if change == "the source" else VECTORS[:7]
        write_vectors(path, WORDS[: len(expected)], expected)
    if change == "the source, not its time":
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    again = WordVectors.open(path)
    np.testing.assert_array_equal(again.rows(np.arange(len(again))), expected)
    assert (again.fingerprint == before.fingerprint) == (change == "the copy")


def test_processes_that_open_it_at_once_convert_it_once(tmp_path, monkeypatch):
    path, converted, convert = write_vectors(tmp_path / "v.txt", WORDS, VECTORS), [], vector_files._convert

    def slowly(*arguments):
        converted.append(arguments)
        time.sleep(0.2)
        convert(*arguments)

    monkeypatch.setattr(vector_files, "_convert", slowly)
    with ThreadPoolExecutor(4) as pool:  # each has the file open for itself, as a process would
        opened = list(pool.map(WordVectors.open, [path] * 4))
    assert len(converted) == 1
    assert [each.words.to_pylist() for each in opened] == [WORDS] * 4


def test_a_source_that_changes_while_it_is_read(tmp_path, monkeypatch):
    path, convert = write_vectors(tmp_path / "v.txt", WORDS, VECTORS), vector_files._convert

    def change_too(*arguments):
        convert(*arguments)
        os.utime(path, (1, 1))

    monkeypatch.setattr(vector_files, "_convert", change_too)
    with pytest.raises(InputError, match=r"v\.txt: changed while it was being read: run the command again"):
        WordVectors.open(path)
    monkeypatch.setattr(vector_files, "_convert", convert)
    assert WordVectors.open(path).words.to_pylist() == WORDS


def test_a_folder_that_may_not_be_written_is_left_alone(tmp_path, monkeypatch):
    folder = tmp_path / "shared"
    folder.mkdir()
    path = write_vectors(folder / "v.txt", WORDS, VECTORS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(vector_files.os, "access", lambda *_: False)
    assert WordVectors.open(path).words.to_pylist() == WORDS
    assert [p.name for p in folder.iterdir()] == ["v.txt"]
    (made,) = (tmp_path / "cache" / "structviews").iterdir()
    assert made.name.endswith("-v.txt.arrow")
    monkeypatch.setattr(vector_files, "_convert", None)
    assert len(WordVectors.open(path)) == len(WORDS)


GOOD = lines(WORDS[:20], VECTORS[:20])
BINARY = word2vec_binary(WORDS[:20], VECTORS[:20])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"v: empty: give GloVe text, "),
        (b"word\nother\n", r"v:1: no numbers after 'word'"),
        (b"\x00\x01\x02 not text\n" * 9, r"v: not word vectors: give GloVe text"),
        (b"0 300\n", r"v:1: 0 words of dimension 300"),
        (b"1 1000001\na 1\n", r"v:1: '1' words of dimension '1000001', more than any file has: copy it again"),
        (b"9" * 5000 + b" 3\na 1 2 3\n", r"v:1: '9{40}' words of dimension '3', more than any file has"),
        (GOOD + "word 1 2 3 4\n", r"v:21: 4 numbers after the word, but most lines have 5"),
        (GOOD + "word nan 1 2 3 4 5\n", r"v:21: 6 numbers after the word, but most lines have 5"),
        (GOOD + "word 1 2 x 4 5\n", r"v:21: 'x' is not a finite number: correct or delete the line"),
        (GOOD + "word 1 2 1e99 4 5\n", r"v:21: '1e99' is not a finite number"),
        (GOOD[:-30] + "\n", r"v:20: \d numbers after the word, .* the file was truncated: copy it again"),
        ("30 5\n" + GOOD, r"v: truncated after 20 of 30 words: copy it again"),
        ("19 5\n" + GOOD, r"v:21: more words than the 19 .*: correct line 1"),
        ("20 6\n" + GOOD, r"v:2: 5 numbers after the word, but the header says 6"),
        (BINARY[:-9], r"v: truncated after 19 of 20 words: copy it again"),
        (BINARY + b"more", r"v: has data after the 20 words"),
        (b"1 5\n" + b"\x01\xff" * 2**17, r"v: word 1 does not end"),
        (word2vec_binary(["a", "b"], np.array([[1, 2], [3, np.nan]])), r"v: word 2, 'b': .* NaN or infinite"),
        (gzip.compress(GOOD.encode())[:-20], r"v: damaged or truncated \(.*\): copy it again"),
    ],
)
@pytest.mark.parametrize("block", [1, 2**22])
def test_files_that_do_not_do(content, message, block, tmp_path, monkeypatch, one_line):
    monkeypatch.setattr(vector_formats, "BLOCK_BYTES", block)
    path = tmp_path / "v"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with one_line(message):
        WordVectors.open(path)
    assert [p.name for p in tmp_path.iterdir()] == ["v"]


def test_files_that_are_not_there(tmp_path):
    for path, reason in ((tmp_path / "none", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(InputError, match=f"{reason}: give a file of word vectors"):
            WordVectors.open(path)


@pytest.mark.parametrize(("lines", "pack"), [(1, bytes), (3, gzip.compress)])
def test_a_line_without_an_end_is_not_kept_in_memory(tmp_path, monkeypatch, lines, pack):
    monkeypatch.setattr(vector_formats, "BLOCK_BYTES", 2**14)
    monkeypatch.setattr(vector_formats, "SAMPLE_BYTES", 2**14)
    path, read = tmp_path / "v", []
    path.write_bytes(pack((GOOD.encode() * 100)[: GOOD.index("\n") + 1] * lines * 1000 + b"1 " * 10**6))
    source = vector_formats.VectorSource
    whole = source._whole_lines
    monkeypatch.setattr(source, "_whole_lines", lambda self: (read.append(len(b)) or b for b in whole(self)))
    with pytest.raises(InputError, match=rf"v:{lines * 1000 + 1}: longer than a word and 5 numbers, 65,856 bytes"):
        WordVectors.open(path)
    assert max(read) < 10**5
