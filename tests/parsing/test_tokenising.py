import sys

import pytest

from structviews.errors import InputError
from structviews.parsing import tokenising


def test_drawn_lines_and_data_are_words():
    line, data = "(" * 10_000, '{"a":' * 2000
    assert tokenising.tokenise(f"{line} a ({data}.") == (line, "a", f"({data}.")
    assert tokenising.tokenise(f"{line[:9]}a") == (*line[:9], "a")
    chinese = "你好，" * 2000
    assert tokenising.as_words(chinese) == chinese


def test_words_are_those_of_the_language():
    assert tokenising.tokenise("Ich geh's z.B. an.", "de") == ("Ich", "geh's", "z.B.", "an", ".")
    assert tokenising.tokenise("L'eau n'est pas là.", "fr") == ("L'", "eau", "n'", "est", "pas", "là", ".")
    assert tokenising.describe_rules("de")["name"] == "spacy.blank('de')"
    assert tokenising.describe_rules("en") == tokenising.describe_rules("en-gb")
    assert tokenising.describe_rules("en")["name"] == "English rules of spaCy"


@pytest.mark.parametrize("language", ["qq", "ja"])
def test_a_language_without_rules_is_one_line(monkeypatch, language):
    monkeypatch.setitem(sys.modules, "sudachipy", None)  # what the rules for Japanese need
    with pytest.raises(InputError, match=f"--lang {language}: spaCy has no tokeniser") as error:
        tokenising.rules(language)
    assert "\n" not in str(error.value)


def test_a_language_without_spacy_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    why = r"^--lang tr: .* spacy is not installed: pip install 'structviews\[spacy\]'"
    with pytest.raises(InputError, match=why) as error:
        tokenising.rules("tr")
    assert "\n" not in str(error.value)


def test_words_that_were_forgotten_come_back(monkeypatch):
    lines = ["Mr. Smith can't", "go -- he's late."]
    before = tokenising.tokenise_all(lines, "en")
    monkeypatch.setattr(tokenising, "REMEMBERED_PIECES", 3)
    assert [tokenising.tokenise(line) for line in lines * 2] == before * 2
    assert len(tokenising.remembered_pieces("en")) <= 3 + 4
