import io
import json
import re
from importlib.util import find_spec

import numpy as np
import pytest
from corpora import TINY, small_config, tiny_corpus, vectors_of
from shell import contents, fails

from structviews.encoding.embedder import Embedder
from structviews.runs.which_vectors import Representation
from structviews.training.loop import train
from structviews.words.vector_files import WordVectors

SIZE = ("--hidden", "8", "--word-dim", "6", "--batch-size", "8", "--epochs", "1")
FLAGS = (*SIZE, "--held-out", "0.3", "--precision", "fp32", "--seed", "3")
SENTENCES = "A black bird sits .\nIt\nThe oven is hot , Ann .\n"


@pytest.fixture
def corpus(tmp_path):
    return tiny_corpus(tmp_path / "x.parsed")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    return train(small_config(tiny_corpus(folder / "x.parsed"), folder / "run", ("bow", "seq"), epochs=1))


def test_views_are_trained_and_sentences_encoded(command, corpus, tmp_path):
    ended = command("train", "--views", "dep, const", *FLAGS)
    assert (ended.code, ended.output) == (0, b"runs/dep-const\n")
    *_, held_out, learnt = (line for line in ended.errors if not line.startswith("warning: "))
    held_out = held_out.removeprefix("step 1: held-out ")
    assert held_out.startswith("loss ")
    assert learnt.startswith("runs/dep-const: 1 step in ")
    assert learnt.endswith(f" s; held-out {held_out}")
    run = tmp_path / "runs" / "dep-const"
    assert sorted(path.name for path in run.iterdir()) == [
        "components.safetensors", "config.toml", "log.jsonl", "model.safetensors", "state", "words.safetensors",
    ]  # fmt: skip
    assert Embedder.load(run).config == small_config(
        "x.parsed", run, batch_size=8, epochs=1, held_out=0.3, precision="fp32", seed=3, log_every=10, lr=5e-4
    )
    again = command("train", "--views", "dep,const", *FLAGS)
    assert (again.code, again.output) == (0, b"runs/dep-const\n")
    assert again.errors == ["runs/dep-const: already trained"]
    longer = command("train", "--resume", run, "--epochs", "3")
    assert longer.code == 0
    # The last step of each command is logged, and what is held out after each epoch.
    assert [json.loads(line)["step"] for line in (run / "log.jsonl").read_text().splitlines()] == [1, 1, 2, 3, 3]
    by_file = command("train", "--config", run / "config.toml", "--views", "bow,seq", "--seed", "4")
    assert (by_file.code, by_file.output) == (0, b"runs/bow-seq\n")
    assert Embedder.load(tmp_path / "runs" / "bow-seq").config.optimisation.seed == 4


@pytest.mark.skipif(find_spec("gensim") is None, reason="needs structviews[vectors]")
def test_word_vectors_are_learnt_and_written(command, corpus, tmp_path):
    ended = command("vectors", corpus, "-o", "x.vec", "--dim", "7", "--min-count", "2", "--epochs", "1")
    words = WordVectors.open(tmp_path / "x.vec")
    assert (ended.code, ended.output) == (0, f"x.vec: {len(words)} words, 7 dimensions\n".encode())
    assert words.dim == 7
    assert "bird" in words.words.to_pylist()
    assert not list(tmp_path.glob(".*"))
    assert "x.parsed: cannot be written" in fails(command, tmp_path, "vectors", corpus, "-o", corpus)
    assert "none does not exist" in fails(command, tmp_path, "vectors", "none", "-o", "y")
    assert "x.vec: subwords = 9 needs" in fails(command, tmp_path, "vectors", corpus, "-o", "x.vec", "--subwords", "9")


def test_both_channels_are_trained_and_a_run_expanded(command, corpus, tmp_path):
    vectors_of(corpus, tmp_path / "v.vec", "new", dim=3)
    channels = ("--channels", "fixed, trained", "--vectors", "v.vec")
    assert command("train", "--views", "dep,const", *channels, *FLAGS).code == 0
    run = tmp_path / "runs" / "dep-const"
    assert Embedder.load(run).dim == 2 * 2 * 8
    ended = command("runs", "expand", "runs/dep-const", "--vectors", "v.vec")
    assert ended.code == 0
    first, *views = ended.output.decode().splitlines()
    assert first == "runs/dep-const: added 1 word from v.vec"
    assert [line.split(":")[0].strip() for line in views] == ["dep", "const"]
    assert "none: No such file" in fails(command, tmp_path, "runs", "expand", "runs/dep-const", "--vectors", "none")


def test_vectors_go_to_a_file_or_to_standard_output(command, trained, tmp_path):
    (tmp_path / "s.txt").write_text(SENTENCES)
    expected = Embedder.load(trained).encode([line.split() for line in SENTENCES.splitlines()])
    to_file = command("encode", trained, "s.txt", "-o", "v.npy", "--tokenised", "--batch-size", "2")
    assert (to_file.code, to_file.output) == (0, b"v.npy\n")
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)
    piped = command("encode", trained, "--tokenised", stdin=SENTENCES.encode())
    assert piped.code == 0
    np.testing.assert_allclose(np.load(io.BytesIO(piped.output)), expected, atol=1e-5)
    raw = command("encode", trained, stdin=SENTENCES.replace(" .", ".").replace(" ,", ",").encode())
    np.testing.assert_allclose(np.load(io.BytesIO(raw.output)), expected, atol=1e-5)
    flags = ("--pooling", "mean", "--remove-component", "--normalise", "--join", "average", "--transductive")
    assert command("encode", trained, "s.txt", "-o", "v.npy", "--tokenised", *flags).code == 0
    chosen = Representation("mean", True, True, "average", transductive=True)
    expected = Embedder.load(trained, representation=chosen).encode([line.split() for line in SENTENCES.splitlines()])
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-5)


