"""Text in another language than the run's is noticed, and English of any kind is taken for English."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding import encoding_pool, word_limit
from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import open_pool
from structviews.encoding.preparation import Preparer
from structviews.runs.settings_file import Parsed
from structviews.words.vocabulary import UNKNOWN, Vocabulary

ROOT = Path(__file__).parents[2]
OTHERS = {
    "de": "Der alte Mann ging mit seinem Hund durch den Wald und sah sich nicht um.",
    "fr": "Le vieil homme est dans la forêt avec son chien et ne nous a pas vus.",
    "pl": "Stary człowiek nie był w domu, tylko szedł przez las ze swoim psem, jak już wiesz.",
    "fi": "Vanha mies ei ollut kotona, mutta hän oli metsässä koiransa kanssa, kun minä tulin.",
    "ru": "Старик шёл через лес.",  # few words, of another script
}
# What has few of the most frequent words, or few words.
ENGLISH = [
    "Bangladesh building collapse: death toll climbs past 800",
    "OFFERS A BREATH OF THE FRESH AIR OF TRUE SOPHISTICATION.",
    "for i, line in enumerate(lines): out += [line.strip()]",
    "Tendulkar, Dravid, Laxman, Sehwag",
    "lol omg @user so gr8 2 c u!! #fun",
    "",
]
LINE = "most words of this text are rare or unknown to the run, which was trained on language 'en'"


@pytest.fixture(scope="module")
def embedder():
    return Embedder.load("default")


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch):
    monkeypatch.setattr(word_limit, "_warned", set())


@pytest.mark.parametrize("language", OTHERS)
def test_a_sentence_in_another_language_is_noticed(embedder, language):
    line = embedder.preparer.language_remark([OTHERS[language].upper()])
    assert line.startswith(LINE)
    assert "--lang CODE --parser stanza" in line
    assert "\n" not in line


def test_nothing_is_said_of_english(embedder):
    texts = [*([text] for text in ENGLISH), ENGLISH]
    texts += [[OTHERS["de"], *["The old man went through the forest with his dog and did not look at us."] * 9]]
    for file in ("data/corpus.txt", "README.md"):
        lines = [line for line in (ROOT / file).read_text("utf-8").splitlines() if line.strip()]
        texts += [lines, *([line] for line in lines if file != "README.md")]
    assert [text for text in texts if embedder.preparer.language_remark(text)] == []


def test_a_run_of_few_words_says_nothing_and_of_many_knows_its_own():
    russian = Vocabulary([UNKNOWN, *(f"с{i}" for i in range(30_000)), *["старик", "шёл", "через", "лес"]])
    for vocabulary in (None, Vocabulary([UNKNOWN, "the", "of"])):
        assert Preparer(Parsed(), vocabulary=vocabulary).language_remark([OTHERS["de"]]) is None
    assert Preparer(Parsed(), vocabulary=russian).language_remark([OTHERS["de"]])
    own = Vocabulary([UNKNOWN, *russian.words[-4:], *russian.words[1:-4]])
    assert Preparer(Parsed(), vocabulary=own).language_remark([OTHERS["ru"]]) is None


def test_the_warning_comes_once_and_not_for_parsed_sentences(embedder):
    (parsed,) = embedder.prepare(["A bird sings."])
    tokens = tuple(OTHERS["de"].split())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedder.encode([replace(parsed, tokens=(*tokens[:3], *parsed.tokens[3:])), ParsedSentence(tokens)])
    with pytest.warns(UserWarning, match=LINE) as found:
        embedder.encode([OTHERS["de"]])
    assert [each.filename for each in found] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedder.encode([OTHERS["fr"].split()])
        embedder.with_limit(max_tokens=99).encode([OTHERS["de"]])


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("take", [encoding_pool.Task.take, lambda task: False])
def test_several_processes_say_it_once(embedder, monkeypatch, take):
    monkeypatch.setattr(encoding_pool, "SMALLEST", 1)
    monkeypatch.setattr(encoding_pool.Task, "take", take)
    with open_pool(embedder, 2) as pool, warnings.catch_warnings(record=True) as found:
        embedder.encode([OTHERS["de"]] * 4, 1, pool=pool)
        embedder.encode([OTHERS["de"]])
    assert [each.filename for each in found] == [__file__]
