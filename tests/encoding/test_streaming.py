"""Texts encoded to disk a block at a time; killed commands, and two at once, are in tests/robustness."""

from dataclasses import replace

import numpy as np
import pytest

from structviews.encoding import streaming
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import join_runs
from structviews.encoding.streaming import encode_text, open_text
from structviews.errors import InputError

TRANSDUCTIVE = {"remove_component": True, "transductive": True}
LINES = [f"A bird sat on tree {i} ." for i in range(23)]


@pytest.fixture
def runs(runs_of_all_kinds):
    """Two that read words and no trees."""
    return [runs_of_all_kinds["words"], runs_of_all_kinds["channels"]]


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "AT_ONCE", 5)
    path = tmp_path / "big.txt"
    path.write_text("\n".join(LINES), "utf-8")
    return path


def encode(source, run, out, **options):
    representation = options.pop("representation", {})
    with open_text(source) as text:
        encode_text(text, Embedder.load(run).with_representation(**representation), out, tokenised=True, **options)


def vectors_of(lines, run):
    return Embedder.load(run).encode([line.split() for line in lines])


def partials(folder):
    return sorted(folder.glob(".*.partial"))


@pytest.mark.parametrize(("n", "end"), [(1, ""), (5, "\n"), (23, "\r\n")])
def test_the_vectors_are_those_of_the_embedder(source, runs, tmp_path, n, end):
    lines = [*LINES[: n - 1], "Où ?  \u2028 non\x0c"]
    source.write_bytes("\ufeff".encode() + (end or "\n").join(lines).encode() + end.encode())
    told = []
    encode(source, runs[0], tmp_path / "v.npy", progress=lambda done, total: told.append((done, total)))
    vectors = np.load(tmp_path / "v.npy", mmap_mode="r")
    np.testing.assert_allclose(vectors, vectors_of(lines, runs[0]), atol=1e-6)
    assert vectors.dtype == np.float32
    assert told[-1] == (n, n)
    assert [total for _, total in told] == [n] * len(told)
    assert not partials(tmp_path)


def test_a_transductive_representation_reads_all_lines_at_once(source, runs, tmp_path):
    """Of which the members of a join count none twice."""
    joined, told = join_runs([runs[0], runs[0]], tmp_path / "joined"), []
    encode(source, joined, tmp_path / "v.npy", representation=TRANSDUCTIVE, progress=lambda *each: told.append(each))
    assert (told[0], told[-1]) == ((0, len(LINES)), (len(LINES), len(LINES)))
    assert {total for _, total in told} == {len(LINES)}
    assert told == sorted(told)
    expected = Embedder.load(joined).with_representation(**TRANSDUCTIVE).encode([line.split() for line in LINES])
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)


def begin(interrupted, source, run, out, after, **options):
    """What an encoding leaves that is interrupted after some blocks."""
    with interrupted(after), pytest.raises(KeyboardInterrupt):
        encode(source, run, out, **options)
    assert not out.exists()
    (partial,) = partials(out.parent)
    return partial


def test_an_interrupted_encoding_goes_on(source, runs, tmp_path, interrupted):
    encode(source, runs[0], tmp_path / "whole.npy")
    begin(interrupted, source, runs[0], tmp_path / "v.npy", after=3)
    with interrupted(9) as calls:
        encode(source, runs[0], tmp_path / "v.npy")
    assert len(calls) == 2
    assert (tmp_path / "v.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert not partials(tmp_path)


def test_what_was_begun_with_something_else_is_refused(source, runs, tmp_path, interrupted):
    partial = begin(interrupted, source, runs[0], tmp_path / "v.npy", after=2)
    before = partial.read_bytes()
    other = tmp_path / "other.txt"
    other.write_text("\n".join(LINES[1:]), "utf-8")
    of = "another text, run, representation, precision or word limit"
    for text, run, options in (
        (other, runs[0], {}),
        (source, runs[1], {}),
        (source, runs[0], {"representation": {"pooling": "mean"}}),
    ):
        with pytest.raises(InputError, match=rf"v\.npy: has an unfinished encoding of {of}: run that") as error:
            encode(text, run, tmp_path / "v.npy", **options)
        assert str(partial) in str(error.value)
    assert partial.read_bytes() == before
    encode(other, runs[1], tmp_path / "v")  # the name of another file begins so
    assert partial.exists()
    encode(source, runs[0], tmp_path / "v.npy")
    assert len(np.load(tmp_path / "v.npy")) == len(LINES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\n \nc", r"big\.txt:3: blank line"),
        (b"a\nb\n\xff", r"big\.txt: not UTF-8 at byte 4"),
        (b"", r"big\.txt: empty"),
        ("\ufeff".encode(), r"big\.txt:1: blank line"),
    ],
)
def test_texts_that_cannot_be_read(source, tmp_path, content, message):
    source.write_bytes(content)
    with pytest.raises(InputError, match=message), open_text(source):
        pass


