"""``structviews perturb``, ``train --perturbed`` and ``compare --by``: what they say, and their errors."""

import pytest
from corpora import topic_corpus
from shell import fails

from structviews.corpus.parsed_corpus import ParsedCorpus

TEXT = "".join(
    f"The {one} {verb} the {other} .\nThe {other} will sleep .\n\n"
    for one in ("dog", "man", "cat")
    for other in ("bird", "child", "horse")
    for verb in ("killed", "helped")
) + "".join(f"The {animal} was killed .\nThe {animal} was helped .\n\n" for animal in ("dog", "man", "cat"))
TRAIN = "train --views dep,const --corpus a.parsed --hidden 8 --word-dim 6 --epochs 1 -o run"
FLAGS_OF_BY = ("--corpus x.parsed", "--show 3", "--sentences 2")


@pytest.fixture
def corpus(command, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    assert command("parse", "a.txt", "--format", "lines").code == 0
    return tmp_path / "a.parsed"


def test_sentences_are_made_and_trained_on(command, corpus, tmp_path):
    ended = command("perturb", "--rules", "passive,negated,swapped-arguments")
    assert ended.code == 0, ended.errors
    made = ParsedCorpus.open(tmp_path / "a-perturbed.parsed")
    said = "60 sentences made of 42 of 42: 18 passive, 18 swapped-arguments, 24 negated; none skipped"
    assert ended.output.decode().splitlines()[0] == f"a-perturbed.parsed: {said}"
    assert {row.sentence.tokens for row in made if row.document == 0} == {
        ("The", "bird", "was", "killed", "by", "the", "dog", "."),
        ("The", "bird", "killed", "the", "dog", "."),
    }
    again = command("perturb", "a.parsed", "--rules", "passive,negated,swapped-arguments")
    assert again.output.decode().splitlines()[0] == f"a-perturbed.parsed already exists: {said}"
    ended = command(*TRAIN.split(), "--perturbed", "a-perturbed.parsed")
    assert ended.code == 0, ended.errors
    assert 'perturbed = "a-perturbed.parsed"' in (tmp_path / "run" / "config.toml").read_text()


def test_what_each_view_notices(command, corpus):
    ended = command("compare", "default-small", "--by", "passive,swapped-arguments,numbers", "--show", "1")
    output = ended.output.decode()
    assert ended.code == 0, ended.errors
    for expected in ("+ passive", "- swapped-arguments", "-> The", "ed by the ", "fewer than two sentences: numbers"):
        assert expected in output
    two = command(*f"compare default-small default-small --by passive --corpus {corpus} --sentences 9".split())
    assert two.code == 0
    assert "A: default-small; B: default-small" in two.output.decode()
    assert "Holm" in two.output.decode()


def test_what_cannot_be_altered_trained_on_or_compared(command, corpus, tmp_path):
    topic_corpus(tmp_path / "x.parsed")
    only = "only with --by, which names perturbations, such as --by all"
    for typed, said in (
        ("perturb a.parsed --rules passives", "--rules passives: no such rule: choose from passive, cleft"),
        ("perturb a.parsed --rules scrambled", "scrambled: makes ungrammatical sentences: choose from passive, cleft"),
        ("perturb a.parsed --rules numbers", "a.parsed: no sentence that can be altered by numbers: give a larger"),
        ("perturb x.parsed --parser builtin", "x.parsed: no sentence that can be altered by passive, cleft"),
        (f"{TRAIN} --perturbed a.parsed", "a.parsed: not made by `structviews perturb`: make one with `structviews p"),
        (f"{TRAIN} --perturbed x --objective generative", "perturbed = x: the objective 'generative' cannot learn"),
        ("compare default", "error: default: give a second run to compare its scores with, or --by with perturbations"),
        *((f"compare default default-small {flag}", f"error: {flag}: {only}") for flag in FLAGS_OF_BY),
        ("compare default --by passives --corpus x.parsed", "unknown perturbation 'passives' (did you mean passive?)"),
        ("compare default --by passive", "several parsed corpora (a.parsed, x.parsed): choose one with --corpus"),
        ("compare default --by passive --corpus x.parsed", "no two sentences that can be altered by passive"),
    ):
        assert said in fails(command, tmp_path, *typed.split())
