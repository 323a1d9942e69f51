"""``structviews compare --by``: its table, examples and errors."""

import pytest
from corpora import topic_corpus
from shell import fails

TEXT = "".join(
    f"The {one} {verb} the {other} .\n"
    for one in ("dog", "man", "cat")
    for other in ("bird", "child", "horse")
    for verb in ("killed", "helped")
) + "".join(f"The {animal} was killed .\n\nThe {animal} was helped .\n" for animal in ("dog", "man", "cat"))


@pytest.fixture
def corpus(command, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    assert command("parse", "a.txt", "--format", "lines").code == 0
    return tmp_path / "a.parsed"


def test_what_each_view_notices(command, corpus):
    ended = command("compare", "default-small", "--by", "passive,swapped-arguments,numbers", "--show", "1")
    output = ended.output.decode()
    assert ended.code == 0, ended.errors
    for expected in ("+ passive", "- swapped-arguments", "-> The", "ed by the ", "fewer than two sentences: numbers"):
        assert expected in output
    two = command(
        "compare", "default-small", "default-small", "--by", "passive", "--corpus", corpus, "--sentences", "9"
    )
    assert two.code == 0
    assert "A: default-small; B: default-small" in two.output.decode()
    assert "Holm" in two.output.decode()


def test_errors(command, tmp_path):
    error = fails(command, tmp_path, "compare", "default")
    assert error == "error: default: give a second run to compare its scores with, or --by with perturbations"
    for option, value in (("--corpus", "x.parsed"), ("--show", "3"), ("--sentences", "2")):
        error = fails(command, tmp_path, "compare", "default", "default-small", option, value)
        assert error == f"error: {option} {value}: only with --by, which names perturbations, such as --by all"
    error = fails(command, tmp_path, "compare", "default", "--by", "passives", "--corpus", "x.parsed")
    assert "unknown perturbation 'passives' (did you mean passive?)" in error
    error = fails(command, tmp_path, "compare", "default", "--by", "passive")
    assert "no *.parsed folder" in error
    topic_corpus(tmp_path / "x.parsed")
    error = fails(command, tmp_path, "compare", "default", "--by", "passive", "--corpus", "x.parsed")
    assert "no two sentences that can be altered by passive" in error