def test_a_run_keeps_which_vectors_it_gives(command, corpus, tmp_path):
    flags = ("--pooling", "pooled", "--no-normalise", "--similarity-pooling", "mean", "--similarity-join", "average")
    weights = ("--view-weights", "1,0.5", "--similarity-view-weights", "0, 1")
    assert command("train", "--views", "seq,avg", *FLAGS, *flags, *weights).code == 0
    kept = Embedder.load(tmp_path / "runs" / "seq-avg").representation
    chosen = {"similarity_pooling": "mean", "similarity_join": "average"}
    assert kept == Representation("pooled", view_weights=(1, 0.5), similarity_view_weights=(0, 1), **chosen)


def test_a_dry_run_writes_nothing(command, corpus, tmp_path):
    before = contents(tmp_path)
    ended = command("train", "--views", "dep,const", *FLAGS, "--dry-run")
    assert ended.code == 0
    assert re.match(rb"1 step in about \d+ (s|min)\b.*, at ", ended.output)
    assert contents(tmp_path) == before
    assert command("train", "--views", "dep,const", *FLAGS).code == 0
    before = contents(tmp_path)
    ended = command("train", "--resume", "runs/dep-const", "--epochs", "4", "--dry-run")
    assert ended.code == 0
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--views dep", "1 view for the objective 'pairwise': it needs at least 2"),
        ("--views seq,avg --objective generative", "2 views for the objective 'generative': it needs 1, for example"),
        ("--views seq --objective consensus", "agreement 'multi' needs two or more views, not seq: use --views"),
        ("", "no views: choose some with --views"),
        ("--views dep,const --corpus none.parsed", "none.parsed does not exist: make a parsed corpus"),
        ("--views seq,avg --view-weights 1,2,3", "view_weights = 1,2,3: 3 weights for 2 views: give one each for"),
        ("--views seq,avg --view-weights 1,x", "view_weights = '1,x': give numbers, such as 1,1,2"),
        ("--views bow,bow --out mine", "mine: already exists and is not a run: give another folder"),
        ("--views bow,bow --out mine/thesis.txt", "mine/thesis.txt: already exists and is not a run: give"),
        ("--views bow,bow --out mine/thesis.txt/run", "mine/thesis.txt/run: "),
        ("--resume mine", "mine: not a run"),
        ("--resume old --lr 1", "--resume uses the run's own settings: leave out --lr"),
        ("--resume old --config c.toml", "--resume uses the run's own settings: leave out --config"),
        ("--config c.toml", "c.toml: [views]: unknown setting 'hiden': the settings are names, hidden"),
    ],
)
def test_what_cannot_be_trained(command, corpus, tmp_path, arguments, message):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.toml").write_text("")
    (tmp_path / "c.toml").write_text('[data]\ncorpus = "x.parsed"\n[views]\nnames = ["dep", "const"]\nhiden = 3\n')
    assert fails(command, tmp_path, "train", *arguments.split()).startswith(f"error: {message}")


@pytest.mark.parametrize(("file", "has", "lacks"), [(0, "dep-sum,dep", "const"), (1, "const,seq", "dep")])
def test_trees_that_a_view_needs(command, tmp_path, file, has, lacks):
    tiny_corpus(tmp_path / "x.parsed", [TINY[file]])
    kind = {"dep": "dependency", "const": "constituency"}[lacks]
    assert f"x.parsed has no {kind} trees" in fails(command, tmp_path, "train", "--views", f"bow,{lacks}")
    assert command("train", "--views", has, *FLAGS).code == 0


def test_what_cannot_be_encoded(command, trained, tmp_path):
    for arguments, text, said in (
        (["s.txt", "-o", "v.npy"], b"", "s.txt: No such file"),
        ([], b"a bird\n\nanother\n", "standard input:2: blank line"),
        (["-o", "none/v.npy"], b"a bird\n", "none/v.npy: cannot be written"),
    ):
        assert fails(command, tmp_path, "encode", trained, *arguments, stdin=text).startswith(f"error: {said}")


@pytest.mark.parametrize(
    ("arguments", "names", "command_line"),
    [
        (["corpus", "mrge"], "'mrge'", "structviews corpus"),
        (["table"], "'runs'", "structviews table"),
        (["corpus", "merge", "x"], "'--out'", "structviews corpus merge"),
        (["table", "x", "--format", "yaml"], "'--format'", "structviews table"),
        (["train", "--hiden", "3"], "--hidden", "structviews train"),
        (["train", "--hidden", "few"], "'--hidden': Input should be a valid integer", "structviews train"),
        (["train", "--views"], "'--views' requires an argument", "structviews"),
    ],
)
def test_arguments_that_no_command_has(command, tmp_path, arguments, names, command_line):
    """What Typer says of them, on one line, and where to look."""
    said = fails(command, tmp_path, *arguments)
    assert said.startswith("error: ")
    assert names in said
    assert said.endswith(f": see {command_line} --help")


@pytest.mark.parametrize("group", [[], ["corpus"]])
def test_without_a_command_the_help_is_shown(command, group):
    ended = command(*group)
    assert (ended.code, ended.errors) == (2, [])
    assert "Usage: " in ended.output.decode()
