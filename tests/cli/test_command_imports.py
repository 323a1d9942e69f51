"""What a command imports and starts, since most of a short command's time goes into that."""

import subprocess
import sys

import pytest
from corpora import topic_corpus

TEXT = "".join(f"The {word} bird sings in the old tree .\n" for word in ("black", "small", "red"))
RUN = """
from structviews.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
IN_PYTHON = """
from structviews import Embedder
Embedder.load("default").encode(["The black bird sings."])
"""
MODULES = 'import sys\nprint(*sys.modules, sep="\\n", file=open("modules", "w"))\n'
ARRAYS = {"numpy", "pyarrow", "safetensors"}
# Scores, other parsers, PyTorch's compiler, and worker processes.
HEAVY = {"scipy", "sklearn", "spacy", "stanza", "gensim", "nltk", "sympy", "torch._dynamo", "torch._inductor"} | {
    "multiprocessing.popen_spawn_posix"
}
BUILTIN = "structviews.parsing.backends.builtin"


@pytest.mark.parametrize(
    ("arguments", "avoided", "needed"),
    [
        ("", HEAVY | {"typer"}, BUILTIN),  # in Python
        ("--help", HEAVY | ARRAYS | {"torch"}, "typer"),
        ("train --help", HEAVY | ARRAYS | {"torch"}, "typer"),
        ("parse a.txt --format lines --workers 2", HEAVY, BUILTIN),
        ("parse a.txt --format lines --parser trivial:balanced", HEAVY | {"torch"}, "pyarrow"),
        ("corpus stats b.parsed", HEAVY | {"torch"}, "pyarrow"),
        ("vectors b.parsed -o b.vec --epochs 1 --dim 4", {"torch"}, "gensim"),
        ("encode default a.txt -o a.npy", HEAVY, BUILTIN),
    ],
)
def test_a_command_imports_only_what_it_needs(tmp_path, arguments, avoided, needed):
    if needed == "gensim":
        pytest.importorskip("gensim")
    topic_corpus(tmp_path / "b.parsed")
    (tmp_path / "a.txt").write_text(TEXT)
    command = [sys.executable, "-c", (RUN if arguments else IN_PYTHON) + MODULES, *arguments.split()]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    modules = set((tmp_path / "modules").read_text().split())
    assert modules & avoided == set()
    assert needed in modules
