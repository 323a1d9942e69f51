"""What users see: controls are shown, and nothing in a name is an escape, markup or an emoji."""

import ast
import io
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

import structviews
from structviews.runtime.terminal import Terminal, visible

COPY = "\x1b]52;c;aGVsbG8=\x07"
COPY_SHOWN = r"\x1b]52;c;aGVsbG8=\x07"
# What a terminal obeys and rich writes itself: colours and moves.
RICH = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
PACKAGE = Path(structviews.__file__).parent
MODULES = sorted([*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "parsing").rglob("*.py")])


def test_every_control_is_shown():
    shown = {chr(code) for code in range(sys.maxunicode + 1) if visible(chr(code)) == chr(code)}
    hidden = {chr(code) for code in range(sys.maxunicode + 1)} - shown
    controls = {char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char) in ("Cc", "Cs")}
    directions = {"\u061c", *map(chr, (*range(0x200E, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A)))}
    assert hidden == controls - {"\t", "\n"} | directions


def test_escapes_are_those_of_python():
    assert visible("a\x1b[2Jb\r\n\tc\u202ed\x9b\udc80") == "a\\x1b[2Jb\\r\n\tc\\u202ed\\x9b\\udc80"
    assert visible("naïve 猫 👩‍👩‍👧 שלום") == "naïve 猫 👩‍👩‍👧 שלום"


def table_of(cell):
    table = Table("run")
    table.add_row(cell)
    return table


def bar_of(name):
    bar = Progress(TextColumn("{task.description}", markup=False))
    bar.add_task(name)
    return bar


@pytest.mark.parametrize("make", [str, Text, table_of, lambda name: table_of(Text(name)), bar_of])
@pytest.mark.parametrize("terminal", [True, False])
def test_no_control_reaches_a_terminal(make, terminal):
    file = io.StringIO()
    Terminal(file=file, force_terminal=terminal, width=80).print(make(f"x{COPY}\u202ey"))
    written = RICH.sub("", file.getvalue())
    assert visible(written) == written
    # Of texts that are not strings, rich itself drops the bell, and cuts them to their width without the escapes.
    assert (f"x{COPY_SHOWN}\\u202ey" if make in (str, table_of) else r"x\x1b]52;c;aG") in written


@pytest.mark.parametrize("name", ["[/x]", "[bold]x", "[link=http://x]y[/link]", ":heart:"])
@pytest.mark.parametrize("make", [str, table_of])
def test_markup_in_a_name_is_only_text(name, make):
    file = io.StringIO()
    Terminal(file=file, force_terminal=True, width=80, color_system=None).print(make(name))
    assert name in file.getvalue()


def test_tables_leave_room_for_what_is_shown():
    file = io.StringIO()
    Terminal(file=file, width=80).print(table_of("x\x1by"))
    assert len({len(line) for line in file.getvalue().splitlines()}) == 1


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_nothing_else_writes_for_people(path):
    """Consoles are ``Terminal``s, and nothing is printed past them."""
    if path.name == "terminal.py":
        return
    calls = [node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    names = [func.id for func in calls if isinstance(func, ast.Name)]
    assert not {"Console", "print"} & set(names)
