"""``structviews perturb`` and ``train --perturbed``: what they say, and their errors."""

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
TRAIN = ("train", "--views", "dep,const", "--corpus", "a.parsed", "--hidden", "8", "--word-dim", "6", "--epochs", "1")


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
    ended = command(*TRAIN, "--perturbed", "a-perturbed.parsed", "-o", "run")
    assert ended.code == 0, ended.errors
    assert 'perturbed = "a-perturbed.parsed"' in (tmp_path / "run" / "config.toml").read_text()


def test_errors(command, corpus, tmp_path):
    for flags, expected in (
        (["--rules", "passives"], "--rules passives: no such rule: choose from passive, cleft"),
        (["--rules", "scrambled"], "--rules scrambled: makes ungrammatical sentences: choose from passive, cleft"),
        (["--rules", "numbers"], "a.parsed: no sentence that can be altered by numbers: give a larger corpus"),
    ):
        assert expected in fails(command, tmp_path, "perturb", "a.parsed", *flags)
    error = fails(command, tmp_path, *TRAIN, "--perturbed", "a.parsed", "-o", "run")
    assert "a.parsed: not made by `structviews perturb`: make one with `structviews perturb a.parsed`" in error
    error = fails(command, tmp_path, *TRAIN, "--perturbed", "x", "--objective", "generative", "-o", "run")
    assert "perturbed = x: the objective 'generative' takes no further positives and negatives: leave it out" in error
    topic_corpus(tmp_path / "x.parsed")
    error = fails(command, tmp_path, "perturb", "x.parsed", "--parser", "builtin")
    assert "x.parsed: no sentence that can be altered by passive, cleft" in error
