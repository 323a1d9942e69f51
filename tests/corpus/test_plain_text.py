"""Text from tokens: as its writer had it, wherever tokens tell."""

from pathlib import Path

import pytest

from structviews.corpus.plain_text import plain_text
from structviews.parsing.tokenising import tokenise

TEXTS = [
    "The five-lobed leaves (of the maple), and its seeds, don't fall.",
    '"True," said Mr. Bennet, "but it is a comfort."',
    'No," returned the stranger, "but once and away."',
    "The birds' nests cost $5, or 40% of what he'd pay; cannot you?",
    "It is 'good', isn't it -- or so she says...",
    'To prevent this, "secret scanning" was added.',
    "“Here‘s one”, she wrote, and/or read.",
]


@pytest.mark.parametrize("text", TEXTS)
def test_english_comes_back_as_it_was(text):
    tokens = tokenise(text)
    assert " ".join(tokens) != text
    assert plain_text(tokens) == text


def test_brackets_and_quotes_of_treebanks_and_scripts_without_spaces():
    assert plain_text(["``", "A", "-LRB-", "b", "-RRB-", "''"]) == "“A (b)”"
    assert plain_text(["我", "喜欢", "鸟", "。"]) == "我喜欢鸟。"
    assert plain_text(["-"]) == "-"
    assert plain_text(["'"]) == "'"


def test_the_sample_corpus_comes_back():
    lines = Path(__file__).parents[2].joinpath("data/corpus.txt").read_text("utf-8").splitlines()
    texts = [" ".join(line.split()) for line in lines if line][:400]
    same = sum(plain_text(tokenise(text)) == text for text in texts)
    assert same >= 0.98 * len(texts)