def test_blank_lines_are_skipped_where_that_is_asked_for(source, runs, tmp_path):
    encode(source, runs[0], tmp_path / "v.npy")
    blank = ["", " \t\u00a0"]
    spread = [line for i, each in enumerate(LINES) for line in (*blank[: i % 3], each)]
    source.write_bytes(streaming.BOM + "\n".join(["", *spread, "", ""]).encode())
    with open_text(source, skip_blank=True) as text:
        assert (text.n, text.blank) == (len(LINES), len(spread) - len(LINES) + 2)
        assert text.lines(3, 12) == [line.strip() for line in LINES[3:12]]
        assert [text.location(row).rpartition(":")[2] for row in (0, 1, 2, 3)] == ["2", "4", "7", "8"]
        encode_text(text, Embedder.load(runs[0]), tmp_path / "w.npy", tokenised=True)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), np.load(tmp_path / "w.npy"))
    source.write_bytes("a\n\x85\n\u00a0\n".encode())  # an ellipsis of Windows-1252 is no blank line
    with open_text(source, skip_blank=True) as text:
        assert (text.lines(0, text.n), text.blank) == (["a", "\x85"], 1)
    source.write_text("\n \n")
    with pytest.raises(InputError, match="empty: give one sentence"), open_text(source, skip_blank=True):
        pass


def test_vectors_that_are_not_finite_and_a_text_that_changes_meanwhile(source, runs, tmp_path):
    embedder = Embedder.load(runs[0])
    embedder.model.channels["trained"].words[0].weight.data[:] = float("nan")
    with open_text(source) as text, pytest.raises(InputError, match=r"big\.txt:1: its vector is not finite"):
        encode_text(text, embedder, tmp_path / "v.npy")
    with open_text(source) as text:
        source.write_text("a\nb\n")
        with pytest.raises(InputError, match=r"big\.txt: changed while it was being read"):
            encode_text(text, embedder, tmp_path / "v.npy")


def test_pieces_are_the_same_for_any_number_of_processes(source, runs, tmp_path, interrupted, small_pieces):
    """Blocks of five lines in pieces of two, also from the middle on."""
    encode(source, runs[0], tmp_path / "v.npy", batch_size=1)
    small_pieces(True)
    begin(interrupted, source, runs[0], tmp_path / "w.npy", after=5, batch_size=1)
    small_pieces(False, True)
    told = []
    encode(source, runs[0], tmp_path / "w.npy", batch_size=1, processes=2, progress=lambda *counts: told.append(counts))
    np.testing.assert_allclose(np.load(tmp_path / "w.npy"), np.load(tmp_path / "v.npy"), atol=1e-6)
    assert (told[0], told[-1]) == ((5, len(LINES)), (len(LINES), len(LINES)))


@pytest.mark.parametrize("turns", [[True], [False, True]], ids=["one process", "two processes"])
def test_the_first_bad_line_is_named_and_nothing_is_left(source, runs, tmp_path, small_pieces, turns):
    long = " ".join(LINES[0] for _ in range(3))
    source.write_text("\n".join([*LINES[:8], "It's the bird's, isn't it?", *LINES[:3], long, *LINES, long]), "utf-8")
    embedder = Embedder.load(runs[0], max_tokens=9)
    small_pieces(*turns)
    with open_text(source) as text, pytest.raises(InputError, match=r"big\.txt:9: 10 words, but the limit is 9"):
        encode_text(replace(text, longest=(0, 0)), embedder, tmp_path / "v.npy", batch_size=1, processes=len(turns))
    assert [path.name for path in tmp_path.iterdir()] == ["big.txt"]


def test_lines_of_too_many_words(source, runs, tmp_path, command):
    """Found before anything is encoded, or cut, with one warning for all blocks."""
    long = "A bird sat on the dead tree"
    source.write_text("\n".join([*LINES[:7], f"{long} .", *LINES[7:], long]), "utf-8")
    arguments = ("encode", runs[0], source, "-o", "v.npy", "--tokenised", "--max-tokens")
    code, _, errors = command(*arguments, 7)
    remedy = "split it, raise max_tokens (--max-tokens), or have it cut with overlong = cut (--overlong cut)"
    assert (code, errors) == (2, f"error: {source}:8: 8 words, but the limit is 7: {remedy}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["big.txt"]
    code, _, errors = command(*arguments, 6, "--overlong", "cut")
    assert code == 0, errors
    assert errors.count("25 sentences were cut to the first 6 words") == 1
    assert errors.count("warning") == 1
    expected = vectors_of([" ".join(line.split()[:6]) for line in source.read_text().splitlines()], runs[0])
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-6)
    code, _, errors = command(*arguments, 0)
    assert (code, errors) == (2, "error: max_tokens = 0: give a number at least 1\n")
