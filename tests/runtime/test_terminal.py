"""What users see: nothing in a name is obeyed, nothing is cut, and long jobs say how far they are."""

import io
import re
import sys
import unicodedata
from itertools import count
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table as RichTable

import structviews
from structviews.runtime import terminal
from structviews.runtime.terminal import UNSHOWN, Bar, Terminal, number_table, visible

# What a terminal obeys and rich writes itself: colours and moves.
RICH = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
PACKAGE = Path(structviews.__file__).parent


def test_every_control_is_shown():
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    controls = {char for char in every if unicodedata.category(char) in ("Cc", "Cs")}
    directions = {"\u061c", *map(chr, (*range(0x200E, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A)))}
    assert set(UNSHOWN.findall("".join(every))) == controls - {"\t", "\n"} | directions
    assert visible("a\x1b[2Jb\r\n\tc\u202ed\x9b\udc80") == "a\\x1b[2Jb\\r\n\tc\\u202ed\\x9b\\udc80"


def table_of(cell):
    table = RichTable("run")
    table.add_row(cell)
    return table


@pytest.mark.parametrize(("make", "is_terminal"), [(str, True), (table_of, False)])
def test_no_control_reaches_a_terminal_and_markup_in_a_name_is_only_text(make, is_terminal):
    file, name = io.StringIO(), "[bold]:heart: x\x1b]52;c;aGVsbG8=\x07\u202ey[/y]"
    Terminal(file=file, force_terminal=is_terminal, width=80).print(make(name))
    written = RICH.sub("", file.getvalue())
    assert visible(written) == written
    assert r"[bold]:heart: x\x1b]52;c;aGVsbG8=\x07\u202ey[/y]" in written


@pytest.fixture
def clock(monkeypatch):
    """A clock that is a second further at each look."""
    seconds = count()
    monkeypatch.setattr(terminal.time, "perf_counter", lambda: float(next(seconds)))


def lines_of_a_file(dones, total, size=1):
    """What a log file gets of a job that is told so."""
    file = io.StringIO()
    with Bar(Console(file=file, width=200), "encoding x.txt", "sentences", size) as show:
        show.stage("loading")
        for done in dones:
            show(done, total)
            assert file.getvalue()  # at once, not at the end
    return file.getvalue().splitlines()


@pytest.mark.usefixtures("clock")
def test_a_log_file_gets_a_line_at_the_start_and_at_every_tenth():
    lines = lines_of_a_file(range(0, 1001, 10), 1000)
    assert lines[0] == "encoding x.txt: 0 of 1,000 sentences"
    assert lines[1].startswith("encoding x.txt: 100 of 1,000 sentences, 10 sentences/s, ")
    assert lines[1].endswith(" left")
    assert lines[-1].startswith("encoding x.txt: 1,000 of 1,000 sentences, 10 sentences/s, in ")
    assert [line.split()[2] for line in lines] == ["0", *(f"{n:,}" for n in range(100, 1001, 100))]

    # What an interrupted job had done before does not count, nor is a rate told that nothing is known of.
    assert lines_of_a_file([8000, 8100], 8100, size=10) == [
        "encoding x.txt: 800 of 810 sentences",
        "encoding x.txt: 810 of 810 sentences, 10 sentences/s, in 2 s",
    ]
    assert lines_of_a_file([7], 7) == ["encoding x.txt: 7 of 7 sentences, in 1 s"]
    assert lines_of_a_file([], 7) == []


def test_a_moment_has_no_rate(monkeypatch):
    monkeypatch.setattr(terminal.time, "perf_counter", iter([0, 1, 1.01]).__next__)
    assert lines_of_a_file([1, 9], 9)[-1] == "encoding x.txt: 9 of 9 sentences, in 1 s"


def console_of(width):
    return Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)


def drawn(bar, width):
    """What the terminal shows of a bar, without trailing spaces."""
    console = console_of(width)
    console.print(bar)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("width", "what"), [(200, "[x] encoding"), (60, f"runs/{'a-long-name-' * 5}")])
def test_nothing_is_cut_at_any_width(width, what):
    with Bar(console_of(width), what, "sentences") as bar:
        bar(0, 3000)
        bar(1200, 3000, note="loss 5.318  accuracy 0.014")
    lines = drawn(bar, width)
    assert all(len(line) <= width for line in lines)
    whole = "\n".join(lines)
    for part in ("40 %", "1,200 sentences/s", "loss 5.318", "accuracy 0.014", "s left"):
        assert part in whole
    assert what in whole.replace("\n", "")
    assert "\N{BOX DRAWINGS HEAVY HORIZONTAL}" * 4 in whole  # the bar itself
    assert "\N{HORIZONTAL ELLIPSIS}" not in whole
    if width == 200:
        assert len(lines) == 1


def test_units_of_different_sizes_have_no_time_left_but_stages():
    file = io.StringIO()
    with Bar(Console(file=file, width=200), "run", "tasks", percent=False, steady=False) as bar:
        bar(0, 2)
        bar.stage("MR: scoring")
        bar.stage("MR: scoring")
        bar(1, 2)
        assert drawn(bar, 80)[0].startswith("run ")
        assert "1 of 2 tasks  MR: scoring  less than 1 s so far" in drawn(bar, 80)[0]
    lines = file.getvalue().splitlines()
    assert [line.partition(",")[0] for line in lines] == ["run: 0 of 2 tasks", "run: MR: scoring", "run: 1 of 2 tasks"]
    assert not any("left" in line or "tasks/s" in line for line in lines)


NAME = "a-long-name-of-a-run-with-dep-and-seq-of-2026-11-22"
NUMBERS = "81.2", "[-21.8, +102.1]", "0.052", "1.000"


def shown(width):
    table = number_table(["run"], ["A", "95 % interval", "p", "Holm"])
    table.add_row(NAME, *NUMBERS)
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    assert table.box is not None  # as it was
    assert table.columns[1].no_wrap
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 60])
def test_a_table_that_does_not_fit_loses_its_frame_and_folds_a_name_before_numbers(width):
    assert shown(120).startswith("┏")
    lines = shown(width).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line or "┃" in line for line in lines)
    assert all(any(number in line for line in lines) for number in NUMBERS)
    assert "".join(line.split()[0] for line in lines[3:] if line.strip()) == NAME
