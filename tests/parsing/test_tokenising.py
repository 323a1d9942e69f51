import sys
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from structviews.parsing import text, tokenising
from structviews.parsing.tokenising import RULES, RulesFile, sentence_starts, split_sentences
from structviews.runtime.documents import read_json


def test_drawn_lines_and_data_are_words():
    line, data = "(" * 10_000, '{"a":' * 2000
    drawn, marks = tokenising.tokenise_all([f"{line} a ({data}.", f"{line[:9]}a"], "en")
    assert (drawn, marks) == ((line, "a", f"({data}."), (*line[:9], "a"))
    chinese = "你好，" * 2000
    assert tokenising.as_words(chinese) == chinese


def test_a_thread_that_empties_the_memory_takes_no_words_from_another(monkeypatch):
    def meanwhile(word):
        monkeypatch.setattr(tokenising, "REMEMBERED_PIECES", 0)
        return tokenising.tokenise_all([], "en") or word

    tokenising.tokenise_all(["a"], "en")
    monkeypatch.setattr(tokenising, "as_words", meanwhile)
    assert tokenising.tokenise_all(["a gnu's"], "en") == [("a", "gnu", "'s")]


def test_words_are_those_of_the_language():
    assert tokenising.tokenise_all(["Ich geh's z.B. an."], "de") == [("Ich", "geh's", "z.B.", "an", ".")]
    assert tokenising.rules("de").name == "spacy.blank('de')"
    assert tokenising.rules("en-gb").name == tokenising.rules("en").name == "English rules of spaCy"


@pytest.mark.parametrize(
    ("language", "missing", "message"),
    [
        ("qq", None, "^--lang qq: spaCy has no tokeniser"),
        ("ja", "sudachipy", "^--lang ja: spaCy has no tokeniser"),
        ("tr", "spacy", r"^--lang tr: .* spacy is not installed: pip install 'structviews\[spacy\]'"),
    ],
)
def test_a_language_without_rules_is_one_line(monkeypatch, language, missing, message, one_line):
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
    with one_line(message):
        tokenising.rules(language)


CORPUS = Path(__file__).parents[3] / "shared/data/corpus/sample-10k.txt"
SPECIAL = sorted(read_json(RULES, RulesFile, "")["special"])
# Characters that the patterns name, and others.
MARKS = "aBz09.',;:!?-–—/\\\"()[]{}<>=+*^~@#%&$€°²§_|“”‘’…«»•★☺😀é\u0301Жя中ا\u00a0 \t\n"
LINES = st.one_of(
    st.text(max_size=20),
    st.text(MARKS, max_size=25),
    st.text("aB.',!-/\"()12 \u00a0é", max_size=30),
    # Web addresses and numbers with units.
    st.lists(st.sampled_from(["http://", "www.", "a", "b.co", ".uk", ":80", "/x", "@", "10", ".", "km", "$", ","])).map(
        "".join
    ),
    # Special strings among others, glued and with spaces.
    st.tuples(st.sampled_from(["", " ", "  ", "-"]), st.lists(st.sampled_from(SPECIAL) | st.text(MARKS, max_size=3)))
    .map(lambda parts: parts[0].join(parts[1])),
)  # fmt: skip


@cache
def spacys_rules():
    pytest.importorskip("spacy")
    return tokenising.SpacyRules("en")


@given(LINES)
@example("(don't) \"I'm.\" 5km2, U.S. :-))) e.g.x a.B c,d e-f g=h www.x.org/a_(b)?c=d!")
@example("8) :) :-) (: x:) :)y 'tis \\n \\\") C++ C++. <space> '' a. a.. ...")
@example(" \n a  b \t")
@example("8)8) 8 )8)")
@example("8>:(((")  # emoticons that overlap
def test_words_are_those_of_spacy(line):
    assert tokenising.rules("en").spans([line]) == spacys_rules().spans([line])


def test_words_of_special_strings_and_real_text_are_spacys():
    if not CORPUS.exists():
        pytest.skip("needs ../shared/data")
    lines = [form.format(word) for word in SPECIAL for form in ("{}", "({})", "{}.", "a{}b", "-{}", "{0}{0}", "x,{}'s")]
    lines += [each.text for each in islice(text.read_sentences(CORPUS, "lines", tokenised=False, language="en"), 3000)]
    assert tokenising.rules("en").spans(lines) == spacys_rules().spans(lines)


@given(st.text(alphabet="aB.!\"'( \n", max_size=60), st.booleans())
def test_sentences_cover_the_text_in_order(content, tokenised):
    spans = split_sentences(content, tokenised, "en")
    assert all(start < end for start, end in spans)
    assert "".join("".join(content[start:end].split()) for start, end in spans) == "".join(content.split())


@given(st.lists(st.sampled_from(["a", "B", ".", "?", "。", '"', ")", "...", "-", "\n", "3", "$"]), max_size=12))
def test_sentences_start_where_those_of_spacy_do(words):
    spacy, vocabulary, sentencizer = spacys_sentencizer()
    document = sentencizer(spacy.tokens.Doc(vocabulary, words=words))
    assert list(sentence_starts(words)) == [bool(word.is_sent_start) for word in document]


@cache
def spacys_sentencizer():
    spacy = pytest.importorskip("spacy")
    return spacy, spacy.blank("xx").vocab, spacy.pipeline.Sentencizer()
