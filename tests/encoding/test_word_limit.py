"""Sentences of too many words are refused or cut, wherever they come from."""

import numpy as np
import pytest
from corpora import RandomParser, random_trees

from structviews import SentenceEncoder
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding import encoding_pool, preparation, representation
from structviews.encoding.embedder import Embedder
from structviews.encoding.encoding_pool import open_pool
from structviews.encoding.preparation import SentenceError
from structviews.errors import InputError
from structviews.parsing.tokenising import tokenise_all

LONG = "The dead tree fell, it's said."  # 9 words, 6 of them between white space
WORDS = ("The", "dead", "tree", "fell", ",", "it", "'s", "said", ".")


@pytest.fixture
def run(runs_of_all_kinds):
    return runs_of_all_kinds["joined"]


@pytest.fixture
def embedder(run):
    return Embedder.load(run, RandomParser(), max_tokens=5)


@pytest.mark.parametrize("given", [LONG, WORDS, ParsedSentence(WORDS), random_trees(WORDS)])
def test_a_longer_sentence_is_an_error(embedder, given):
    for call in (embedder.encode, embedder.prepare, SentenceEncoder(embedder)):
        with pytest.raises(SentenceError, match=r"^sentence 2: [69] words, but the limit is 5: split it,") as error:
            call(["A bird sings now.", given])
        assert str(error.value).endswith("or have it cut with overlong = cut (--overlong cut)")
    assert embedder.with_limit(max_tokens=9).encode([given]).shape == (1, embedder.dim)
    with pytest.raises(SentenceError, match=r"^sentence 1: 9 words, but the limit is 8: split it"):
        embedder.with_limit(max_tokens=8).encode([given])


@pytest.mark.parametrize("most", [5, 7])
def test_a_longer_sentence_is_cut_with_one_warning(embedder, most):
    cutting = embedder.with_limit(max_tokens=most, overlong="cut")
    expected = embedder.encode([["A"], WORDS[:most], WORDS[:most]] if most <= 5 else [["A"]])
    with pytest.warns(UserWarning, match="cut to the first") as given:
        vectors = cutting.encode(["A", LONG, WORDS, ParsedSentence(WORDS)])
    assert [str(each.message) for each in given] == [f"3 sentences were cut to the first {most} words (max_tokens)"]
    np.testing.assert_allclose(vectors[: len(expected)], expected, atol=1e-5)
    np.testing.assert_allclose(vectors[2:], vectors[[1, 1]], atol=1e-5)
    with pytest.warns(UserWarning, match=r"^1 sentence was cut to the first"):
        assert cutting.prepare(["A", LONG])[1].tokens == WORDS[:most]
    with pytest.raises(SentenceError, match=rf"^sentence 2: 9 words with trees, but the limit is {most}: a tree"):
        cutting.encode(["A", random_trees(WORDS)])


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"max_tokens": 0}, "max_tokens = 0: give a number at least 1"),
        ({"overlong": "drop"}, "unknown overlong 'drop': choose one of raise, cut"),
    ],
)
def test_a_wrong_limit_is_one_line(run, embedder, limit, message):
    for call in (embedder.with_limit, lambda **limit: Embedder.load(run, **limit)):
        with pytest.raises(InputError, match=message):
            call(**limit)


@pytest.mark.parametrize("overlong", ["raise", "cut"])
@pytest.mark.parametrize(("unit", "size"), [("word ", "2,000,000 words"), ("(", "10,000,000 characters")])
def test_little_of_a_huge_text_is_tokenised(embedder, monkeypatch, overlong, unit, size):
    tokenised = []

    def noting(texts, language):
        tokenised.extend(texts)
        return tokenise_all(texts, language)

    monkeypatch.setattr(preparation, "tokenise_all", noting)
    huge = (unit * 10**7)[: 10**7]
    embedder = embedder.with_limit(overlong=overlong)
    if overlong == "raise":
        with pytest.raises(SentenceError, match=f"^sentence 1: {size}, but the limit is ") as error:
            embedder.encode([huge])
        assert len(str(error.value)) < 200
    else:
        monkeypatch.setattr("structviews.encoding.word_limit.MIN_CHARACTERS", 60)
        with pytest.warns(UserWarning, match=r"^1 sentence was cut to the first 5 words"):
            (sentence,) = embedder.prepare([huge])
        assert sentence.tokens == ((unit.strip(),) * 5)
    assert sum(map(len, tokenised)) <= 100


@pytest.mark.parametrize("take", [encoding_pool.Task.take, lambda task: False])
def test_processes_keep_to_the_limit_and_warn_once(runs_of_all_kinds, monkeypatch, take):
    monkeypatch.setattr(encoding_pool, "SMALLEST", 2)
    monkeypatch.setattr(encoding_pool.Task, "take", take)
    embedder = Embedder.load(runs_of_all_kinds["words"], max_tokens=5, overlong="cut")
    texts = [LONG, "A bird", LONG, "A", LONG]
    with open_pool(embedder, 2) as pool:
        with pytest.raises(SentenceError, match=r"^sentence 1: 6 words, but the limit is 5"):
            embedder.with_limit(overlong="raise").encode(texts, pool=pool)
        with pytest.warns(UserWarning, match="cut to the first") as told:
            vectors = embedder.encode(texts, 1, pool=pool)
        assert embedder.with_limit(max_tokens=9).encode(texts, pool=pool).shape == vectors.shape
    assert [str(each.message) for each in told] == ["3 sentences were cut to the first 5 words (max_tokens)"]
    expected = embedder.encode([WORDS[:5], ["A", "bird"], WORDS[:5], ["A"], WORDS[:5]])
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_batches_are_limited_in_words(runs_of_all_kinds, monkeypatch):
    embedder = Embedder.load(runs_of_all_kinds["trees"])
    sentences = [random_trees(("a",) * n) for n in (1, 5, 2, 5, 3, 4)]
    expected = embedder.encode(sentences)
    monkeypatch.setattr(representation, "WORDS_AT_ONCE", 6)
    batches, told = [], []
    encode_batch = type(embedder).encode_batch

    def noting(self, chosen, some, states):
        batches.append([len(sentence.tokens) for sentence in some])
        return encode_batch(self, chosen, some, states)

    monkeypatch.setattr(type(embedder), "encode_batch", noting)
    vectors = embedder.encode(sentences, 2, lambda *counts: told.append(counts))
    assert batches == [[1, 2], [3], [4], [5], [5]]
    assert told == [(2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
