"""What the README and docs/ tell people to type is typed, in order; what cannot be run here is parsed."""

import contextlib
import glob
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer
from code_blocks import ROOT, blocks_of, pages
from vector_files import random_vectors, write_vectors

from structviews.cli import app as cli

EXTRA = """
The whale swam along the coast as well as the boats.
A bird is singing on a dead tree.
She had won the race.
He had won the race.

Nobody saw a second whale that year.
A dog barks at the black bird.
Her mom keeps the nets as well as the sails.
Her dad keeps the nets as well as the sails.
"""
RUNS = {
    "dep-const": "dep,const",
    "seq-seq": "seq,seq --objective quick-thoughts",
    "seq-uni-seq-uni": "seq-uni,seq-uni --objective quick-thoughts",
    "seq-avg": "seq,avg --objective consensus",
    "seq-avg-2": "seq,avg --objective consensus --seed 2",
    "seq": "seq --objective consensus --agreement single",
    "avg": "avg --objective consensus --agreement single",
}
# What `train` is given where the page leaves it open, and a size in any case: pages train on millions of sentences.
SMALL = {"--word-dim": "8", "--epochs": "1"}
SIZE = ("--hidden", "8")
# What is there before a page's first command, beside corpus.txt, corpus.parsed and files of vectors and sentences.
GIVEN = {
    "docs/evaluation.md": ["dep-const"],
    "docs/encoding.md": ["dep-const"],
    "docs/report.md": ["dep-const", "seq-seq"],
    "docs/representations.md": ["seq-avg", "seq-avg-2", "seq-uni-seq-uni", "seq-seq", "seq", "avg"],
    "docs/retrieval.md": ["dep-const"],
    "docs/word-vectors.md": ["dep-const"],
}
# Pages that say which text they take: they are read where only data/ is, with the first lines of its text.
WITH_DATA = ["README.md", "docs/quickstart.md", "docs/guide.md"]
pytestmark = pytest.mark.usefixtures("one_thread")
PAGES = [page for page in pages() if blocks_of(page)]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """What commands and programs change of this process is put back."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)


def structviews(*words):
    """The command line, in this process."""
    if words[0] == "train":
        words = (*words, *(word for flag in SMALL.items() if flag[0] not in words for word in flag), *SIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["structviews", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert ended.value.code in (0, None), f"structviews {' '.join(words)} ended with {ended.value.code}"


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A parsed corpus, word vectors and runs, all small."""
    folder = tmp_path_factory.mktemp("given")
    text = ((ROOT / "tests/data/story.txt").read_text() + EXTRA + "\n") * 2
    with contextlib.chdir(folder):
        Path("corpus.txt").write_text(text)
        Path("sentences.txt").write_text("A dog barks .\nThe whale swam .\n")
        Path("analogies.tsv").write_text("He had won .\tShe had won .\tHis dad dies .\tHis mom dies .\n")
        for name in ("sample.conllu", "sample.ptb"):
            Path(name).write_bytes((ROOT / "data/treebank" / name).read_bytes())
        words = sorted(set(text.replace(".", " .").split()))
        for name in ("glove.txt", "glove.840B.300d.txt", "corpus.vec"):
            write_vectors(Path(name), words, random_vectors(words, dim=20))
        structviews("parse", "corpus.txt")
        Path("trained").mkdir()
    return folder


def trained(given, name):
    """A run, trained when the first page wants it."""
    run = given / "trained" / name
    if not run.exists():
        words = f"train --views {RUNS[name]} --out {run} --corpus {given / 'corpus.parsed'}"
        structviews(*words.split())
    return run


@pytest.fixture
def folder(request, given, tmp_path, monkeypatch):
    """A page's folder."""
    page = request.getfixturevalue("page")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "data").mkdir()
    for path in (ROOT / "data").iterdir():
        (tmp_path / "data" / path.name).symlink_to(path)
    if page in WITH_DATA:
        lines = (ROOT / "data/corpus.txt").read_text().splitlines(keepends=True)
        (tmp_path / "data/corpus.txt").unlink()
        (tmp_path / "data/corpus.txt").write_text("".join(lines[:300]))
        return tmp_path
    for path in given.iterdir():
        if path.is_file() or path.name == "corpus.parsed":
            (tmp_path / path.name).symlink_to(path)
    if page == "docs/cache.md":
        for name in ("novels", "reviews", "news"):
            (tmp_path / f"{name}.parsed").symlink_to(given / "corpus.parsed")
    for name in GIVEN.get(page, []):
        target = tmp_path / "runs" / name
        target.parent.mkdir(exist_ok=True)
        subprocess.run(["cp", "-r", trained(given, name), target], check=True)
    return tmp_path


def run(words):
    """A command, its patterns of file names filled in."""
    words = [name for word in words for name in (sorted(glob.glob(word)) or [word])]
    if words[0] == "structviews":
        structviews(*words[1:])
    else:
        assert words[0] == "python", f"nothing runs {words[0]} here: mark the block"
        subprocess.run([sys.executable, *words[1:]], check=True)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_in_order(page, folder):
    names = {"__name__": "page"}
    for block in blocks_of(page):
        print(f"{block.page}:{block.line}")
        if block.mark == "file":
            Path(block.of).parent.mkdir(parents=True, exist_ok=True)
            Path(block.of).write_text(block.text)
        elif block.python:
            code = compile(block.text, f"{block.page}:{block.line}", "exec")
            if block.mark != "not run":
                exec(code, names)
        else:
            for words in block.commands:
                if block.runs(words):
                    run(words)


@pytest.mark.parametrize("page", PAGES)
def test_flags_exist(page, monkeypatch):
    # Runs and corpora need not be there.
    monkeypatch.setattr("structviews.runs.folder.find_runs", lambda path: [path])
    monkeypatch.setattr("structviews.corpus.parsed_corpus.find_corpus", lambda **_: Path("corpus.parsed"))
    for block in blocks_of(page):
        for words in [] if block.python else block.commands:
            if "structviews" in words:
                parse(words[words.index("structviews") + 1 :])


def parse(words):
    """Parse a command line without running anything."""
    name, command, context = "structviews", typer.main.get_command(cli.app), None
    words = words[: words.index(">")] if ">" in words else words
    while hasattr(command, "resolve_command"):
        context = command.context_class(command, parent=context)
        name, command, words = command.resolve_command(context, words)
    command.make_context(name, words, parent=context)
