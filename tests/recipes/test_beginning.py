"""The beginning of a text and of a parsed corpus against plain loops."""

import random

import pytest
from corpora import opened, topic_corpus

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.parsing.sources import open_source
from structviews.parsing.text import RawSentence
from structviews.recipes.beginning import first_documents, write_first_lines, write_first_rows


def plainly(sizes, n):
    """How many sentences of documents of these sizes are taken."""
    taken = 0
    for size in sizes:
        if taken + size > n:
            return taken or n
        taken += size
    return taken


@pytest.mark.parametrize("seed", range(20))
def test_whole_documents_are_taken(seed):
    draw = random.Random(seed)
    sizes = [draw.randint(1, 6) for _ in range(draw.randint(1, 6))]
    documents = [document for document, size in enumerate(sizes) for _ in range(size)]
    sentences = [RawSentence(document, 0, line, "x") for line, document in enumerate(documents, 1)]
    for n in range(1, len(sentences) + 3):
        taken = [each for document in first_documents(iter(sentences), n) for each in document]
        assert taken == sentences[: plainly(sizes, n)]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 9])
def test_the_beginning_of_a_text_has_its_documents(n, tmp_path):
    (tmp_path / "x.txt").write_text("a b\nc d\n\n\ne f\ng h\ni j\n\nk l\n")
    how = {"parser": "trivial:balanced", "layout": "lines", "tokenised": True, "max_tokens": 120}
    source = open_source([str(tmp_path / "x.txt")], **how)
    write_first_lines(source, n, tmp_path / "y.txt")
    again = list(open_source([str(tmp_path / "y.txt")], **how).sentences())
    whole = list(source.sentences())[: plainly([2, 3, 1], n)]
    assert [(each.document, each.position, each.text) for each in again] == [
        (each.document, each.position, each.text) for each in whole
    ]


@pytest.mark.parametrize("n", [1, 7, 100, 10_000])
def test_the_beginning_of_a_corpus_has_its_rows(n, tmp_path):
    corpus = opened(topic_corpus(tmp_path / "x.parsed"))
    rows = list(corpus)
    sizes = [sum(row.document == document for row in rows) for document in sorted({row.document for row in rows})]
    write_first_rows(corpus, n, tmp_path / "y.parsed")
    assert list(ParsedCorpus.open(tmp_path / "y.parsed")) == rows[: plainly(sizes, n)]
