"""Text in another language than the run's is noticed, and English of any kind is taken for English."""

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from structviews.corpus.sentence import ParsedSentence
from structviews.encoding import encoding_pool, text_language
from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import open_pool
from structviews.encoding.preparation import Preparer
from structviews.encoding.text_language import FUNCTION_WORDS, OTHER_SCRIPT, other_language, remark
from structviews.runs.settings_file import Parsed

ROOT = Path(__file__).parents[2]
OTHERS = {
    "de": "Der alte Mann ging mit seinem Hund durch den Wald und sah sich nicht um.",
    "fr": "Le vieil homme est dans la forêt avec son chien et ne nous a pas vus.",
    "es": "El viejo caminaba por el bosque con su perro y no miraba a los otros.",
    "it": "Il vecchio non era nella casa, ma con il suo cane nel bosco della valle.",
    "nl": "De oude man liep met zijn hond door het bos en keek niet om naar ons.",
    "pt": "O velho não foi para casa, mas com o seu cão por um caminho da floresta.",
    "pl": "Stary człowiek nie był w domu, tylko szedł przez las ze swoim psem, jak już wiesz.",
    "sv": "Den gamle mannen gick med sin hund till skogen och han såg inte på oss.",
    "cs": "Starý muž nebyl doma, ale šel se svým psem do lesa, který byl za městem, jak už to dělal.",
    "fi": "Vanha mies ei ollut kotona, mutta hän oli metsässä koiransa kanssa, kun minä tulin.",
    OTHER_SCRIPT: "Старик шёл через лес со своей собакой.",
}
# What has few of English's function words, or words that other languages have too.
ENGLISH = [
    "Bangladesh building collapse: death toll climbs past 800",
    "OFFERS A BREATH OF THE FRESH AIR OF TRUE SOPHISTICATION.",
    "ha, ha, ha, ha, ha!",
    "What U.S. state 's biggest lake is Lake Sam Rayburn?",
    "for i, line in enumerate(lines): out += [line.strip()]",
    "O'Driscoll, D'Arcy, Hickie, O'Gara, Stringer, Corrigan, de la Rue",
    "lol omg @user so gr8 2 c u!! #fun",
    "32 die in Bangladesh protest",
    "a man on a horse in an old hat",
    "12 x 34 = 408",
    "",
]


@pytest.mark.parametrize("language", OTHERS)
def test_a_sentence_in_another_language_is_noticed(language):
    assert other_language([OTHERS[language]], "en") == language
    assert other_language([OTHERS[language].upper()], "en") == language
    assert other_language([OTHERS[language], "A man and his dog."], "en") == language


@pytest.mark.parametrize("text", [*ENGLISH, " ".join(ENGLISH)])
def test_nothing_is_said_of_english(text):
    assert other_language([text], "en") is None


def test_nothing_is_said_of_english_texts():
    for corpus in (ROOT / "data/corpus.txt", ROOT / "README.md", ROOT / "structviews/settings.py"):
        lines = [line for line in corpus.read_text("utf-8").splitlines() if line.strip()]
        assert [line for line in lines if other_language([line], "en")] == []
        assert other_language(lines, "en") is None


def test_a_few_foreign_sentences_do_not_make_a_text_foreign():
    english = ["The old man went through the forest with his dog and did not look at us."] * 9
    assert other_language([OTHERS["de"], *english], "en") is None


def test_the_line_names_language_flag_and_parser():
    line = remark([OTHERS["de"]], "en")
    assert "\n" not in line
    assert "looks like German, but the run was trained on English" in line
    assert "--lang de --parser stanza" in line
    assert "Options('de')" in line
    assert "not in Latin script" in remark([OTHERS[OTHER_SCRIPT]], "en")


@pytest.mark.parametrize("own", sorted(FUNCTION_WORDS))
def test_a_run_knows_its_own_language(own):
    """And English is noticed by the runs of all others."""
    if own in OTHERS:
        assert remark([OTHERS[own]], own) is None
    found = other_language(["The old man went through the forest with his dog, and he did not look at us."], own)
    assert found == (None if own == "en" else "en")


def test_a_run_of_an_unknown_language_says_nothing():
    assert remark([OTHERS["de"]], "ru") is None
    for parsed in (Parsed(), Parsed(parser={"name": "treebank"})):
        assert Preparer(parsed).language_remark([OTHERS["de"]]) is None
    english = Parsed(parser={"name": "builtin", "language": "en"})
    assert Preparer(english).language_remark([OTHERS["de"]])
    assert Preparer(english, any_language=True).language_remark([OTHERS["de"]]) is None


def test_the_warning_comes_once(monkeypatch):
    monkeypatch.setattr(text_language, "_told", set())
    embedder = Embedder.load("default")
    with pytest.warns(UserWarning, match="looks like German") as given:
        embedder.encode([OTHERS["de"]])
    assert [each.filename for each in given] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedder.encode([OTHERS["de"].split()])
        embedder.with_limit(max_tokens=99).encode([OTHERS["de"]])
        embedder.encode(["The train was late again."])
    with pytest.warns(UserWarning, match="looks like French"):
        embedder.encode([OTHERS["fr"].split()])


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("take", [encoding_pool.Task.take, lambda task: False])
def test_several_processes_say_it_once(monkeypatch, take):
    monkeypatch.setattr(text_language, "_told", set())
    monkeypatch.setattr(encoding_pool, "SMALLEST", 1)
    monkeypatch.setattr(encoding_pool.Task, "take", take)
    embedder = Embedder.load("default")
    with open_pool(embedder, 2) as pool, warnings.catch_warnings(record=True) as given:
        embedder.encode([OTHERS["de"]] * 4, 1, pool=pool)
        embedder.encode([OTHERS["de"]])
    assert [each.filename for each in given] == [__file__]


def test_parsed_sentences_are_taken_as_they_are(monkeypatch):
    monkeypatch.setattr(text_language, "_told", set())
    embedder = Embedder.load("default")
    (parsed,) = embedder.prepare(["A bird sings."])
    tokens = ("der", "die", "und")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedder.encode([replace(parsed, tokens=(*tokens, *parsed.tokens[3:])), ParsedSentence(tokens)])


def test_the_command_line_says_it_in_one_line(tmp_path):
    (tmp_path / "a.txt").write_text(f"{OTHERS['de']}\n", "utf-8")
    command = [sys.executable, "-m", "structviews", "encode", "default", "a.txt", "-o", "a.npy"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    (line,) = [line for line in ended.stderr.splitlines() if "German" in line]
    assert "--lang de --parser stanza" in line
