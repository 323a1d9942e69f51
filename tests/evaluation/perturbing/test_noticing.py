"""What is drawn from a corpus and altered; the measures against loops over sentences, with bags of words as control."""

from dataclasses import replace

import numpy as np
import pytest
from corpora import opened, write_corpus
from grammar import bracketed
from scipy.spatial.distance import cosine

from structviews.corpus.layout import Row
from structviews.evaluation.parses import Parses
from structviews.evaluation.perturbing import noticing
from structviews.evaluation.perturbing.altering import spelling_of
from structviews.evaluation.perturbing.noticing import WHOLE, Sample, chosen_kinds, notice, noticed, rows_of_runs
from structviews.evaluation.perturbing.perturbations import KINDS
from structviews.evaluation.scores.intervals import holm, mean_difference, proportion

ORIGINALS = [("The", "dog", "bit", "the", "man", "."), ("A", "cat", "saw", "one", "bird", "."), ("Two", "men", "ran")]
SWAPPED = [("The", "man", "bit", "the", "dog", "."), ("One", "bird", "saw", "a", "cat", "."), ("Men", "two", "ran")]
PASSIVE = [(*words[::-1], "by", "was") for words in ORIGINALS]


class Bags:
    """A run whose views are a bag of words and the words' places."""

    view_names = ("bag", "places")

    def encode_views(self, sentences, progress):
        progress(len(sentences), len(sentences))
        bags = [sum(vector(word.lower()) for word in words) for words in sentences]
        places = [sum(place * vector(word.lower()) for place, word in enumerate(words)) for words in sentences]
        return [np.array(bags, dtype=np.float32), np.array(places, dtype=np.float32)]

    def joined(self, views):
        return np.concatenate(views, axis=1)


def vector(word):
    return np.random.default_rng(list(word.encode())).standard_normal(20)


def three_samples():
    groups = noticing.with_contrasts([KINDS["passive"], KINDS["swapped-arguments"]])
    forms = [[PASSIVE], [SWAPPED], [PASSIVE, SWAPPED]]
    documents = np.array([0, 1, 2])
    return [Sample(name, documents, ORIGINALS, altered) for name, altered in zip(groups, forms, strict=True)]


def test_distances_are_shares_of_those_to_other_sentences(rng):
    original, altered = rng.standard_normal((2, 7, 5)).astype(np.float32)
    found = noticed(original, [altered])
    for i in range(7):
        others = [cosine(original[i], original[j]) for j in range(7) if j != i]
        assert found[i] == pytest.approx(cosine(original[i], altered[i]) / np.mean(others), rel=1e-5)
    # Equal to the first and to twice the second; a vector of zeros.
    vectors = np.array([[1, 2, 3], [3, 2, 1], [0, 0, 0]], dtype=np.float32)
    assert noticed(vectors, [np.array([[1, 2, 3], [6, 4, 2], [3, 2, 1]], dtype=np.float32)]).tolist() == [0, 0, 1]


def test_a_bag_of_words_does_not_notice_a_swap():
    samples = three_samples()
    rows = rows_of_runs(samples, [notice(Bags(), samples, print)])
    found = {(row.sample, row.view): row.found[0] for row in rows}
    bag = found["swapped-arguments", "bag"]
    assert (bag.value, bag.low, bag.high) == (0, 0, 0)
    assert found["swapped-arguments", "places"].value > 0.01
    assert found["passive", "bag"].value > 0.01
    assert found["passive nearer than swapped-arguments", "bag"].value == 0


def test_joined_vectors_come_first_and_progress_reaches_the_total():
    seen = []
    found = notice(Bags(), three_samples(), lambda *done: seen.append(done))
    assert [list(each) for each in found] == [[WHOLE, "bag", "places"]] * 3
    assert [len(each["bag"]) for each in found] == [3, 3, 3]
    assert seen == [(6, 21), (12, 21), (21, 21)]
    bags = Bags()
    original, passive = (bags.joined(bags.encode_views(texts, print)) for texts in (ORIGINALS, PASSIVE))
    np.testing.assert_array_equal(found[0][WHOLE], noticed(original, [passive]))


def test_nearer_is_a_half_where_both_are_equally_near():
    def turned(*angles):
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    found = noticed(turned(0, 0, 0, 0), [turned(0.1, 0.2, 0.3, 0.4), turned(0.2, 0.1, 0.3, 0.4 + 1e-7)])
    assert found.tolist() == [1, 0, 0.5, 0.5]


def test_rows_of_two_runs_have_paired_differences_and_corrected_ps():
    first, second, third = np.random.default_rng(1).random((3, 40))
    documents = np.arange(40) // 2
    sample = Sample("passive", documents, ORIGINALS, [PASSIVE])
    runs = [[{WHOLE: first, "dep": second, "sif": third}], [{WHOLE: third, "dep": second - 0.1}]]
    whole, dep, sif = rows_of_runs([sample], runs)
    assert whole.found == {0: proportion(first, documents), 1: proportion(third, documents)}
    assert whole.difference == mean_difference(first, third, documents)
    assert dep.difference.low == pytest.approx(0.1)
    assert [whole.adjusted, dep.adjusted] == holm([whole.difference.p, dep.difference.p])
    assert (sif.found.keys(), sif.difference) == ({0}, None)
    # Of sentences of one document, each is drawn by itself.
    (row,) = rows_of_runs([replace(sample, documents=np.zeros(40, dtype=int))], [[{WHOLE: first}]])
    assert row.found[0] == proportion(first, np.arange(40))


