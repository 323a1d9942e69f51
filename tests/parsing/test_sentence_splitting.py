from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structviews.parsing import text
from structviews.parsing.sentence_splitting import ENDS, sentence_starts, split_sentences

CORPUS = Path(__file__).parents[3] / "shared/data/corpus/sample-10k.txt"


def test_sentences_of_real_text_are_found_again():
    if not CORPUS.exists():
        pytest.skip("needs ../shared/data")
    sentences = text.read_sentences(CORPUS, "lines", tokenised=False, language="en")
    lines = [" ".join(sentence.text.split()) for sentence in sentences][:2000]
    running = " ".join(lines)
    found = {running[start:end] for start, end in split_sentences(running, False, "en")}
    assert sum(line in found for line in lines) > 0.9 * len(lines)


@given(st.text(alphabet="aB.!\"'( \n", max_size=60), st.booleans())
def test_sentences_cover_the_text_in_order(content, tokenised):
    spans = split_sentences(content, tokenised, "en")
    assert all(start < end for start, end in spans)
    assert "".join("".join(content[start:end].split()) for start, end in spans) == "".join(content.split())


def test_what_ends_a_sentence_is_what_spacy_says():
    sentencizer = pytest.importorskip("spacy.pipeline").Sentencizer
    assert sorted(sentencizer.default_punct_chars) == sorted(ENDS)


@given(st.lists(st.sampled_from(["a", "B", ".", "?", "。", '"', ")", "...", "-", "\n", "3", "$"]), max_size=12))
def test_sentences_start_where_those_of_spacy_do(words):
    spacy = pytest.importorskip("spacy")
    document = spacy.tokens.Doc(spacy.blank("xx").vocab, words=words)
    spacy.pipeline.Sentencizer()(document)
    assert list(sentence_starts(words)) == [bool(word.is_sent_start) for word in document]
