"""How sure the parser is: computed, kept beside the trees, shown, and used in training."""

import numpy as np
import pytest
import torch
from shell import fails
from tiny_parsers import sentences

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.parsing.backends.builtin import HEADS_TEMPERATURE, LABELS_TEMPERATURE
from structviews.parsing.decoding import marginals
from structviews.parsing.parser import Options
from structviews.parsing.specification import load
from structviews.training.data import confident

TEXT = "\n".join(" ".join(sentence.tokens) for sentence in sentences()) + "\n"
FLAGS = ("--format", "lines", "--tokenised")


@pytest.fixture
def corpus(tmp_path, command):
    (tmp_path / "t.txt").write_text(TEXT)
    assert command("parse", "t.txt", *FLAGS, "--confidence", "-o", "sure.parsed")[0] == 0
    assert command("parse", "t.txt", *FLAGS, "-o", "plain.parsed")[0] == 0
    return ParsedCorpus.open(tmp_path / "sure.parsed")


@torch.inference_mode()
def test_it_is_the_product_and_the_mean_of_the_probabilities_of_a_trees_choices(monkeypatch):
    """Of one sentence at a time, from the scores of its batch: heads among all trees, labels at their spans."""
    parser = load("builtin", Options(confidence=True)).parser
    seen = []
    compute = parser.network.outputs
    monkeypatch.setattr(parser.network, "outputs", lambda *call: seen.append(compute(*call)) or seen[-1])
    for sentence in sentences():
        seen.clear()
        (tree,) = parser.parse([sentence.tokens])
        n, (outputs,) = len(tree.tokens), seen
        arcs = marginals(outputs.arcs.float().numpy() / HEADS_TEMPERATURE, np.array([n]))[0]
        heads = [arcs[word, head] for word, head in enumerate(tree.heads, 1)]
        spans = torch.tensor([(start, end) for start, end, _ in tree.spans()])
        scores = (parser.network.spans(outputs.posts, *spans.T) / LABELS_TEMPERATURE).softmax(dim=1)
        names = parser.settings["labels"]
        labels = [float(scores[i, names.index(label)]) for i, (*_, label) in enumerate(tree.spans())]
        expected = [np.prod(heads), np.mean(heads), np.prod(labels), np.mean(labels)]
        np.testing.assert_allclose(tree.confidence, expected, rtol=1e-4)
        assert all(0 < value <= 1 for value in tree.confidence)


def test_the_corpus_keeps_it_and_the_trees_are_the_same(corpus, command, tmp_path):
    plain = ParsedCorpus.open(tmp_path / "plain.parsed")
    assert [row.sentence for row in corpus] == [row.sentence for row in plain]
    assert {len(row.confidence) for row in plain} == {0}
    parser = load("builtin", Options(confidence=True))
    expected = [tree.confidence for tree in parser.parse([row.sentence.tokens for row in corpus])]
    np.testing.assert_allclose([row.confidence for row in corpus], expected, rtol=1e-5)
    assert "\nconfidence: heads product " in command("inspect", "sure.parsed", "--sentence", 1)[1]
    assert "confidence: heads mean" in command("corpus", "stats", "sure.parsed")[1]
    assert command("verify", "sure.parsed")[0] == 0
    assert command("corpus", "merge", "sure.parsed", "sure.parsed", "-o", "both.parsed")[0] == 0
    both = ParsedCorpus.open(tmp_path / "both.parsed")
    assert [row.confidence for row in both] == [row.confidence for row in corpus] * 2
    assert "differs in kept" in fails(command, tmp_path, "parse", "t.txt", *FLAGS, "-o", "sure.parsed")
    assert "only trees" in fails(command, tmp_path, "corpus", "merge", "sure.parsed", "plain.parsed", "-o", "x.parsed")


def test_training_leaves_out_what_the_parser_was_not_sure_of(corpus, command, tmp_path):
    means = np.array([row.confidence for row in corpus])[:, [1, 3]].min(axis=1)
    least = float(np.median(means))
    np.testing.assert_array_equal(confident(corpus, least), means >= least)
    arguments = ("train", "--views", "dep,const", "--corpus", "plain.parsed", "--min-confidence", 0.5, "-o", "run")
    message = "does not say how sure its parser was: parse the text again with --confidence"
    assert message in fails(command, tmp_path, *arguments)
    arguments = ("train", "--views", "dep,const", "--corpus", "sure.parsed", "--min-confidence", 1, "-o", "run")
    assert "0 training sentences with --min-confidence 1.0: give a lower one" in fails(command, tmp_path, *arguments)


def test_a_combination_has_that_of_each_part_and_others_say_none(tmp_path, command):
    both = load("builtin+builtin", Options(confidence=True))
    alone = load("builtin", Options(confidence=True))
    tokens = [each.tokens for each in sentences()]
    assert [t.confidence for t in both.parse(tokens)] == [t.confidence for t in alone.parse(tokens)]
    heads = load("builtin+heads", Options(confidence=True)).parse(tokens)
    expected = [(*t.confidence[:2], np.nan, np.nan) for t in alone.parse(tokens)]
    np.testing.assert_array_equal([t.confidence for t in heads], expected)
    (tmp_path / "t.txt").write_text(TEXT)
    line = fails(command, tmp_path, "parse", "t.txt", "--parser", "trivial:random", "--confidence", "-o", "x.parsed")
    assert line == "error: --confidence: trivial:random does not say how sure it is: leave it out, or choose builtin"