ANIMALS = ("dog", "cat", "man", "child", "bird")
VERBS = {"killed": "VBN", "took": "VBD"}


def clause(subject, verb, thing, tag="VBD"):
    """``The dog killed the man .``"""
    bracket = f"(S (NP (DT The) (NN {subject})) (VP ({tag} {verb}) (NP (DT the) (NN {thing}))) (. .))"
    return bracketed(bracket, [2, 3, 0, 5, 3, 3], ["det", "nsubj", "root", "det", "obj", "punct"])


def rows(sentences, per_document=4):
    return [Row(i // per_document, i % per_document, i + 1, each) for i, each in enumerate(sentences)]


@pytest.fixture
def sentences():
    """Every clause of two animals and a verb; and "killed" as a participle."""
    found = [clause(a, verb, b) for verb in VERBS for a in ANIMALS for b in ANIMALS if a != b]
    return [*found, *(clause("dog", "killed", animal, "VBN") for animal in ANIMALS * 2)]


@pytest.fixture
def corpus(sentences, tmp_path):
    return opened(write_corpus(tmp_path / "a.parsed", rows(sentences)))


def drawn(corpus, *kinds, most=100, seed=1):
    return {sample.name: sample for sample in noticing.draw(corpus, chosen_kinds(kinds), most, seed)}


def test_only_participles_of_the_corpus_make_a_passive(corpus):
    samples = drawn(corpus, "passive", "swapped-arguments")
    assert {words[2] for words in samples["passive"].originals} == {"killed"}
    assert {words[2] for words in samples["swapped-arguments"].originals} == {"killed", "took"}
    assert [len(sample.originals) for sample in samples.values()][:2] == [20, 40]
    for original, made in zip(samples["passive"].originals, samples["passive"].altered[0], strict=True):
        the, agent, verb, _, patient, stop = original
        assert made == (the, patient, "was", verb, "by", "the", agent, stop)


def test_rare_participles_are_wrong_tags():
    many = [clause("dog", "took", animal) for animal in ANIMALS for _ in range(4)]
    once = [clause("dog", "took", "man", "VBN")]
    assert spelling_of([Parses.of([*many, *once])]).participles == frozenset()
    spelling = spelling_of([Parses.of(many), Parses.of(once * 4)])
    assert spelling.participles == {"took"}
    assert {"the", "The"} & spelling.lower == {"the"}


def test_a_contrast_has_the_sentences_that_both_rules_fit(corpus, sentences):
    samples = drawn(corpus, "passive", "swapped-arguments")
    assert [*samples] == ["passive", "swapped-arguments", "passive nearer than swapped-arguments"]
    both = samples["passive nearer than swapped-arguments"]
    assert both.originals == samples["passive"].originals
    assert both.altered[0] == samples["passive"].altered[0]
    swapped = samples["swapped-arguments"]
    forms = dict(zip(swapped.originals, swapped.altered[0], strict=True))
    assert both.altered[1] == [forms[words] for words in both.originals]
    documents = {each.tokens: i // 4 for i, each in enumerate(sentences[:40])}
    assert swapped.documents.tolist() == [documents[words] for words in swapped.originals]


def test_a_kind_depends_on_the_seed_and_not_on_the_other_kinds(corpus):
    given = ((("scrambled",), 1), (("passive", "cleft", "scrambled"), 1), (("scrambled",), 2))
    alone, beside, other = (drawn(corpus, *kinds, most=10, seed=seed)["scrambled"] for kinds, seed in given)
    assert (alone.originals, alone.altered) == (beside.originals, beside.altered)
    assert (alone.originals, alone.altered) != (other.originals, other.altered)
    assert len(alone.originals) == 10


def test_plain_sentences_are_each_taken_once_and_end_with_a_full_stop(tmp_path):
    good = [clause("dog", "killed", "man"), clause("dog", "killed", "man"), clause("man", "killed", "dog")]
    wrong = []
    for mark, end in (('"', "."), (";", "."), ("--", "."), ("a", "?"), ("a", "!"), ("a", "word")):
        text = f"(S (NP (DT The) (NN dog)) (VP (VBD saw) (NP ({mark} {mark}) (NN man))) (. {end}))"
        wrong.append(bracketed(text, [0, 1, 1, 1, 1, 1], ["root", *["dep"] * 5]))
    corpus = opened(write_corpus(tmp_path / "a.parsed", rows([*good, *wrong])))
    assert sorted(drawn(corpus, "scrambled")["scrambled"].originals) == [each.tokens for each in good[1:]]
