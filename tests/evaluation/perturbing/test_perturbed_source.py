"""The sentences that rules make of a corpus, against a loop over its sentences; and as a job that can be resumed."""

from dataclasses import replace

import numpy as np
import pytest
from corpora import opened, write_corpus
from grammar import bracketed, grammar_rows
from perturbed import RULES, grammar_corpus, perturbed, source_of
from shell import refused

from structviews.corpus.layout import Row
from structviews.corpus.writer import verify_corpus
from structviews.evaluation.perturbing.noticing import draw
from structviews.evaluation.perturbing.perturbations import KINDS, Clause, Spelling
from structviews.evaluation.perturbing.perturbed_source import PerturbedSource, counts_by_rule, training_rules
from structviews.parsing import pipeline


@pytest.fixture
def corpus(tmp_path):
    return grammar_corpus(tmp_path / "x.parsed")


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def is_plain(tokens):
    marks = [word for word in tokens[:-1] if not any(map(str.isalnum, word))]
    return 4 <= len(tokens) <= 28 and tokens[-1] == "." and set(marks) <= {",", "-", "$", "%"}


def made(corpus, rules, seed):
    """Source sentence, rule and words of each new sentence, one by one."""
    taken = [row.sentence for row in corpus if 4 <= len(row.sentence.tokens) <= 28]
    words = {word for sentence in taken for word in sentence.tokens}
    tagged = [(word.lower(), tag) for each in taken for word, tag in zip(each.tokens, each.tags, strict=True)]
    past = {word for word, tag in tagged if tag == "VBD"}
    alike = {word for word in past if tagged.count((word, "VBN")) >= 0.2 * tagged.count((word, "VBD"))}
    spelling = Spelling(frozenset(word for word in words if word[0].islower()), frozenset(alike))
    for index, row in enumerate(corpus):
        for number, name in enumerate(rules):
            clause = Clause(row.sentence, spelling)
            words = KINDS[name].rule(clause, np.random.default_rng([seed, index, *name.encode()]))
            if is_plain(row.sentence.tokens) and words and clause.written(words) != row.sentence.tokens:
                yield index, number, clause.written(words)


def test_each_sentence_is_that_of_its_rule_and_source(corpus):
    altered = perturbed(corpus)
    expected = list(made(corpus, RULES, 1))
    assert [(row.document, row.position, row.sentence.tokens) for row in altered] == expected
    assert {number for _, number, _ in expected} == {0, 1, 2, 3}
    assert altered.manifest["perturbed"] == {"corpus": corpus.fingerprint, "keeps": [True, True, False, False]}
    counts = [sum(number == rule for _, number, _ in expected) for rule in range(len(RULES))]
    assert counts_by_rule(altered) == dict(zip(RULES, counts, strict=True))
    assert list(verify_corpus(altered.path, lambda *_: None)) == []


def test_random_choices_are_of_the_seed_and_the_sentence(tmp_path):
    """Not of the other rules, nor of the sentences before."""
    text = "(S (NP (CD 1990) (CC and) (CD 1995)) (VP (VBD were) (ADJP (JJ good))) (. .))"
    years = bracketed(text, [5, 3, 1, 5, 0, 5], ["nsubj", "cc", "conj", "cop", "root", "punct"])
    rows = [Row(0, i, i + 1, years) for i in range(12)]
    whole = opened(write_corpus(tmp_path / "a.parsed", rows))
    part = opened(write_corpus(tmp_path / "b.parsed", [*(row for row in grammar_rows(5)), *rows[5:]]))
    alone, beside, other = (
        {raw.document: raw.text for raw in source_of(each, rules, seed).sentences() if raw.text.endswith("good .")}
        for each, rules, seed in ((whole, ["numbers"], 1), (part, ["numbers", "cleft"], 1), (whole, ["numbers"], 2))
    )
    assert {index: alone[index] for index in range(5, 12)} == beside
    assert len(set(alone.values())) > 6
    assert alone != other


def test_a_job_ends_the_same_with_workers_and_after_a_stop(corpus, tmp_path, monkeypatch):
    def job(name, **options):
        return pipeline.parse_corpus(source_of(corpus), tmp_path / name, sentences_per_shard=9, **options)[0]

    whole = content(job("whole").path)
    assert len([name for name in whole if name.endswith(".arrow")]) > 3
    assert content(job("two", workers=2).path) == whole
    parse, calls = pipeline.parse_shard, []

    def stopping(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return parse(*arguments)

    monkeypatch.setattr(pipeline, "parse_shard", stopping)
    with pytest.raises(KeyboardInterrupt):
        job("stopped")
    assert content(job("stopped").path) == whole
    assert len(calls) == 3 + len([name for name in whole if name.endswith(".arrow")]) - 2


def test_another_job_and_a_corpus_that_changes_are_refused(corpus, tmp_path):
    altered = perturbed(corpus)
    assert "differs in settings (seed was 1, is 2): choose another folder" in refused(perturbed, corpus, RULES, 2)
    assert "differs in settings and perturbed (rules was " in refused(perturbed, corpus, ["cleft"])
    source = source_of(corpus)
    (corpus.path / "manifest.json").write_bytes((altered.path / "manifest.json").read_bytes())
    said = refused(pipeline.parse_corpus, source, tmp_path / "y.parsed")
    assert "x.parsed changed during this run: restore the original" in said


@pytest.mark.parametrize("reads", [source_of, lambda corpus: draw(corpus, [KINDS["cleft"]], 9, 1)])
def test_what_the_rules_cannot_read_is_one_line(reads, tmp_path):
    german = opened(write_corpus(tmp_path / "de.parsed", grammar_rows(9), parser={"name": "x", "language": "de"}))
    assert "in the language 'de': the rules are for English" in refused(reads, german)
    for name, without in (
        ("dependency trees", {"heads": (), "relations": ()}),
        ("constituency trees", {"left": (), "right": (), "labels": ()}),
        ("part-of-speech tags", {"tags": ()}),
    ):
        rows = [replace(row, sentence=replace(row.sentence, **without)) for row in grammar_rows(9)]
        assert f"has no {name}" in refused(reads, opened(write_corpus(tmp_path / f"{name[:3]}.parsed", rows)))


def test_the_parser_is_that_of_the_corpus(tmp_path):
    """A treebank has none; the folder of its models is used if it is still there."""
    for name, models, expected in (("treebank", "", "builtin"), ("trivial:left", str(tmp_path), "trivial:left")):
        job = {"parser": {"name": name}} | ({"models": models} if models else {})
        corpus = opened(write_corpus(tmp_path / f"{expected[:4]}.parsed", grammar_rows(20), **job))
        work = PerturbedSource(corpus, training_rules(), 1).work
        assert (work.parser, str(work.options.models or "")) == (expected, models)
