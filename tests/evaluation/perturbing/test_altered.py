"""What is drawn from a corpus, and the errors of corpora that do not fit."""

from dataclasses import replace

import pytest
from corpora import write_corpus
from grammar import bracketed

from structviews.corpus.format import Row
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.evaluation.parses import Parses
from structviews.evaluation.perturbing import noticing
from structviews.evaluation.perturbing.perturbations import KINDS

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
    return ParsedCorpus.open(write_corpus(tmp_path / "a.parsed", rows(sentences)))


def drawn(corpus, *kinds, most=100, seed=1):
    return {sample.name: sample for sample in noticing.draw(corpus, noticing.chosen_kinds(kinds), most, seed)}


def test_only_participles_of_the_corpus_make_a_passive(corpus):
    samples = drawn(corpus, "passive", "swapped-arguments")
    assert {words[2] for words in samples["passive"].originals} == {"killed"}
    assert {words[2] for words in samples["swapped-arguments"].originals} == {"killed", "took"}
    assert len(samples["passive"]) == 20
    assert len(samples["swapped-arguments"]) == 40
    for original, made in zip(samples["passive"].originals, samples["passive"].altered[0], strict=True):
        the, agent, verb, _, patient, stop = original
        assert made == (the, patient, "was", verb, "by", "the", agent, stop)


def test_rare_participles_are_wrong_tags(sentences):
    many = [clause("dog", "took", animal) for animal in ANIMALS for _ in range(4)]
    once = [clause("dog", "took", "man", "VBN")]
    assert noticing.spelling_of(Parses.of([*many, *once])).participles == frozenset()
    assert noticing.spelling_of(Parses.of([*many, *once * 4])).participles == {"took"}
    assert "the" in noticing.spelling_of(Parses.of(many)).lower
    assert "The" not in noticing.spelling_of(Parses.of(many)).lower


def test_a_contrast_has_the_sentences_that_both_rules_fit(corpus):
    samples = drawn(corpus, "passive", "swapped-arguments")
    assert [*samples] == ["passive", "swapped-arguments", "passive nearer than swapped-arguments"]
    both = samples["passive nearer than swapped-arguments"]
    assert both.originals == samples["passive"].originals
    assert both.altered[0] == samples["passive"].altered[0]
    swapped = samples["swapped-arguments"]
    place = dict(zip(swapped.originals, swapped.altered[0], strict=True))
    assert both.altered[1] == [place[words] for words in both.originals]


def test_a_kind_depends_on_the_seed_and_not_on_the_other_kinds(corpus):
    alone, beside = drawn(corpus, "scrambled", most=10), drawn(corpus, "passive", "cleft", "scrambled", most=10)
    assert same(alone["scrambled"], beside["scrambled"])
    assert not same(alone["scrambled"], drawn(corpus, "scrambled", most=10, seed=2)["scrambled"])
    assert len(alone["scrambled"]) == 10


def same(first, second):
    return (first.originals, first.altered) == (second.originals, second.altered)


def test_documents_are_those_of_the_sentences(corpus, sentences):
    sample = drawn(corpus, "swapped-arguments")["swapped-arguments"]
    places = {each.tokens: i // 4 for i, each in enumerate(sentences[:40])}
    assert sample.documents.tolist() == [places[words] for words in sample.originals]


def test_plain_sentences_are_each_taken_once_and_end_with_a_full_stop():
    wrong = ["?", "!", "word"]
    marked = [
        f"(S (NP (DT The) (NN dog)) (VP (VBD saw) (NP ({mark} {mark}) (NN man))) (. .))" for mark in ('"', ";", "--")
    ]
    ends = [f"(S (NP (DT The) (NN dog)) (VP (VBD slept)) (. {end}))" for end in wrong]
    good = [clause("dog", "killed", "man"), clause("dog", "killed", "man"), clause("man", "killed", "dog")]
    whole = [*good, *(with_heads(text) for text in [*marked, *ends])]
    assert noticing.plain_sentences(Parses.of(whole)).tolist() == [0, 2]


def with_heads(text):
    """A bracketed sentence whose words all depend on its first."""
    n = len(bracketed(text).tokens)
    return bracketed(text, [0, *[1] * (n - 1)], ["root", *["dep"] * (n - 1)])


def test_sentences_come_back_whole(sentences):
    parses = Parses.of(sentences)
    assert [parses.sentence(i) for i in range(len(sentences))] == sentences


def test_names_of_kinds():
    assert noticing.chosen_kinds(["all"]) == list(KINDS.values())
    assert [kind.name for kind in noticing.chosen_kinds(["cleft", "passive"])] == ["passive", "cleft"]
    with pytest.raises(
        InputError, match=r"unknown perturbation 'clef' \(did you mean cleft\?\): choose one of passive,"
    ):
        noticing.chosen_kinds(["clef"])
    with pytest.raises(InputError, match="--by: empty: choose from passive"):
        noticing.chosen_kinds([])


def test_errors_of_corpora(corpus, sentences, tmp_path):
    kinds = noticing.chosen_kinds(["passive"])
    with pytest.raises(InputError, match=r"numbers: give a larger corpus, or other kinds$"):
        noticing.draw(corpus, noticing.chosen_kinds(["numbers"]), 10, 1)
    corpus.manifest["parser"] = {"name": "x", "language": "de"}
    with pytest.raises(InputError, match="in the language 'de': the rules are for English"):
        noticing.draw(corpus, kinds, 10, 1)
    bare = {
        "heads": {"heads": (), "relations": ()},
        "nodes": {"left": (), "right": (), "labels": ()},
        "tags": {"tags": ()},
    }
    says = {
        "heads": "has no dependency trees",
        "nodes": "has no constituency trees",
        "tags": "has no part-of-speech tags",
    }
    for name, without in bare.items():
        folder = write_corpus(tmp_path / f"{name}.parsed", rows([replace(each, **without) for each in sentences]))
        opened = ParsedCorpus.open(folder)
        opened.manifest["has_dependencies"], opened.manifest["has_constituents"] = name != "heads", name != "nodes"
        with pytest.raises(InputError, match=says[name]):
            noticing.draw(opened, kinds, 10, 1)
