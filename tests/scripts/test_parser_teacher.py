"""``scripts/parser_teacher.py``: a tiny transformer learns a treebank, and parses a text."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scripts_for_tests import load
from tiny_encoders import encoder_folder

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.parsing.backends import PARSERS
from structviews.parsing.parser import Options

FILES = [Path(__file__).parents[1] / "data" / f"tiny.{kind}" for kind in ("conllu", "ptb")]


@torch.inference_mode()
def test_a_teacher_learns_and_parses_and_sees_each_word_by_its_first_piece(monkeypatch, tmp_path, capsys):
    script, out = load("parser_teacher", monkeypatch), tmp_path / "teacher"
    monkeypatch.setattr(PARSERS, "_known", {**PARSERS._known})
    for name, value in {"WARM_UP": 2, "NEW_RATE": 5e-3, "RATE": 1e-3}.items():
        monkeypatch.setattr(script, name, value)
    with torch.inference_mode(mode=False):
        script.train(encoder_folder(tmp_path / "bert", layers=3, positions=200), FILES, FILES, out, epochs=60)
    scores = [float(line.split("LAS ")[1].split(",")[0]) for line in capsys.readouterr().out.splitlines()]
    assert scores[-1] > scores[0] + 15
    (tmp_path / "text.txt").write_text("Unreadable paintings left.\nShe left.\n")
    script.parse(out, tmp_path / "text.txt", tmp_path / "silver.parsed", workers=1)
    trees = [row.sentence for row in ParsedCorpus.open(tmp_path / "silver.parsed")]
    assert [len(tree.heads) for tree in trees] == [(len(tree.left) + 1) for tree in trees] == [4, 3]
    parser = script.load_teacher(str(out), Options())
    (out / script.WEIGHTS).write_bytes(b"{}")
    with pytest.raises(InputError, match=r"model\.safetensors: damaged: train the teacher again"):
        script.load_teacher(str(out), Options())
    network, rows = parser.network.float(), [parser.featuriser(tree.tokens) for tree in trees]
    words = torch.from_numpy(np.stack([np.resize(row, (4, script.PIECES)) for row in rows]))
    states = network.encode(words, torch.tensor([[True] * 4, [True] * 3 + [False]]))
    for found, row in zip(states, rows, strict=True):
        whole = torch.tensor([[network.ends[0], *row[row >= 0], network.ends[1]]])
        layers = network.transformer(whole, output_hidden_states=True).hidden_states[-script.LAYERS :]
        mixed = sum(share * each for share, each in zip(network.layers.softmax(0), layers, strict=True))
        firsts = np.cumsum([1, *(row >= 0).sum(axis=1)])[:-1]
        torch.testing.assert_close(found[: len(row)], mixed[0, firsts])
