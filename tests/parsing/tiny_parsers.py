"""The backends that tests go over, and tiny models of the other libraries' parsers in the libraries' own files."""

import functools
import importlib.util
import sys
from pathlib import Path

import pytest

from structviews.parsing.backends.trivial import SHAPES
from structviews.parsing.specification import load

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

SENTENCES = """The black bird sat on a dead tree .
She said that her brother had bought three old books .
Go home !
( It rained , and nobody minded )
When the dog barked , the cat that we had found ran away .
Who knows ?"""
# Of tokens that brackets, other formats and vocabularies use for themselves, and that few models have seen.
ODD_SENTENCES = [
    ["The", "bird", "sat", "."],
    ["Go"],
    ["(", "[", "{", "}", "]", ")", "-LRB-", "a-RRB-b", "``", "''", "1\\/2"],
    ["naïve", "😀", "👩‍👩‍👧", "\ufeff", "عربى", "漢字", "a\u0301", "1\u2423000"],
    ["_", "#", "%", "|", "+", "<s>", "-NONE-", "NP=2", "x" * 200],
]
# What ``--parser`` is given for each kind of model: the library that it needs, and the model.
SPECIFICATIONS = {"stanza": "stanza", "benepar": "benepar:tiny.pt", "benepar-t5": "benepar", "spacy": "spacy:tiny"}
# What ``--parser`` is given -> the kind of models, if any. A new backend joins the test of their contract by a line.
CASES = dict.fromkeys(["builtin", *(f"trivial:{shape}" for shape in SHAPES)])
CASES |= {specification: kind for kind, specification in SPECIFICATIONS.items()}


@functools.cache
def sentences():
    """With both kinds of tree."""
    return load("builtin").parse([text.split() for text in SENTENCES.splitlines()])


def make(kind, folder):
    """Models of a kind in a folder for ``--models``."""
    library = SPECIFICATIONS[kind].partition(":")[0]
    if not importlib.util.find_spec(library):
        pytest.skip(f"{library} is not installed: pip install 'structviews[parsers]'")
    import torch
    from benchmarks import parser_models

    torch.manual_seed(0)
    make, path = {
        "stanza": (parser_models.stanza_models, folder),
        "benepar": (parser_models.benepar_model, folder / "tiny.pt"),
        "benepar-t5": (parser_models.benepar_t5, folder / "benepar_en3"),
        "spacy": (parser_models.spacy_pipeline, folder / "tiny"),
    }[kind]
    make(path, sentences(), tiny=True)
