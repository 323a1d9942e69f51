"""What is a sentence: any iterable of them is taken, and what is none is named."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from corpora import RandomParser, random_trees

from structviews import SentenceEncoder
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding import preparation, representation, word_limit
from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import Preparer, SentenceError
from structviews.parsing.tokenising import tokenise_all
from structviews.runs.settings_file import Parsed
from structviews.words.vocabulary import UNKNOWN, Vocabulary

TEXTS = ["A bird sings.", "The tree is dead.", "It"]


@pytest.fixture(scope="module")
def embedder(runs_of_all_kinds):
    return Embedder.load(runs_of_all_kinds["joined"], RandomParser())


@pytest.mark.parametrize(
    "given",
    [
        lambda: (text for text in TEXTS),
        lambda: io.StringIO("".join(f"{text}\n" for text in TEXTS)),
        lambda: np.array(TEXTS),
        lambda: pytest.importorskip("pandas").Series(TEXTS, index=[7, 5, 3]),
        lambda: iter([TEXTS[0], np.array(["The", "tree", "is", "dead", "."]), ParsedSentence(("It",))]),
    ],
)
def test_any_iterable_is_taken(embedder, given):
    expected = embedder.encode(TEXTS)
    np.testing.assert_allclose(embedder.encode(given()), expected, atol=1e-6)
    assert [each.tokens for each in embedder.prepare(given())] == [each.tokens for each in embedder.prepare(TEXTS)]
    np.testing.assert_allclose(SentenceEncoder(embedder, False)(given()), expected, atol=1e-5)
    assert [len(each) for each in embedder.attention(given()).values()] == [3]


@pytest.mark.parametrize("empty", ["", " \t\n", [], ()])
def test_a_sentence_without_words_is_a_full_stop(embedder, empty):
    np.testing.assert_array_equal(embedder.encode(["A bird", empty]), embedder.encode(["A bird", "."]))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, "None is not a sentence: give a text, a list of words or a parsed one"),
        (float("nan"), "nan is not a sentence"),
        (b"bytes", "b'bytes' is not a sentence"),
        ("a \ud800", r"'a \\ud800': half a character, U\+D800: read the text as UTF-8"),
        (ParsedSentence(("a", "\udc80")), r"half a character, U\+DC80"),
        (["a", None], "word 2 is None: a word must be text"),
        ([""], "token 1 is ''"),
    ],
)
def test_what_is_no_sentence_is_named(embedder, wrong, message):
    encoder = SentenceEncoder(embedder, False)
    for call in (embedder.encode, embedder.encode_views, embedder.prepare, embedder.attention, encoder.collate):
        with pytest.raises(SentenceError, match=rf"^sentences\[1\]: .*{message}") as error:
            call(iter(["A bird", wrong]))
        assert error.value.index == 1
        assert b"\n" not in str(error.value).encode()  # which can be printed, too


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b"bytes", "^b'bytes': give a list of sentences"),
        (7, "^7: give a list of sentences"),
        ({"text": TEXTS}, "^{'text': .*: give a list of sentences"),
        (np.array([TEXTS]), r"^sentences of shape \(1, 3\): give a list, or one column of a table, by its name"),
    ],
)
def test_what_holds_no_sentences_is_one_line(embedder, wrong, message, one_line):
    for call in (embedder.encode, embedder.prepare):
        with one_line(message):
            call(wrong)


LONG = "The dead tree fell, it's said."  # 9 words, 6 of them between white space
WORDS = ("The", "dead", "tree", "fell", ",", "it", "'s", "said", ".")


@pytest.fixture
def limited(embedder):
    return embedder.with_limit(max_tokens=5)


@pytest.mark.parametrize("given", [LONG, WORDS, ParsedSentence(WORDS), random_trees(WORDS)])
def test_a_longer_sentence_is_an_error(limited, given):
    for call in (limited.encode, limited.prepare, SentenceEncoder(limited)):
        with pytest.raises(SentenceError, match=r"^sentences\[1\]: [69] words, but the limit is 5: split it,") as error:
            call(["A bird sings now.", given])
        assert str(error.value).endswith("or have it cut with overlong = cut (--overlong cut)")
    assert limited.with_limit(max_tokens=9).encode([given]).shape == (1, limited.dim)
    with pytest.raises(SentenceError, match=r"^sentences\[0\]: 9 words, but the limit is 8: split it"):
        limited.with_limit(max_tokens=8).encode([given])


@pytest.mark.parametrize("most", [5, 7])
def test_a_longer_sentence_is_cut_with_one_warning(limited, most):
    cutting = limited.with_limit(max_tokens=most, overlong="cut")
    expected = limited.with_limit(max_tokens=9).encode([["A"], *[WORDS[:most]] * 3])
    with pytest.warns(UserWarning, match="cut to the first") as given:
        vectors = cutting.encode(["A", LONG, WORDS, ParsedSentence(WORDS)])
    assert [str(each.message) for each in given] == [f"3 sentences were cut to the first {most} words (max_tokens)"]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    with pytest.warns(UserWarning, match=r"^1 sentence was cut to the first"):
        assert cutting.prepare(["A", LONG])[1].tokens == WORDS[:most]
    with pytest.raises(SentenceError, match=rf"^sentences\[1\]: 9 words with trees, but the limit is {most}: a tree"):
        cutting.encode(["A", random_trees(WORDS)])


@pytest.mark.parametrize(("unit", "size"), [("word ", "2,000,000 words"), ("(", "10,000,000 characters")])
def test_little_of_a_huge_text_is_tokenised(limited, monkeypatch, unit, size):
    seen = []
    monkeypatch.setattr(preparation, "tokenise_all", lambda *given: seen.extend(given[0]) or tokenise_all(*given))
    huge = (unit * 10**7)[: 10**7]
    with pytest.raises(SentenceError, match=rf"^sentences\[0\]: {size}, but the limit is ") as error:
        limited.encode([huge])
    assert len(str(error.value)) < 200
    monkeypatch.setattr("structviews.encoding.preparation.MIN_CHARACTERS", 60)
    with pytest.warns(UserWarning, match=r"^1 sentence was cut to the first 5 words"):
        (sentence,) = limited.with_limit(overlong="cut").prepare([huge])
    assert sentence.tokens == ((unit.strip(),) * 5)
    assert sum(map(len, seen)) <= 100


def test_batches_are_limited_in_words(runs_of_all_kinds, monkeypatch):
    embedder = Embedder.load(runs_of_all_kinds["trees"])
    sentences = [random_trees(("a",) * n) for n in (1, 5, 2, 5, 3, 4)]
    expected, told = embedder.encode(sentences), []
    monkeypatch.setattr(representation, "WORDS_AT_ONCE", 6)
    vectors = embedder.encode(sentences, 2, lambda *counts: told.append(counts))
    assert told == [(2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]  # the two shortest, and each of the others alone
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


ROOT = Path(__file__).parents[2]
OTHERS = {
    "de": "Der alte Mann ging mit seinem Hund durch den Wald und sah sich nicht um.",
    "fr": "Le vieil homme est dans la forêt avec son chien et ne nous a pas vus.",
    "pl": "Stary człowiek nie był w domu, tylko szedł przez las ze swoim psem, jak już wiesz.",
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
def bundled():
    return Embedder.load("default")


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch):
    monkeypatch.setattr(word_limit, "_warned", set())


@pytest.mark.parametrize("language", OTHERS)
def test_a_sentence_in_another_language_is_noticed(bundled, language):
    line = bundled.preparer.language_remark([OTHERS[language].upper()])
    assert line.startswith(LINE)
    assert "--lang CODE --parser stanza" in line
    assert "\n" not in line


def test_nothing_is_said_of_english(bundled):
    mixed = [OTHERS["de"], *["The old man went through the forest with his dog and did not look at us."] * 9]
    texts = [*([text] for text in ENGLISH), ENGLISH, mixed]
    for file in ("data/corpus.txt", "README.md"):
        lines = [line for line in (ROOT / file).read_text("utf-8").splitlines() if line.strip()]
        texts += [lines, *([line] for line in lines if file != "README.md")]
    assert [text for text in texts if bundled.preparer.language_remark(text)] == []


def test_a_run_of_few_words_says_nothing_and_of_many_knows_its_own():
    russian = Vocabulary([UNKNOWN, *(f"с{i}" for i in range(30_000)), *["старик", "шёл", "через", "лес"]])
    for vocabulary in (None, Vocabulary([UNKNOWN, "the", "of"])):
        assert Preparer(Parsed(), vocabulary=vocabulary).language_remark([OTHERS["de"]]) is None
    assert Preparer(Parsed(), vocabulary=russian).language_remark([OTHERS["de"]])
    own = Vocabulary([UNKNOWN, *russian.words[-4:], *russian.words[1:-4]])
    assert Preparer(Parsed(), vocabulary=own).language_remark([OTHERS["ru"]]) is None


@pytest.mark.filterwarnings("error")
def test_the_warning_comes_once_and_not_for_parsed_sentences(bundled, monkeypatch):
    (parsed,) = bundled.prepare(["A bird sings."])
    tokens = tuple(OTHERS["de"].split())
    bundled.encode([replace(parsed, tokens=(*tokens[:3], *parsed.tokens[3:])), ParsedSentence(tokens)])
    for use in (bundled.attention, SentenceEncoder(bundled, trainable=False), bundled.encode):  # two by way of PyTorch
        monkeypatch.setattr(word_limit, "_warned", set())
        with pytest.warns(UserWarning, match=LINE) as found:
            use([OTHERS["de"]])
        assert [each.filename for each in found] == [__file__]
    bundled.encode([OTHERS["fr"].split()])
    bundled.with_limit(max_tokens=99).encode([OTHERS["de"]])
