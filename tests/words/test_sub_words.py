"""fastText's files and the words composed of n-grams, beside gensim's and fastText's own algorithm in plain Python."""

import io
import re

import numpy as np
import pytest
from vector_files import fasttext_model

from structviews.words import sub_words, vector_formats
from structviews.words.sub_words import SubWords, hashed_ngrams, quantise
from structviews.words.vector_files import WordVectors

DIM, BUCKETS = 5, 37
WORDS = ["the", "naïve", "日本語", "🙂🙂", "a", "straße", "Ωμέγα", "e\u0301te\u0301", "x" * 50, "</s>", ",", "computer"]
OTHERS = ["computers", "naive", "日本", "🙂", "b", "Straße", "", "the ", "z" * 60, "né"]


def ngrams(word, shortest, longest):
    """As fastText's Dictionary::computeSubwords, character by character."""
    text = f"<{word}>"
    for start in range(len(text)):
        for end in range(start + 1, min(len(text), start + longest) + 1):
            alone = end - start == 1 and (start == 0 or end == len(text))
            if end - start >= shortest and not alone:
                yield text[start:end].encode()


def fnv(octets):
    found = 2166136261
    for octet in octets:
        found = (found ^ (octet - 256 * (octet > 127)) % 2**32) * 16777619 % 2**32
    return found


@pytest.fixture(scope="module")
def model():
    """Rows of words and of n-grams."""
    rng = np.random.default_rng(3)
    return rng.normal(size=(len(WORDS) + BUCKETS, DIM)).astype(np.float32)


def plainly(rows, word, lengths=(3, 6)):
    """The vector of a word, and whether it has one."""
    parts = [rows[len(WORDS) + fnv(each) % BUCKETS] for each in ngrams(word, *lengths)] if word != "</s>" else []
    parts += [rows[WORDS.index(word)]] if word in WORDS else []
    return (np.mean(parts, axis=0, dtype=np.float64), True) if parts else (np.zeros(DIM), False)


@pytest.fixture
def path(model, tmp_path):
    (tmp_path / "m.bin").write_bytes(fasttext_model(WORDS, model))
    return tmp_path / "m.bin"


@pytest.mark.parametrize("lengths", [(3, 6), (1, 3), (1, 1), (4, 3), (0, 0)])
def test_ngrams_are_hashed_as_fasttext_does(lengths):
    words = WORDS + OTHERS
    hashes, counts = hashed_ngrams([word.encode() for word in words], *lengths)
    assert hashes.dtype == np.uint32
    wanted = [[fnv(each) for each in ngrams(word, *lengths)] for word in words]
    assert counts.tolist() == [len(each) for each in wanted]
    assert hashes.tolist() == [each for word in wanted for each in word]
    assert [len(each) for each in hashed_ngrams([], *lengths)] == [0, 0]


def test_octets_that_are_no_characters_count_with_the_one_before():
    """As in fastText, which looks for the first octet of each character only."""
    hashes, counts = hashed_ngrams([b"a\x80b", b"\xff\xffc"], 3, 3)
    wanted = [[b"<a\x80b", b"a\x80b>"], [b"<\xff\xff", b"\xff\xffc", b"\xffc>"]]
    assert (counts.tolist(), hashes.tolist()) == ([2, 3], [fnv(each) for word in wanted for each in word])


