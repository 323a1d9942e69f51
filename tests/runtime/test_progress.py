"""What long jobs say while they work, and how often."""

import io
from itertools import count

import pytest
from rich.console import Console

from structviews.runtime import terminal as progress
from structviews.runtime.terminal import Bar
from structviews.runtime.wording import counted, duration


@pytest.fixture
def clock(monkeypatch):
    """A clock that is a second further at each look."""
    seconds = count()
    monkeypatch.setattr(progress.time, "perf_counter", lambda: float(next(seconds)))


def lines_of_a_file(dones, total, size=1):
    """What a log file gets of a job that is told so."""
    file = io.StringIO()
    with progress.rate_bar(Console(file=file, width=200), "encoding x.txt", "sentences", size) as show:
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


@pytest.mark.usefixtures("clock")
def test_the_rate_is_of_what_was_done_here():
    """What an interrupted job had done before does not count, nor is a rate told that nothing is known of."""
    assert lines_of_a_file([8000, 8100], 8100, size=10) == [
        "encoding x.txt: 800 of 810 sentences",
        "encoding x.txt: 810 of 810 sentences, 10 sentences/s, in 2 s",
    ]
    assert lines_of_a_file([7], 7) == ["encoding x.txt: 7 of 7 sentences, in 1 s"]


def test_a_job_that_does_nothing_says_nothing():
    assert lines_of_a_file([], 7) == []


def terminal(width):
    return Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)


def drawn(bar, width):
    """What the terminal shows of a bar, without trailing spaces."""
    console = terminal(width)
    console.print(bar)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("width", [200, 80, 60, 40])
@pytest.mark.parametrize("what", ["[x] encoding", "runs/a-name-of-a-run-that-takes-more-than-a-line-of-a-terminal"])
def test_nothing_is_cut_at_any_width(width, what):
    bar = Bar(terminal(width), what, "sentences")
    bar(0, 3000)
    bar(1200, 3000, note="loss 5.318  accuracy 0.014")
    bar.end()
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


def test_a_terminal_shows_what_is_loaded_before_anything_is_counted():
    console = terminal(80)
    with progress.rate_bar(console, "parsing", "lines") as bar:
        bar.stage("loading the parser")
        (line,) = drawn(bar, 80)
        assert line.endswith("parsing: loading the parser")
        bar(0, 10)
        assert "loading" not in drawn(bar, 80)[0]
    with progress.rate_bar(terminal(80), "parsing", "lines") as bar:
        bar.stage("loading the parser")
    assert bar._live.transient  # a job that was refused leaves no trace


def test_units_of_different_sizes_have_no_time_left_but_stages():
    file = io.StringIO()
    with progress.rate_bar(Console(file=file, width=200), "run", "tasks", percent=False, steady=False) as bar:
        bar(0, 2)
        bar.stage("MR: scoring")
        bar.stage("MR: scoring")
        bar(1, 2)
        assert drawn(bar, 80)[0].startswith("run ")
        assert "1 of 2 tasks  MR: scoring  less than 1 s so far" in drawn(bar, 80)[0]
    lines = file.getvalue().splitlines()
    assert [line.partition(",")[0] for line in lines] == ["run: 0 of 2 tasks", "run: MR: scoring", "run: 1 of 2 tasks"]
    assert not any("left" in line or "tasks/s" in line for line in lines)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "less than 1 s"),
        (0.4, "less than 1 s"),
        (7.6, "8 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3599.6, "1 h 00 min"),
        (7499, "2 h 05 min"),
        (86370, "1 d 00 h"),
        (273600, "3 d 04 h"),
    ],
)
def test_times_are_said_as_people_say_them(seconds, said):
    assert duration(seconds) == said


def test_nouns_agree_with_their_numbers():
    assert [counted(n, "sentence") for n in (0, 1, 3156)] == ["0 sentences", "1 sentence", "3,156 sentences"]
    assert counted(2, "analogy", "analogies") == "2 analogies"
