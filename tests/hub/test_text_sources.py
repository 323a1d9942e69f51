"""Tables of the texts that a run was trained on."""

import pytest

from structviews.errors import InputError
from structviews.hub.portable import HEADER, Group, Source, read_sources, summed, write_sources


def book(title, source="books", licence="CC BY 4.0", documents=1, sentences=10):
    return Source(source, title, "2020", licence, 'its "authors"', documents, sentences)


def test_a_table_is_read_as_it_was_written(tmp_path):
    rows = [book("Zoë's “book”; part 1"), book("b", documents=0, sentences=10**9)]
    write_sources(tmp_path / "x.tsv", rows)
    assert read_sources(tmp_path / "x.tsv") == rows
    assert (tmp_path / "x.tsv").read_text("utf-8").startswith("source\ttitle\tyear\tlicence\tattribution\tdocuments\t")


def test_sums_by_source_and_licence():
    series = [book(f"Series: {name}", "series", sentences=5) for name in "abcd"]
    rows = [book("x", sentences=3), *series, book("y", documents=2, sentences=4), book("z", licence="CC0", sentences=8)]
    rows += [book(name, "mixed", sentences=1) for name in "abcd"]
    assert summed(rows) == [
        Group("Series (4 titles)", "CC BY 4.0", 4, 20),
        Group("z", "CC0", 1, 8),
        Group("x; y", "CC BY 4.0", 3, 7),
        Group("(4 titles)", "CC BY 4.0", 4, 4),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["source\ttitle"], "x.tsv: not a table of sources: give a first line of source, title, year, licence"),
        ([HEADER, "a\tb\tc\td\te\t1\t2", "a\tb\tc\td\t1\t2"], "x.tsv:3: not 7 values, the last two counts: fix"),
        ([HEADER, "a\tb\tc\td\te\t1\tmany"], "x.tsv:2: not 7 values"),
    ],
)
def test_what_is_no_such_table(tmp_path, lines, message):
    (tmp_path / "x.tsv").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError) as error:
        read_sources(tmp_path / "x.tsv")
    assert str(error.value).startswith(f"{tmp_path}/{message}")
