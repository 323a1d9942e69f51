"""The English rules give the words of spaCy, which is the oracle wherever it is installed."""

import string
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from structviews.parsing import text, tokenising
from structviews.parsing.english import RULES, RulesFile
from structviews.runtime.documents import read_json

CORPUS = Path(__file__).parents[3] / "shared/data/corpus/sample-10k.txt"
SPECIALS = read_json(RULES, RulesFile, "")["special"]
SPECIAL = sorted(SPECIALS)
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


def test_tokenise():
    assert tokenising.tokenise("Mr. Smith can't\u00a0go --  he's 5.30 late.") == (
        *("Mr.", "Smith", "ca", "n't", "go", "--"),
        *("he", "'s", "5.30", "late", "."),
    )


@given(LINES)
@example("(don't) \"I'm.\" 5km2, U.S. :-))) e.g.x a.B c,d e-f g=h www.x.org/a_(b)?c=d!")
@example("8) :) :-) (: x:) :)y 'tis \\n \\\") C++ C++. <space> '' a. a.. ...")
@example(" \n a  b \t")
@example("8)8) 8 )8)")
@example("8>:(((")  # emoticons that overlap
def test_words_are_those_of_spacy(line):
    assert tokenising.rules("en").places([line]) == spacys_rules().places([line])


@given(st.lists(st.text(alphabet="aBs.',!-/\"()12 \u00a0é", max_size=30), max_size=4))
def test_words_are_spacys_whatever_was_read_before(lines):
    found = zip(lines, spacys_rules().places(lines), strict=True)
    words = [tuple(line[a:b] for a, b in places if not line[a:b].isspace()) for line, places in found]
    assert tokenising.tokenise_all(lines, "en") == words


def test_special_strings_have_the_words_of_spacy():
    for pattern in ("{}", "({})", "{}.", "a{}b", "-{}", "{0}{0}", "x,{}'s"):
        lines = [pattern.format(string) for string in SPECIAL]
        assert tokenising.rules("en").places(lines) == spacys_rules().places(lines)


def test_words_of_real_text_are_spacys():
    if not CORPUS.exists():
        pytest.skip("needs ../shared/data")
    lines = [sentence.text for sentence in text.read_sentences(CORPUS, "lines", tokenised=False, language="en")]
    assert tokenising.rules("en").places(lines) == spacys_rules().places(lines)


def test_the_rules_say_where_they_are_from():
    rules = read_json(RULES, RulesFile, "")
    assert tokenising.describe_rules("en") == {"name": "English rules of spaCy", "version": rules["version"]}
    assert f"spaCy {rules['version']}" in rules["source"]
    assert "MIT" in rules["source"]
    assert RULES.with_name("LICENSE").read_text("utf-8").startswith("The MIT License")


@given(st.text(string.ascii_letters, min_size=1, max_size=12))
@example("Km")
@example("US")
def test_a_string_of_letters_is_a_word_unless_it_is_special(word):
    expected = SPECIALS.get(word, [word])
    found = tokenising.rules("en").places([word])[0]
    assert [word[a:b] for a, b in found] == expected
    assert spacys_rules().places([word]) == [found]
