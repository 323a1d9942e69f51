import gzip

import pyarrow as pa
import pytest

from structviews.errors import InputError
from structviews.parsing import text
from structviews.parsing.parser import Unparsed


def write(folder, content, name="a.txt"):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path, layout="lines", **options):
    options = {"tokenised": False, "language": "en"} | options
    return [(s.document, s.position, s.line, s.text) for s in text.read_sentences(path, layout, **options)]


def test_lines(tmp_path):
    path = write(tmp_path, "\ufeff\n\nOne here.\r\n  Two. \n\n\n\nThree.\n\n")
    assert read(path) == [(0, 0, 3, "One here."), (0, 1, 4, "Two."), (1, 0, 8, "Three.")]


PROSE = """He said "no." "Why?" she asked. Mr. Smith of the U.S. army
left.  "Go (now)," I said. (She did.) 'Well!' cried he.

A new paragraph
of one sentence.


A new document. Its end"""


def test_prose(tmp_path):
    path = write(tmp_path, PROSE)
    assert text.survey(path, "a").guess == "prose"
    assert read(path, "prose") == [
        (0, 0, 1, 'He said "no."'), (0, 1, 1, '"Why?" she asked.'), (0, 2, 1, "Mr. Smith of the U.S. army left."),
        (0, 3, 2, '"Go (now)," I said.'), (0, 4, 2, "(She did.)"), (0, 5, 2, "'Well!' cried he."),
        (0, 6, 4, "A new paragraph of one sentence."), (1, 0, 8, "A new document."), (1, 1, 8, "Its end"),
    ]  # fmt: skip
    # Tokenised text keeps its words.
    path = write(tmp_path, "It is .   Oh ,\nca n't\xa0be !\nYes .")
    expected = [(0, 0, 1, "It is ."), (0, 1, 1, "Oh , ca n't be !"), (0, 2, 3, "Yes .")]
    assert read(path, "prose", tokenised=True) == expected


def test_prose_does_not_depend_on_how_much_is_split_at_a_time(tmp_path, monkeypatch):
    sentences = [f"This\nis sentence {i},\nwrapped {'and ' * (i % 30)}\nsomewhere. And one\nmore!\n" for i in range(99)]
    path = write(tmp_path, "".join(sentences))
    whole = read(path, "prose")
    assert [line for _, _, line, _ in whole] == [5 * i + start for i in range(99) for start in (1, 4)]
    for size in (60, 100, 333):
        monkeypatch.setattr(text, "PIECE_CHARACTERS", size)
        assert read(path, "prose") == whole


@pytest.mark.parametrize("name", ["a.txt.zst", "a.gz"])
def test_compression_changes_nothing(tmp_path, name):
    plain = write(tmp_path, "Mr. Smith met J. Jones.\nHe had (as St. Paul says) no choice.\n" * 50)
    with pa.output_stream(str(tmp_path / name), compression="zstd" if "zst" in name else "gzip") as stream:
        stream.write(plain.read_bytes())
    survey = text.survey(tmp_path / name, name)
    assert (survey.bytes, survey.lines, survey.guess) == (plain.stat().st_size, 100, "lines")
    assert survey.sha256 == text.survey(plain, "a.txt").sha256
    assert read(tmp_path / name) == read(plain)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "a.txt is empty"),
        ("a.txt", b"\n  \n\t\n", "a.txt holds only blank lines"),
        ("a.txt", b"Good.\nCaf\xe9 is bad.\n", "a.txt:2: not UTF-8 at byte 9 of the text \\(0xe9\\): .*iconv"),
        ("a.txt", "Ends inside é".encode()[:-1], "a.txt:1: not UTF-8 at byte 12 "),
        ("none.txt", None, "none.txt does not exist"),
        ("", None, "is a folder"),
        ("cut.gz", gzip.compress(b"One.\n" * 100, mtime=0)[:-9], "cut.gz cannot be read"),
    ],
)
def test_texts_that_cannot_be_used(tmp_path, name, content, message, one_line):
    if content is not None:
        write(tmp_path, content, name)
    with one_line(message):
        text.survey(tmp_path / name, str(tmp_path / name))


def test_bad_byte_is_placed_across_chunks(tmp_path, monkeypatch):
    path = write(tmp_path, "é\n".encode() * 50 + b"\xff")
    for size in (1, 2, 7, 1000):
        monkeypatch.setattr(text, "CHUNK_BYTES", size)
        with pytest.raises(InputError, match="a:51: not UTF-8 at byte 150 "):
            text.survey(path, "a")


def test_a_very_long_line_is_one_sentence_too_long(tmp_path):
    path = write(tmp_path, "Before.\n" + "x" * 100_000 + "\nAfter.\n")
    sentences = read(path)
    assert [(s[1], s[2]) for s in sentences] == [(0, 1), (1, 2), (2, 3)]
    assert len(sentences[1][3]) <= text.MAX_CHARACTERS + 1
    assert [text.unfit(s[3]) for s in sentences] == [None, Unparsed("more than 10,000 characters"), None]


@pytest.mark.parametrize(
    ("language", "line", "sentences"),
    [
        ("de", "Er kam. „Wo?“ fragte sie. „Da.“ Über Nacht.", ["Er kam.", "„Wo?“ fragte sie.", "„Da.“", "Über Nacht."]),
        ("fr", "«Quoi?» dit-il. «Rien.» Ève sort.", ["«Quoi?» dit-il.", "«Rien.»", "Ève sort."]),
        ("hi", "यह एक घर है। वह बड़ा है।", ["यह एक घर है।", "वह बड़ा है।"]),
        ("zh", "他来了。她走了！他们在哪里？", ["他来了。", "她走了！", "他们在哪里？"]),
    ],
)
@pytest.mark.slow
def test_prose_of_other_languages(tmp_path, language, line, sentences):
    path = write(tmp_path, line)
    assert [s[3] for s in read(path, "prose", language=language)] == sentences
    assert text.survey(path, "a").guess == "prose"
    assert text.survey(write(tmp_path, "\n".join(sentences)), "a").guess == "lines"
