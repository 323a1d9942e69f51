import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scripts_for_tests import load
from vector_files import write_vectors

from structviews.corpus.sentence import ParsedSentence
from structviews.parsing.backends.builtin import BuiltinParser
from structviews.parsing.neural import ParserConfig
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import open_source

# Words as form/tag/head/relation, and the bracketed tree.
SENTENCES = [
    ("I/PRP/2/nsubj go/VBP/0/root home/RB/2/advmod", "(ROOT (S (NP-SBJ (PRP I)) (VP (VBP go) (ADVP (RB home)))))"),
    (
        "The/DT/2/det bird/NN/3/nsubj sat/VBD/0/root ././3/punct",
        "(ROOT (S (NP (DT The) (NN bird)) (VP (VBD sat)) (. .)))",
    ),
    ("Go/VB/0/root", "(ROOT (S (VP (VB Go))))"),
]


def conllu(sentence):
    rows = [word.rsplit("/", 3) for word in sentence.split()]
    lines = [f"{i}\t{w}\t_\t_\t{t}\t_\t{h}\t{r}\t_\t_\n" for i, (w, t, h, r) in enumerate(rows, 1)]
    return "".join(lines) + "\n"


@pytest.fixture
def script(monkeypatch):
    """The script as a module, with a network small enough to train in a moment."""
    module = load("train_parser", monkeypatch)
    small = {"buckets": 50, "word_dim": 16, "affix_dim": 8, "dim": 24, "blocks": 2, "heads": 2}
    small |= {"arc_dim": 16, "relation_dim": 16, "span_dim": 16}
    monkeypatch.setattr(module, "ParserConfig", lambda *sizes: ParserConfig(*sizes, **small))
    return module


@pytest.fixture
def treebank(tmp_path):
    for name in ("gum/train", "gum/dev", "ewt/train", "ewt/dev"):
        file = tmp_path / "treebanks" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_suffix(".conllu").write_text("".join(conllu(words) for words, _ in SENTENCES * 4))
        if "gum" in name:
            file.with_suffix(".ptb").write_text("".join(f"{tree}\n" for _, tree in SENTENCES * 4))
    return tmp_path / "treebanks"


@pytest.fixture
def train(script, treebank, monkeypatch):
    def train(out, *flags):
        command = ["train_parser.py", "--treebanks", treebank, "--out", out, "--min-words", 1, "--min-labels", 1]
        monkeypatch.setattr(sys, "argv", [*map(str, command), *map(str, flags)])
        script.main()

    return train


def test_one_epoch_end_to_end(train, tmp_path, capsys):
    train(tmp_path / "parser", "--epochs", 1, "--gum-epochs", 0)
    printed = capsys.readouterr().out
    assert printed.startswith("12 + 12 sentences, ")
    assert "epoch 1/1: loss " in printed
    for title in ("GUM dev", "GUM dev, lower case", "EWT dev", "EWT dev, lower case"):
        assert f"\n{title:<22}tags " in printed
    assert sorted(file.name for file in (tmp_path / "parser").iterdir()) == [
        f"model.{end}" for end in ("json", "safetensors", "sha256")
    ]
    assert len(BuiltinParser.read(tmp_path / "parser").parse([["Go", "home"]])) == 1


@pytest.mark.slow
def test_training_learns(train, tmp_path, capsys):
    flags = ("--epochs", 40, "--gum-epochs", 35, "--warm-up", 5, "--lr", 1e-2, "--batch-words", 20)
    train(tmp_path / "parser", *flags, "--lower-case", 0.3)
    capsys.readouterr()
    train(tmp_path / "parser", "--score-only")
    scores = capsys.readouterr().out.splitlines()
    assert len(scores) == 4
    for line in scores[:2]:
        assert "tags 100.00  UAS 100.00  LAS 100.00  F1 100.00" in line


def test_goes_on_from_its_state(script, train, tmp_path, monkeypatch, capsys):
    flags = ("--epochs", 3, "--gum-epochs", 1, "--batch-words", 12, "--warm-up", 2, "--lr", 1e-2)
    train(tmp_path / "whole", *flags)

    def stop_in_second_epoch(title, _scores, epochs=[]):  # noqa: B006 - counts its calls
        epochs.append(title)
        if len(epochs) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(script, "show", stop_in_second_epoch)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "parts", *flags)
    assert torch.load(tmp_path / "parts/training-state.pt", weights_only=True)["epoch"] == 1
    capsys.readouterr()
    train(tmp_path / "parts", *flags)
    printed = capsys.readouterr().out
    assert "epoch 1/3" not in printed
    assert "epoch 2/3" in printed
    for name in ("model.safetensors", "model.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "parts/training-state.pt").exists()


def test_learns_from_vectors_and_silver_trees(train, treebank, tmp_path):
    vectors = np.random.default_rng(1).standard_normal((2, 16)).astype(np.float32)
    write_vectors(tmp_path / "words.vec", ["bird", "worm"], vectors)
    files = [str(treebank / "gum/train.conllu"), str(treebank / "gum/train.ptb")]
    source = open_source(files, parser="treebank", layout=None, tokenised=False, max_tokens=120)
    silver, _ = parse_corpus(source, tmp_path / "silver.parsed", workers=1)
    flags = ("--words", tmp_path / "words.vec", "--silver", silver.path, "--silver-epochs", 1, "--lr", 0)
    train(tmp_path / "parser", "--epochs", 1, "--gum-epochs", 0, *flags)
    parser = BuiltinParser.read(tmp_path / "parser")
    assert {"bird", "worm"} <= set(parser.settings["words"])
    table = load_file(tmp_path / "parser" / "model.safetensors")["words.form.weight"]
    rows = table[parser.featuriser(["Bird", "worm"])[:, 0].astype(np.int64)].float()
    # As the file has them, but for the scale, and half precision.
    assert torch.nn.functional.cosine_similarity(rows, torch.from_numpy(vectors)).min() > 0.999


def test_a_state_that_holds_code_is_refused(train, tmp_path):
    (tmp_path / "parser").mkdir()
    torch.save({"epoch": Path("x")}, tmp_path / "parser/training-state.pt")
    with pytest.raises(pickle.UnpicklingError):
        train(tmp_path / "parser", "--epochs", 1, "--gum-epochs", 0)


def test_scores_of_known_errors(script):
    tree = {"tokens": ("a", "b", "c"), "left": (1, 0), "right": (2, 3), "heads": (2, 0, 2)}
    truth = {"tags": ("A", "B", "C"), "relations": ("nsubj", "root", "obl:tmod"), "labels": ("NP", "", "", "VP", "S")}
    guess = {"tags": ("A", "B", "X"), "relations": ("det", "root", "obl"), "labels": ("NP", "", "", "S+VP", "S")}

    class Guesser:
        def parse(self, _):
            return [ParsedSentence(**tree, **guess)]

    scores = script.score(Guesser(), [ParsedSentence(**tree, **truth)], lowered=False)
    assert scores["UAS"] == 100
    assert [scores[name] for name in ("tags", "LAS", "F1")] == pytest.approx([200 / 3, 200 / 3, 600 / 7])
