"""Batches of a bearable size, and the check of a backend's answers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from chain_parser import ChainParser, chain
from hypothesis import given
from hypothesis import strategies as st

from structviews.parsing.parser import Fault, Tokeniser, Unparsed, batches
from structviews.parsing.specification import Guarded

SENTENCES = [["a"] * n for n in (3, 1, 9, 2, 30, 4, 1, 5)]


class Backend(ChainParser):
    """Parses into chains, with ``answer`` in between."""

    batch_tokens = 12

    def __init__(self, answer=list):
        self.answer = answer
        self.calls = []

    def parse(self, sentences):
        self.calls.append([len(words) for words in sentences])
        return self.answer(super().parse(sentences))


def guarded(answer=list):
    return Guarded(Backend(answer), "backend:x", "de")


@given(st.lists(st.integers(1, 50)), st.integers(1, 200))
def test_batches_are_of_sentences_by_length_and_as_many_as_fit_when_padded(lengths, most):
    found = list(batches(lengths, most))
    in_order = [i for batch in found for i in batch]
    assert in_order == sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    for batch, after in zip(found, [*found[1:], []], strict=False):
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or len(batch) * longest <= most
        assert not after or (len(batch) + 1) * lengths[after[0]] > most


def test_a_backend_is_given_batches_of_similar_length():
    parser = guarded()
    assert parser.parse(SENTENCES) == [chain(words) for words in SENTENCES]
    assert parser.parser.calls == [[1, 1, 2, 3], [4, 5], [9], [30]]


def on_gpu():
    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")


def in_python():
    raise MemoryError


FAILURES = [on_gpu, in_python, lambda: torch.empty(2**55), lambda: np.empty(2**55)]


@pytest.mark.parametrize(("fail", "most"), [*zip(FAILURES, (5, 0, 9, 29), strict=True), (on_gpu, 30)])
def test_where_memory_runs_out_batches_are_halved(fail, most):
    def answer(trees):
        if sum(len(tree.tokens) for tree in trees) > most:
            fail()
        return trees

    parsed = guarded(answer).parse(SENTENCES)
    for words, tree in zip(SENTENCES, parsed, strict=True):
        assert tree == (chain(words) if len(words) <= most else Fault("backend:x ran out of memory"))


def test_other_errors_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        guarded(lambda trees: 1 / 0).parse(SENTENCES)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        guarded(lambda trees: torch.ones(2, 3) @ torch.ones(2, 3)).parse(SENTENCES)


NO_TREES = {"left": (), "right": (), "labels": (), "heads": (), "relations": ()}


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (lambda tree: [], "returned 0 sentences for 1"),
        (lambda tree: [tree, tree], "returned 2 sentences for 1"),
        (lambda tree: [chain(["b"] * 4)], "returned different tokens"),
        (lambda tree: [replace(tree, heads=(2, 1, 0, 3))], "returned no valid tree: dependency cycle through word 1"),
        (lambda tree: [replace(tree, **NO_TREES)], "returned no constituency and no dependency tree"),
        (lambda tree: [None], "returned NoneType instead of a sentence"),
    ],
)
def test_a_wrong_answer_costs_its_own_sentence_only(answers, reason):
    def answer(trees):
        return [each for tree in trees for each in (answers(tree) if len(tree.tokens) == 4 else [tree])]

    expected = [Fault(f"backend:x {reason}") if len(words) == 4 else chain(words) for words in SENTENCES]
    assert guarded(answer).parse(SENTENCES) == expected


class Splits(Backend):
    """Finds words between white space; of some texts none, and of some too many."""

    def tokenise(self, texts):
        if sum(map(len, texts)) > 20:
            raise MemoryError
        return [text.split(" ") for text in texts if text != "drop"]


def test_a_tokeniser_is_guarded_too():
    parser = Guarded(Splits(), "splits", "en")
    assert isinstance(parser, Tokeniser)
    assert not isinstance(guarded(), Tokeniser)
    assert parser.tokenise(["a b", "drop", "two  spaces", "x" * 21, "c"]) == [
        ("a", "b"),
        Fault("splits returned 0 sentences for 1"),
        Unparsed("token 2 is '': a token must not be empty or contain white space"),
        Fault("splits ran out of memory"),
        ("c",),
    ]
