"""The tasks' trees from a parsed corpus."""

import warnings
from dataclasses import replace

import pytest
from corpora import RandomParser, random_trees, topic_rows, write_corpus

from structviews.corpus.format import Row
from structviews.errors import InputError
from structviews.evaluation.senteval.task_trees import TaskTrees

# Each sentence stands twice.
ROWS = topic_rows(5, 5) * 2


class Reads:
    """What of an embedder the trees must suit."""

    def __init__(self, *needs, parser=None):
        self.needs = frozenset({"tokens", *needs})
        self.parsers = [parser or RandomParser().describe()]


@pytest.fixture
def trees(tmp_path):
    return TaskTrees(write_corpus(tmp_path / "x.parsed", ROWS, shard_size=6))


def test_sentences_are_found_in_the_order_asked_for(trees):
    wanted = [row.sentence for row in ROWS[::-3]]
    assert trees.find([sentence.tokens for sentence in wanted]) == wanted
    assert trees.find([wanted[0].tokens, wanted[5].tokens, wanted[0].tokens]) == [wanted[0], wanted[5], wanted[0]]
    assert trees.find([]) == []
    # Also the first and the last of a shard, when nothing else is asked for.
    for row in ROWS[:25]:
        assert trees.find([row.sentence.tokens]) == [row.sentence]


def test_what_is_missing_is_one_line(trees):
    there = ROWS[0].sentence.tokens
    with pytest.raises(InputError, match=r"x.parsed: 2 of 3 sentences of MR are missing, such as 'no one': parse"):
        trees.check([there, ("no", "one"), ("none",)], "MR")
    with pytest.raises(InputError, match="1 of 1 sentences of the tasks are missing"):
        trees.find([("none",)])


def test_another_parser_warns(trees):
    with pytest.warns(UserWarning, match="parsed with random 1, but the run was trained on trees of random 2"):
        trees.suit(Reads("dependency", parser=RandomParser(version="2").describe()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trees.suit(Reads("dependency", "constituency"))


def test_a_corpus_without_the_trees_that_are_read(tmp_path):
    bare = replace(random_trees(["a", "b"]), left=(), right=(), labels=())
    trees = TaskTrees(write_corpus(tmp_path / "x.parsed", [Row(0, 0, 1, bare)]))
    trees.suit(Reads("dependency"))
    with pytest.raises(InputError, match=r"x.parsed has no constituency trees \(parser random\)"):
        trees.suit(Reads("dependency", "constituency"))
