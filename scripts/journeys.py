"""How large the code is, and how many functions one sentence passes: one table.

    python scripts/journeys.py                        # of the structviews that this Python imports
    python scripts/journeys.py --list encode          # also the functions of one journey, file by file

Lines are `wc -l` of Python files. A journey is run in a new process on a few sentences of data/corpus.txt, and every
function of ours that it calls is counted once, in all threads of that process, with its file: functions, methods and
properties by name, nested ones too; not comprehensions, lambdas, class bodies or modules.

- parse: `structviews parse FILE --workers 1` of 20 sentences, from the command line's start to its end.
- train: `TrainConfig.of` and `training.loop.train` with them, of dep,const on those sentences, until the optimiser is
  about to take its first step; the command line is not counted.
- encode: `Embedder.encode` of one raw sentence with the bundled model `default`, which is loaded before; as it is the
  first call, it loads the parser. encode-again is the second call.

The first help screen is `structviews --help`, 80 columns wide. Rings are sets of files that import one another.
"""

import argparse
import ast
import contextlib
import io
import multiprocessing
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import networkx  # of PyTorch's own dependencies
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

import structviews
from structviews.cli import app
from structviews.encoding.embedder import Embedder
from structviews.runs.config import TrainConfig
from structviews.training.loop import train

ROOT = Path(structviews.__file__).resolve().parents[1]
OURS = ("structviews", "parsing")
SENTENCES = 20
JOURNEYS = {
    "parse": "functions (files) of one short parse",
    "train": "functions (files) from train to the step",
    "encode": "functions (files) from encode to the vector",
    "encode-again": "the same, once the parser is loaded",
}


class _Reached(BaseException):
    """The end of a journey; not an Exception, so that nothing on the way handles it."""


class Trace:
    """The functions of ours that are called while this is open, in this process."""

    def __init__(self) -> None:
        self.called: set[CodeType] = set()

    def __enter__(self) -> "Trace":
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        threading.setprofile(None)
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self.called.add(frame.f_code)

    def functions(self) -> list[tuple[str, str]]:
        """File and qualified name of each function of ours."""
        folders = tuple(f"{ROOT / folder}/" for folder in OURS)
        # Functions have fast locals (the flag 1); modules and the bodies of classes do not.
        found = (code for code in self.called if code.co_flags & 1 and not code.co_name.startswith("<"))
        return sorted(
            {
                (str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname)
                for code in found
                if code.co_filename.startswith(folders)
            }
        )


def _parse(folder: Path) -> None:
    lines = [line for line in (ROOT / "data/corpus.txt").read_text("utf-8").splitlines() if line]
    (folder / "corpus.txt").write_text("\n".join(lines[:SENTENCES]) + "\n", "utf-8")
    sys.argv = ["structviews", "parse", str(folder / "corpus.txt"), "-o", str(folder / "corpus.parsed"), "--workers=1"]
    with contextlib.suppress(SystemExit):
        app.main()


def walk(journey: str, folder: Path) -> list[tuple[str, str]]:
    """The functions of one journey, run in this process; ``parse`` leaves the corpus for ``train`` in the folder."""
    torch.set_num_threads(1)
    trace = Trace()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if journey == "parse":
            with trace:
                _parse(folder)
        elif journey == "train":

            def reached(*_: Any) -> None:
                raise _Reached

            register_optimizer_step_pre_hook(reached)
            with contextlib.suppress(_Reached), trace:
                corpus, run = str(folder / "corpus.parsed"), str(folder / "run")
                train(TrainConfig.of(corpus=corpus, views=("dep", "const"), out=run, hidden=8, steps=1))
        else:
            embedder = Embedder.load("default")
            if journey == "encode-again":
                embedder.encode("The oven is hot.")
            with trace:
                embedder.encode("The keeper who saw the boats lit the lamp.")
    return trace.functions()


def walks() -> dict[str, list[tuple[str, str]]]:
    """The functions of every journey, each in a process of its own."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for journey in JOURNEYS:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found[journey] = pool.apply(walk, (journey, Path(folder)))
    return found


def python_files(*folders: str) -> list[Path]:
    """The Python files below these folders of the repository."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def lines_of(paths: list[Path]) -> int:
    """Lines of some files together."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def longest_function(paths: list[Path]) -> tuple[int, str]:
    """Lines, and place, of the longest function."""
    found = [
        (node.end_lineno - node.lineno + 1, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
        for path in paths
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    ]
    return max(found)


def imports() -> dict[str, set[str]]:
    """The modules of ours that each module imports at its top, not for type checking alone."""
    paths = {}
    for folder, package in (("structviews", "structviews"), ("parsing", "structviews.parsing")):
        for path in python_files(folder):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            paths[".".join((package, *parts)).removesuffix(".__init__")] = path
    arrows: dict[str, set[str]] = {name: set() for name in paths}
    for name, path in paths.items():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.Import):
                targets = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                module = node.module
                targets = {full if (full := f"{module}.{a.name}") in paths else module for a in node.names}
            else:
                continue
            arrows[name] |= targets & paths.keys() - {name}
    return arrows


def rings(arrows: dict[str, set[str]]) -> Iterator[list[str]]:
    """Sets of modules that reach one another."""
    return (sorted(ring) for ring in networkx.strongly_connected_components(networkx.DiGraph(arrows)) if len(ring) > 1)


def help_screen() -> tuple[int, int]:
    """Commands on the first help screen, and its lines."""
    sys.argv = ["structviews", "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        app.main()
    lines = out.getvalue().splitlines()
    # A command's row begins with its name; one that goes on, with spaces; an option's, with dashes.
    return sum(line.startswith("│ ") and line[2].isalpha() for line in lines), len(lines)


def rows(walked: dict[str, list[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    """The table: what is measured, and its value."""
    code = python_files(*OURS)
    yield "lines of structviews and parsing", f"{lines_of(code):,}"
    yield "files there", str(len(code))
    yield "lines of tests", f"{lines_of(python_files('tests')):,}"
    yield "lines of scripts", f"{lines_of(python_files('scripts')):,}"
    for journey, functions in walked.items():
        yield JOURNEYS[journey], f"{len(functions)} ({len({file for file, _ in functions})})"
    commands, height = help_screen()
    yield "commands on the first help screen (its lines)", f"{commands} ({height})"
    length, place = longest_function(code)
    yield f"longest function: {place}", str(length)
    file = max(code, key=lambda path: lines_of([path]))
    yield f"longest file: {file.relative_to(ROOT)}", str(lines_of([file]))
    yield "rings of imports", str(len(list(rings(imports()))))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=JOURNEYS, help="also print this journey's functions")
    listed = parser.parse_args().list
    walked = walks()
    print("| | |\n|---|--:|")
    for name, value in rows(walked):
        print(f"| {name} | {value} |")
    if listed:
        by_file = defaultdict(list)
        for file, name in walked[listed]:
            by_file[file].append(name)
        for file, names in by_file.items():
            print(f"\n{file}")
            print("".join(f"    {name}\n" for name in names), end="")


if __name__ == "__main__":
    main()
