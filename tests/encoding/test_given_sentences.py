"""What is a sentence: any iterable of them is taken, and what is none is named."""

import io

import numpy as np
import pytest
from corpora import RandomParser

from structviews import SentenceEncoder
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import open_pool
from structviews.encoding.preparation import SentenceError
from structviews.errors import InputError

TEXTS = ["A bird sings.", "The tree is dead.", "It"]


@pytest.fixture(scope="module")
def run(runs_of_all_kinds):
    return runs_of_all_kinds["joined"]


@pytest.fixture(scope="module")
def embedder(run):
    return Embedder.load(run, RandomParser())


@pytest.mark.parametrize(
    "given",
    [
        lambda: (text for text in TEXTS),
        lambda: dict.fromkeys(TEXTS).keys(),
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


def test_processes_take_any_iterable(run):
    embedder = Embedder.load(run, RandomParser())
    with open_pool(embedder, 1) as pool:
        vectors = embedder.encode((text for text in TEXTS), pool=pool)
        np.testing.assert_allclose(vectors, embedder.encode(TEXTS), atol=1e-6)
        with pytest.raises(SentenceError, match="sentence 2: None is not a sentence"):
            embedder.encode(iter(["A bird", None]), pool=pool)


@pytest.mark.parametrize("empty", ["", " \t\n", [], ()])
def test_a_sentence_without_words_is_a_full_stop(embedder, empty):
    np.testing.assert_array_equal(embedder.encode(["A bird", empty]), embedder.encode(["A bird", "."]))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, "None is not a sentence: give a text, a list of words or a parsed one"),
        (float("nan"), "nan is not a sentence"),
        (b"bytes", "b'bytes' is not a sentence"),
        ({"text": 1}, "{'text': 1} is not a sentence"),
        (np.array([["a", "b"]]), r"array\(\[\['a', 'b'\]\].* is not a sentence"),
        ("a \ud800", r"'a \\ud800': half a character, U\+D800: read the text as UTF-8"),
        (["a", "\udc80"], r"'a \\udc80': half a character, U\+DC80"),
        (ParsedSentence(("a", "\udc80")), r"half a character, U\+DC80"),
        (["a", None], "word 2 is None: a word must be text"),
        ([""], "token 1 is ''"),
    ],
)
def test_what_is_no_sentence_is_named(embedder, wrong, message):
    encoder = SentenceEncoder(embedder, False)
    for call in (embedder.encode, embedder.encode_views, embedder.prepare, embedder.attention, encoder.collate):
        with pytest.raises(SentenceError, match=f"^sentence 2: .*{message}") as error:
            call(iter(["A bird", wrong]))
        assert error.value.index == 1
        assert "\n" not in str(error.value)
        str(error.value).encode()  # can be printed


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b"bytes", "^b'bytes': give a list of sentences"),
        (7, "^7: give a list of sentences"),
        ({"text": TEXTS}, "^{'text': .*: give a list of sentences"),
        (np.array([TEXTS]), r"^sentences of shape \(1, 3\): give a list, or one column of a table, by its name"),
    ],
)
def test_what_holds_no_sentences_is_one_line(embedder, wrong, message):
    for call in (embedder.encode, embedder.prepare):
        with pytest.raises(InputError, match=message) as error:
            call(wrong)
        assert "\n" not in str(error.value)
