"""Relations as numbers, and labels against a loop over words."""

import json
from pathlib import Path

import numpy as np
import pytest
from corpora import opened, tiny_corpus, write_corpus
from trees_for_tests import SHAPES, gum, related

from structviews.corpus.layout import Row
from structviews.corpus.relations import LABELS, RELATIONS, has_relations, relation_numbers, word_labels
from structviews.corpus.sentence import ParsedSentence

MODEL = Path(__file__).parents[2] / "parsing" / "models" / "builtin" / "model.json"


def test_the_numbers_of_relations_are_fixed():
    """Weights depend on them: another list needs another view."""
    assert relation_numbers(["acl", "nsubj", "xcomp", "acl:relcl", "obl:unmarked"]).tolist() == [1, 27, 37, 38, 57]
    assert LABELS == (58, 3)
    assert len(set(RELATIONS)) == len(RELATIONS)


def test_a_subtype_that_is_not_listed_is_its_relation_and_any_other_name_is_unknown():
    expected = {"nmod:poss": "nmod:poss", "nmod:other": "nmod", "nmod": "nmod", "ROOT": "root"}
    numbers = [1 + RELATIONS.index(name) for name in expected.values()]
    assert relation_numbers([*expected, "dobj", "_", ""]).tolist() == [*numbers, 0, 0, 0]
    assert has_relations(["_", "nmod:other"])
    assert not has_relations(["_", "dobj", "root"])
    assert has_relations(["ROOT"])  # of a sentence of one word in any scheme


def test_the_parser_of_the_package_gives_no_unknown_relation():
    names = json.loads(MODEL.read_text(encoding="utf-8"))["relations"]
    assert set(names) <= set(RELATIONS)
    assert len(names) > 40


@pytest.mark.parametrize("make", [lambda: map(related, SHAPES["random"]), lambda: gum(50)], ids=["random", "GUM"])
def test_a_label_is_the_relation_and_the_side_of_the_head(make):
    some = [*make()]
    expected = [
        (relation_numbers([relation])[0], 0 if head == 0 else 1 if place < head else 2)
        for sentence in some
        for place, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True), 1)
    ]
    heads = np.concatenate([np.array(sentence.heads, np.uint8) for sentence in some])
    relations = relation_numbers(relation for sentence in some for relation in sentence.relations)
    labels = word_labels(heads, relations, np.array([len(sentence.tokens) for sentence in some]))
    assert list(zip(*np.divmod(labels, LABELS[1]), strict=True)) == expected
    assert labels.max() < LABELS[0] * LABELS[1]


def test_a_corpus_without_relations_is_refused_in_one_line(tmp_path, one_line):
    opened(tiny_corpus(tmp_path / "x.parsed")).require("labelled")
    for relations in (("_", "_"), ("ROOT", "oa")):  # of no scheme, and of another one
        bare = ParsedSentence(("Go", "."), heads=(0, 1), relations=relations)
        corpus = opened(write_corpus(tmp_path / f"bare{relations[1]}.parsed", [Row(0, 0, 1, bare)]))
        corpus.require("dependency")
        with one_line(r"\.parsed: its .* trees have no relations .*\(parser random\)"):
            corpus.require("labelled")
    word = ParsedSentence(("Go",), heads=(0,), relations=("root",))
    opened(write_corpus(tmp_path / "word.parsed", [Row(0, 0, 1, word)])).require("labelled")
    none = opened(write_corpus(tmp_path / "none.parsed", [Row(0, 0, 1, ParsedSentence(("Go",)))]))
    with one_line(r"none\.parsed has no dependency trees"):
        none.require("labelled")
