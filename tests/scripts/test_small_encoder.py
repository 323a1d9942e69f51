"""A tiny encoder, trained as the real one is."""

import os
import re
import signal
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from scripts_for_tests import load

from structviews.errors import InputError
from structviews.runtime.signals import Interrupted

pytest.importorskip("transformers")
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM

from structviews.pretrained.loading import load_encoder

CORPUS = Path(__file__).resolve().parents[2] / "data/corpus.txt"
TINY = {"vocabulary": 300, "dim": 16, "layers": 2, "heads": 2, "inner": 32, "batch": 1024, "rate": 2e-2}
FILES = ["README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
WORDS = 0.02


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        yield load("small_encoder", patch)


@pytest.fixture(scope="module")
def parts(script):
    """The modules ``masked.texts`` and ``masked.training``."""
    return sys.modules["masked.texts"], sys.modules["masked.training"]


@pytest.fixture(scope="module")
def tiny(script):
    return script.Settings(**TINY)


@pytest.fixture
def one_thread():
    n = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n)


@pytest.fixture(scope="module")
def made(script, tiny, tmp_path_factory):
    """An encoder that was trained without a stop, in a folder of its own."""
    n = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("whole") / "encoder"
    script.make([CORPUS], folder, words=WORDS, settings=tiny)
    torch.set_num_threads(n)
    return folder


def figures(card):
    """Accuracy and perplexity by what guessed."""
    rows = re.findall(r"^\| (.+) \| ([\d.]+)% \| ([\d.,]+) \|$", card, re.MULTILINE)
    return {who: (float(accuracy), float(perplexity.replace(",", ""))) for who, accuracy, perplexity in rows}


def test_a_model_of_transformers_comes_out(script, made):
    assert sorted(file.name for file in made.iterdir()) == FILES
    assert [path.name for path in made.parent.iterdir()] == ["encoder"]
    tokeniser = AutoTokenizer.from_pretrained(made)
    assert tokeniser.is_fast
    read = tokeniser("The Café, open.", return_tensors="pt")
    pieces = tokeniser.convert_ids_to_tokens(read["input_ids"][0].tolist())
    assert (pieces[0], pieces[-1]) == ("[CLS]", "[SEP]")
    assert "".join(piece.removeprefix("##") for piece in pieces[1:-1]) == "thecafe,open."
    assert AutoModel.from_pretrained(made)(**read).last_hidden_state.shape == (1, len(pieces), 16)
    loaded = load_encoder(made)  # as structviews reads it
    assert loaded.pad == tokeniser.pad_token_id == 0
    # Stored with the output layer.
    _, told = BertForMaskedLM.from_pretrained(made, output_loading_info=True)
    assert not told["missing_keys"]


def test_it_guesses_better_than_from_frequencies(made):
    found = figures((made / "README.md").read_text())
    accuracy, perplexity = found["this model"]
    by_counts, perplexity_of_counts = found["how frequent pieces are"]
    assert accuracy > by_counts + 2
    assert perplexity < 0.8 * perplexity_of_counts


def test_figures_are_those_of_one_sentence_at_a_time(parts, tiny, made, tmp_path):
    texts, training = parts
    (tmp_path / "work").mkdir()
    found, tokeniser = texts.prepared(tmp_path / "work", [CORPUS], WORDS, asdict(tiny))
    model = BertForMaskedLM.from_pretrained(made).eval()
    _, held_out = texts.rows_of(found, tiny.positions)
    n_pieces = tokeniser.get_vocab_size()
    right, losses, targets = [], [], []
    for batch in training.hidden_batches(found.pieces, held_out, n_pieces, tiny.batch):
        labels = torch.full_like(batch.ids, -100)
        labels.flatten()[batch.places] = batch.targets
        for ids, label in zip(batch.ids, labels, strict=True):
            with torch.no_grad():
                logits = model(input_ids=ids[None]).logits[0][label >= 0]
            right += (logits.argmax(dim=1) == label[label >= 0]).tolist()
            losses += torch.nn.functional.cross_entropy(logits, label[label >= 0], reduction="none").tolist()
            targets += label[label >= 0].tolist()
    accuracy, perplexity = figures((made / "README.md").read_text())["this model"]
    assert accuracy == pytest.approx(100 * np.mean(right), abs=0.5)  # in bf16, where the CPU has it
    assert perplexity == pytest.approx(np.exp(np.mean(losses)), rel=0.01)
    in_training = [int(i) for i in found.part(~found.held_out).pieces]
    most = max(set(in_training), key=in_training.count)
    by_counts, _ = figures((made / "README.md").read_text())["how frequent pieces are"]
    assert by_counts == pytest.approx(100 * np.mean(np.array(targets) == most), abs=0.051)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_gives_the_same_weights(script, parts, tiny, made, tmp_path, monkeypatch, one_thread, number):
    _, training = parts
    take_step, steps = training.take_step, []

    def stop_at_seventh(*args):
        steps.append(args[-1])
        if len(steps) == 7:
            os.kill(os.getpid(), number)
        return take_step(*args)

    monkeypatch.setattr(training, "take_step", stop_at_seventh)
    folder = tmp_path / "encoder"
    with pytest.raises(Interrupted) as stop:
        script.make([CORPUS], folder, words=WORDS, settings=tiny)
    assert (stop.value.signal, stop.value.step) == (number, 7)
    assert not folder.exists()
    with pytest.raises(InputError, match="begun with other texts or settings: delete"):
        script.make([CORPUS], folder, words=2 * WORDS, settings=tiny)
    monkeypatch.setattr(script, "learn_pieces", None, raising=False)  # not again
    script.make([CORPUS], folder, words=WORDS, settings=tiny)
    for name in FILES:
        assert (folder / name).read_bytes() == (made / name).read_bytes(), name
    assert len(steps) == len(set(steps)) + (steps.count(max(steps)) - 1)
    assert not list(tmp_path.glob("*unfinished*"))
