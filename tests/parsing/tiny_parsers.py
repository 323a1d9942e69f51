"""Tiny models of the other libraries' parsers, with random weights, in the libraries' own files."""

import functools
import importlib.util
import sys
from pathlib import Path

import pytest

from structviews.parsing.specification import load

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

SENTENCES = [
    "The black bird sat on a dead tree .",
    "She said that her brother had bought three old books .",
    "Go home !",
    "( It rained , and nobody minded )",
    "When the dog barked , the cat that we had found ran away .",
    "Who knows ?",
]
# What ``--parser`` is given for each kind of model, and the library that it needs.
SPECIFICATIONS = {"stanza": "stanza", "benepar": "benepar:tiny.pt", "benepar-t5": "benepar", "spacy": "spacy:tiny"}
LIBRARIES = {"stanza": "stanza", "benepar": "benepar", "benepar-t5": "benepar", "spacy": "spacy"}


@functools.cache
def sentences():
    """With both kinds of tree."""
    return load("builtin").parse([text.split() for text in SENTENCES])


def make(kind, folder):
    """Models of a kind in a folder for ``--models``."""
    if not importlib.util.find_spec(LIBRARIES[kind]):
        pytest.skip(f"{LIBRARIES[kind]} is not installed: pip install 'structviews[parsers]'")
    import torch
    from benchmarks import parser_models

    torch.manual_seed(0)
    makers = {
        "stanza": parser_models.stanza_models,
        "benepar": lambda folder, *args, **sizes: parser_models.benepar_model(folder / "tiny.pt", *args, **sizes),
        "benepar-t5": lambda folder, *args, **sizes: parser_models.benepar_t5(folder / "benepar_en3", *args, **sizes),
        "spacy": lambda folder, *args, **sizes: parser_models.spacy_pipeline(folder / "tiny", *args, **sizes),
    }
    makers[kind](folder, sentences(), tiny=True)
