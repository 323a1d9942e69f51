"""What commands say while they work, and how often."""

import io
import warnings

import pytest
from rich.console import Console

from structviews.cli import app as cli
from structviews.runtime import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that is a second further at each look."""
    seconds = iter(range(1000))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: float(next(seconds)))


def lines_of_a_file(dones, total, size=1):
    """What a log file gets of a job that is told so."""
    file = io.StringIO()
    with progress.rate_bar(Console(file=file, width=200), "encoding x.txt", "sentences", size) as show:
        for done in dones:
            show(done, total)
            assert file.getvalue()  # at once, not at the end
    return file.getvalue().splitlines()


@pytest.mark.usefixtures("clock")
def test_a_log_file_gets_a_line_at_the_start_and_at_every_tenth():
    lines = lines_of_a_file(range(0, 1001, 10), 1000)
    assert lines[0] == "encoding x.txt: 0 of 1,000 sentences"
    assert lines[1].startswith("encoding x.txt: 100 of 1,000 sentences, ")
    assert lines[1].endswith(" sentences/s")
    assert [line.split()[2] for line in lines] == ["0", *(f"{n:,}" for n in range(100, 1001, 100))]


@pytest.mark.usefixtures("clock")
def test_the_rate_is_of_what_was_done_here():
    """What an interrupted job had done before does not count, nor is a rate told that nothing is known of."""
    assert lines_of_a_file([8000, 8100], 8100, size=10) == [
        "encoding x.txt: 800 of 810 sentences",
        "encoding x.txt: 810 of 810 sentences, 10 sentences/s",
    ]
    assert lines_of_a_file([7], 7) == ["encoding x.txt: 7 of 7 sentences"]


def test_a_job_that_does_nothing_says_nothing():
    assert lines_of_a_file([], 7) == []


def test_a_terminal_gets_a_bar_with_the_rate_of_a_single_block():
    file = io.StringIO()
    with progress.rate_bar(Console(file=file, force_terminal=True, width=200), "[x] encoding", "sentences") as show:
        show(0, 300)
        show(300, 300)
    (last,) = [line for line in file.getvalue().split("\r") if "100%" in line][-1:]
    assert "[x] encoding" in last
    assert "sentences/s" in last
    assert " 0 sentences/s" not in last


def test_a_warning_is_given_once(monkeypatch, capsys):
    def command(standalone_mode):
        for what in ("another parser", "another parser", "something else"):
            with warnings.catch_warnings():  # after which Python forgets what it has shown
                warnings.simplefilter("ignore")
            warnings.warn(what, stacklevel=1)

    monkeypatch.setattr(cli, "app", command)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(SystemExit):
            cli.main()
    assert capsys.readouterr().err.splitlines() == ["warning: another parser", "warning: something else"]
