"""What a command imports and starts, since most of a short command's time goes into that."""

import subprocess
import sys

import pytest
from corpora import topic_corpus

TEXT = "".join(f"The {word} bird sings in the old tree .\n" for word in ("black", "small", "red"))
RUN = """
import sys
from structviews.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sys.modules, sep="\\n", file=open("modules", "w"))
"""
IN_PYTHON = """
import sys
from structviews import Embedder
Embedder.load("default").encode(["The black bird sings."])
print(*sys.modules, sep="\\n", file=open("modules", "w"))
"""
ARRAYS = {"numpy", "pyarrow", "safetensors"}
# Scores, other parsers, PyTorch's compiler, and worker processes.
HEAVY = {"scipy", "sklearn", "spacy", "stanza", "gensim", "nltk", "sympy", "torch._dynamo", "torch._inductor"} | {
    "multiprocessing.popen_spawn_posix"
}


def imported(folder, *arguments, code=RUN):
    """The names of the modules that a process has imported at its end."""
    (folder / "a.txt").write_text(TEXT)
    subprocess.run([sys.executable, "-c", code, *map(str, arguments)], cwd=folder, check=True, capture_output=True)
    return set((folder / "modules").read_text().split())


@pytest.mark.parametrize("command", ["", "train"])
def test_help_needs_no_arrays(command, tmp_path):
    modules = imported(tmp_path, *command.split(), "--help")
    assert modules & (HEAVY | ARRAYS | {"torch"}) == set()


def test_parsing_a_few_lines(tmp_path):
    modules = imported(tmp_path, "parse", "a.txt", "--format", "lines", "--workers", "2")
    assert modules & HEAVY == set()
    assert "structviews.parsing.backends.builtin" in modules


def test_word_vectors_do_without_pytorch(tmp_path):
    pytest.importorskip("gensim")
    topic_corpus(tmp_path / "b.parsed")
    modules = imported(tmp_path, "vectors", "b.parsed", "-o", "b.vec", "--epochs", "1", "--dim", "4")
    assert "gensim" in modules
    assert "torch" not in modules


def test_parsing_and_corpora_do_without_pytorch(tmp_path):
    modules = imported(tmp_path, "parse", "a.txt", "--format", "lines", "--parser", "trivial:balanced")
    modules |= imported(tmp_path, "corpus", "stats", "a.parsed")
    assert modules & (HEAVY | {"torch"}) == set()


@pytest.mark.parametrize(
    ("arguments", "code", "avoided"),
    [(["encode", "default", "a.txt", "-o", "a.npy"], RUN, HEAVY), ([], IN_PYTHON, HEAVY | {"typer"})],
)
def test_encoding_a_few_lines(tmp_path, arguments, code, avoided):
    modules = imported(tmp_path, *arguments, code=code)
    assert modules & avoided == set()
    assert "structviews.parsing.backends.builtin" in modules
