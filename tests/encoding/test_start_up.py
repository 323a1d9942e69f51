"""What a first sentence waits for: imports, which take longer than the sentence."""

import subprocess
import sys

HEAVY = {"nltk", "pandas", "scipy", "sklearn", "spacy", "sympy", "thinc", "torch._dynamo", "transformers", "triton"}
TOLD = "import sys; before = set(sys.modules)\n{}\nprint(*set(sys.modules) - before)"


def imported_by(code, beside=""):
    """The modules that a fresh process imports for some code, but not for other code ahead of it."""
    command = [sys.executable, "-c", f"{beside}\n{TOLD.format(code)}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_a_first_vector_imports_no_library_that_it_does_not_use():
    code = """from structviews import Embedder
embedder = Embedder.load("default")
assert embedder.encode(["The cat sat.", "It isn't (so) at www.example.org."]).shape == (2, embedder.dim)"""
    imported = imported_by(code, beside="import torch")
    assert "structviews.parsing.tokenising" in imported
    assert HEAVY & set(imported) == set()
    assert "structviews.parsing.backends.stanza" not in imported


def test_importing_the_package_imports_nothing_else():
    imported = imported_by("import structviews")
    assert "structviews" in imported
    assert [name for name in imported if name.startswith(("structviews.", "torch", "numpy"))] == []
