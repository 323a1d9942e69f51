"""Tables are whole at any width."""

import io

import pytest
from rich.console import Console

from structviews.runtime.terminal import Table

NAME = "a-long-name-of-a-run-with-dep-and-seq-of-2026-11-22"
NUMBERS = "81.2", "[-21.8, +102.1]", "0.052", "1.000"


def shown(width):
    table = Table()
    table.add_column("run")
    for heading in ("A", "95 % interval", "p", "Holm"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row(NAME, *NUMBERS)
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    assert table.box is not None  # as it was
    assert table.columns[1].no_wrap
    return console.file.getvalue()


def test_a_table_that_fits_has_its_frame():
    assert shown(120).startswith("┏")


@pytest.mark.parametrize("width", [80, 60])
def test_a_name_is_folded_before_numbers_are(width):
    lines = shown(width).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line or "┃" in line for line in lines)
    assert all(any(number in line for line in lines) for number in NUMBERS)
    assert "".join(line.split()[0] for line in lines[3:] if line.strip()) == NAME


def test_where_not_even_the_numbers_fit_they_are_folded_too():
    text = shown(30)
    assert max(map(len, text.splitlines())) <= 30
    assert "…" not in text
    body = text.partition("─ \n")[2]
    assert all(body.count(digit) == "".join((NAME, *NUMBERS)).count(digit) for digit in "0123456789")