@pytest.mark.parametrize(("lengths", "at_once"), [((3, 6), 2**11), ((3, 6), 3), ((1, 4), 3), ((0, 0), 3)])
def test_words_of_the_file_and_others(model, tmp_path, lengths, at_once, monkeypatch):
    monkeypatch.setattr(sub_words, "ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(vector_formats, "WORD_BYTES", 2 * at_once)
    (tmp_path / "m.bin").write_bytes(fasttext_model(WORDS, model, lengths=lengths))
    for _ in range(2):  # converted, and mapped
        vectors = WordVectors.open(tmp_path / "m.bin")
        assert (vectors.words.to_pylist(), vectors.dim) == (WORDS, DIM)
        wanted = [plainly(model, word, lengths)[0] for word in WORDS]
        np.testing.assert_allclose(vectors.rows(np.arange(len(WORDS))), wanted, atol=1e-6)
        for words in (OTHERS + WORDS + OTHERS, WORDS, OTHERS, ["b"], []):
            known, rows = vectors.read(words)
            wanted = [plainly(model, word, lengths) for word in words]
            assert known.tolist() == [has for _, has in wanted]
            assert (rows.dtype, rows.shape) == (np.float32, (sum(known), DIM))
            np.testing.assert_allclose(rows, [row for row, has in wanted if has] or rows, atol=1e-6)
    assert isinstance(vectors.sub_words.rows, np.memmap)


def test_gensim_reads_the_same_and_writes_the_same_bytes(path, tmp_path):
    gensim = pytest.importorskip("gensim.models.fasttext", reason="needs structviews[vectors]")
    ours, theirs = WordVectors.open(path), gensim.load_facebook_model(str(path))
    plain = [word for word in WORDS if word != "</s>"]  # to gensim it is a word as others, to fastText it is not
    np.testing.assert_allclose(ours.rows(ours.find(plain)), [theirs.wv[word] for word in plain], atol=1e-6)
    others = [word for word in OTHERS if len(word) > 0]
    known, rows = ours.read(others)
    assert known.all()
    np.testing.assert_allclose(rows, [theirs.wv[word] for word in others], atol=1e-6)
    written = io.BytesIO()
    gensim.save_facebook_model(theirs, written)
    again = tmp_path / "again.bin"
    again.write_bytes(written.getvalue())
    np.testing.assert_array_equal(WordVectors.open(again).read(WORDS + OTHERS)[1], ours.read(WORDS + OTHERS)[1])
    assert WordVectors.open(again).fingerprint == ours.fingerprint


def test_a_row_that_is_not_finite_is_not_used(model):
    row = fnv(next(ngrams(OTHERS[0], 3, 6))) % BUCKETS
    used = np.array([row in {fnv(each) % BUCKETS for each in ngrams(other, 3, 6)} for other in OTHERS])
    assert set(used) == {True, False}
    rows = SubWords(model[len(WORDS) :].copy(), None, 3, 6)
    before, _ = rows.read(OTHERS)
    rows.rows[row, 2] = np.nan
    known, vectors = rows.read(OTHERS)
    assert known.tolist() == (before & ~used).tolist()
    assert np.isfinite(vectors).all()


def test_rows_in_eight_bits_are_rounded_to_the_nearest_step_of_their_row(model, monkeypatch):
    monkeypatch.setattr(sub_words, "ROWS_AT_ONCE", 10)
    rows = model[len(WORDS) :]
    found, scales = SubWords(rows, None, 3, 6).quantised()
    assert (found.dtype, scales.dtype) == (np.int8, np.float32)
    np.testing.assert_allclose(scales, [max(map(abs, row)) / 127 for row in rows], rtol=1e-6)
    wanted = [[round(float(value / max(map(abs, row)) * 127)) for value in row] for row in rows]
    np.testing.assert_array_equal(found, wanted)
    assert (np.abs(found * scales[:, None] - rows) <= 0.501 * scales[:, None]).all()
    (known, vectors), (again, small) = (SubWords(*each, 3, 6).read(OTHERS) for each in ((rows, None), (found, scales)))
    assert known.tolist() == again.tolist()
    np.testing.assert_allclose(small, vectors, atol=np.abs(model).max() / 254)
    # Rows of zeros, and of hardly more, stay zero.
    found, scales = quantise(np.array([[0, 0], [1e-45, 0], [-3, 3]], np.float32))
    np.testing.assert_array_equal(found, [[0, 0], [0, 0], [-127, 127]])
    np.testing.assert_array_equal(found * scales[:, None], [[0, 0], [0, 0], [-3, 3]])


BAD_ROW = np.ones((len(WORDS) + BUCKETS, DIM), np.float32)
BAD_ROW[1, 2] = np.inf
WHOLE = fasttext_model(WORDS, np.ones_like(BAD_ROW))
FIRST, LAST = WHOLE.index(b"the\0"), WHOLE.index(b"computer\0")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (fasttext_model(WORDS, BAD_ROW, kind=3), "a supervised fastText model, a classifier: give one of skipgram or"),
        (fasttext_model(WORDS, BAD_ROW, quantised=True), "quantised (.ftz)"),
        (fasttext_model(WORDS, BAD_ROW, version=13), "fastText's format 13, newer than 12"),
        (fasttext_model(WORDS, BAD_ROW, dim=0), "12 words of dimension 0: not word vectors, or damaged"),
        (fasttext_model(WORDS, BAD_ROW, lengths=(3, 10**9)), "damaged"),
        (fasttext_model(WORDS, BAD_ROW), "word 2, 'naïve': its vector has a value that is NaN or infinite"),
        (WHOLE[: LAST + 8] + b"y" + WHOLE[LAST + 9 :], "its words do not end where its vectors begin: damaged"),
        (WHOLE[:FIRST] + b"y" * vector_formats.LONGEST_WORD + WHOLE[LAST:], "word 1 does not end: damaged"),
        *((WHOLE[:size], "truncated") for size in range(4, len(WHOLE), 197)),
        (WHOLE + b"\0", "its size is not that of 12 words and 37 n-grams in 5 dimensions"),
    ],
)
def test_files_that_do_not_do(tmp_path, content, message, one_line):
    (tmp_path / "m.bin").write_bytes(content)
    with one_line(f"^{tmp_path}/m.bin: .*{re.escape(message)}"):
        WordVectors.open(tmp_path / "m.bin")
    assert [each.name for each in tmp_path.iterdir()] == ["m.bin"]
