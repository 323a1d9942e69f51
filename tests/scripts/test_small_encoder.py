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
from structviews.hub.portable import Source
from structviews.runtime.processes import Interrupted

pytest.importorskip("transformers")
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM

from structviews.pretrained.loading import load_encoder

CORPUS = Path(__file__).resolve().parents[2] / "data/corpus.txt"
TINY = {"vocabulary": 300, "dim": 16, "layers": 2, "heads": 2, "inner": 32, "batch": 256, "rate": 5e-3}
FILES = ["README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
# In millions, of a short training.
SHORT = 0.01


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


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    n = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n)


@pytest.fixture(scope="module")
def made(script, tiny, tmp_path_factory):
    """An encoder, in a folder of its own."""
    folder = tmp_path_factory.mktemp("made") / "encoder"
    script.make([CORPUS], folder, settings=tiny)
    return folder


@pytest.fixture(scope="module")
def whole(script, tiny, tmp_path_factory):
    """An encoder that was trained for a moment, without a stop."""
    folder = tmp_path_factory.mktemp("whole") / "encoder"
    script.make([CORPUS], folder, words=SHORT, settings=tiny)
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
    assert AutoModel.from_pretrained(made).config.hidden_dropout_prob == 0.1
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
    assert accuracy > by_counts
    assert perplexity < 0.95 * perplexity_of_counts


def test_figures_are_those_of_one_sentence_at_a_time(parts, tiny, made, tmp_path):
    texts, training = parts
    (tmp_path / "work").mkdir()
    found, tokeniser = texts.prepared(tmp_path / "work", [CORPUS], None, asdict(tiny))
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
def test_a_stopped_run_gives_the_same_weights(script, parts, tiny, whole, tmp_path, monkeypatch, number):
    _, training = parts
    take_step, rates = training.take_step, []

    def stop_at_seventh(model, optimiser, batch, rate):
        rates.append(rate)
        if len(rates) == 7:
            os.kill(os.getpid(), number)
        return take_step(model, optimiser, batch, rate)

    monkeypatch.setattr(training, "take_step", stop_at_seventh)
    folder, work = tmp_path / "encoder", tmp_path / "encoder.unfinished"
    with pytest.raises(Interrupted) as stop:
        script.make([CORPUS], folder, words=SHORT, settings=tiny)
    assert (stop.value.signal, stop.value.step, len(rates)) == (number, 7, 7)
    assert not folder.exists()
    before = (work / "texts.safetensors").stat().st_mtime_ns
    with pytest.raises(InputError, match=r"encoder\.unfinished: begun with other texts or settings: delete"):
        script.make([CORPUS], folder, words=2 * SHORT, settings=tiny)
    assert (work / "texts.safetensors").stat().st_mtime_ns == before
    script.make([CORPUS], folder, words=SHORT, settings=tiny)
    steps = int(re.search(r"(\d+) steps of about", (folder / "README.md").read_text())[1])
    assert len(rates) == steps > 20  # none was taken twice
    for name in FILES:
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), name
    assert not work.exists()


def test_the_loss_is_that_of_transformers(script, parts, tiny, monkeypatch):
    _, training = parts
    monkeypatch.setattr(training, "multiplies_half", lambda _: False)
    generator = np.random.default_rng(1)
    model = script.new_model(tiny, 300).eval()
    batch = training.masked(generator.integers(5, 300, (6, 21)), 300, generator)
    labels = torch.full_like(batch.ids, -100)
    labels.flatten()[batch.places] = batch.targets
    whole = model(input_ids=batch.ids, attention_mask=torch.ones_like(batch.ids), labels=labels).loss
    ours = torch.nn.functional.cross_entropy(training.guesses(model, batch), batch.targets)
    torch.testing.assert_close(ours, whole, rtol=1e-6, atol=1e-6)
    found = []
    for loss in (ours, whole):
        model.zero_grad()
        loss.backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-7)


def test_pieces_are_hidden_as_in_bert(parts):
    texts, training = parts
    ids = np.full((2000, 22), 7)
    ids[:, 0], ids[:, -1] = texts.FIRST, texts.LAST
    batch = training.masked(ids.copy(), 107, np.random.default_rng(1))
    rows, columns = np.divmod(batch.places.numpy(), 22)
    assert (np.bincount(rows) == 3).all()  # 15 % of 20, none of them twice
    assert len(set(batch.places.tolist())) == 6000
    assert np.bincount(columns, minlength=22)[[0, -1]].tolist() == [0, 0]
    assert np.bincount(columns)[1:-1].min() > 230
    assert set(batch.targets.tolist()) == {7}
    read = batch.ids.flatten()[batch.places].numpy()
    shares = [(read == texts.MASK).mean(), (read == 7).mean()]
    assert shares == pytest.approx([0.8, 0.1], abs=0.02)
    others = read[(read != texts.MASK) & (read != 7)]
    assert others.min() >= len(texts.SPECIAL)
    assert others.max() < 107
    untouched = np.delete(batch.ids.flatten().numpy(), batch.places.numpy())
    assert np.array_equal(untouched, np.delete(ids.ravel(), batch.places.numpy()))
    assert len(training.masked(ids[:3, :3].copy(), 107, np.random.default_rng(1)).places) == 3  # one at least


def test_rows_are_sentences_and_runs_of_sentences(parts):
    texts, _ = parts
    lengths = np.array([3, 4, 5, 6, 7, 2, 2])
    documents = np.array([0, 1, 1, 1, 2, 11, 21])
    found = texts.Texts(np.arange(29, dtype=np.uint16), lengths, documents, lengths)
    training, held_out = texts.rows_of(found, positions=12)
    ranges = [sorted(zip(rows.starts.tolist(), rows.lengths.tolist(), strict=True)) for rows in (training, held_out)]
    # Document 0 is held out; 1, 11 and 21 are joined, to runs of 10 pieces, never across documents.
    assert ranges == [[(3, 9), (12, 6), (18, 7), (25, 2), (27, 2)], [(0, 3)]]
    batches = texts.batches_of(training, 8, np.random.default_rng(1))
    assert sorted(index for batch in batches for index in batch.tolist()) == [0, 1, 2, 3, 4]
    assert sorted(map(len, batches)) == [1, 1, 1, 2]  # the two of one length
    for batch in batches:
        for index, ids in zip(batch, texts.ids_of(found.pieces, training, batch), strict=True):
            start, length = int(training.starts[index]), int(training.lengths[index])
            assert ids.tolist() == [texts.FIRST, *range(start, start + length), texts.LAST]


def test_the_same_texts_give_the_same_pieces(parts):
    texts, _ = parts
    lines = [line for line in CORPUS.read_text().splitlines() if line][:500]
    one, two = (texts.learn_pieces(lines, 800).get_vocab() for _ in range(2))
    assert one == two
    assert len(one) == 800


def test_words_are_limited_by_whole_documents(parts, tmp_path):
    texts, _ = parts
    (tmp_path / "a.txt").write_text("One two.\nThree.\n\nFour five six.\n")
    (tmp_path / "b.txt").write_text("Seven.\n\nEight.\n")
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    read = [(each.document, each.text) for each in texts.sentences(paths)]
    assert read == [(0, "One two."), (0, "Three."), (1, "Four five six."), (2, "Seven."), (3, "Eight.")]
    for words, n in ((1, 2), (3, 2), (4, 3), (7, 4), (8, 5)):
        assert len(list(texts.sentences(paths, words / 1e6))) == n


def test_the_rate_rises_and_falls(parts):
    _, training = parts
    shares = [training.share_of_rate(step, 100) for step in range(1, 101)]
    assert shares[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert np.diff(shares[4:]) == pytest.approx(-1 / 96)
    assert 0 < shares[-1] < 0.02


def test_what_cannot_be_read_or_is_there(script, made, tmp_path, monkeypatch, capsys):
    (tmp_path / "one.txt").write_text("A single document.\n")
    for text, out, expected in (
        (CORPUS, made, "encoder: already exists: give another folder with --out"),
        (tmp_path / "none.txt", tmp_path / "out", "none.txt: no such file: give a text"),
        (tmp_path / "one.txt", tmp_path / "out", "one.txt: a single document, which is held out: give more"),
    ):
        monkeypatch.setattr(sys, "argv", ["small_encoder.py", "--texts", str(text), "-o", str(out)])
        with pytest.raises(SystemExit) as stop:
            script.main()
        assert stop.value.code == 2
        assert expected in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "flags", "said"),
    [
        (b"", [], "x.txt is empty: give a text with sentences"),
        (b"One.\n\xff\n", [], "x.txt:2: not UTF-8 at byte 5 of the text"),
        (b"One.\n\nTwo.\n", ["--words", "0"], "--words: 0 is not a finite number above 0"),
        (b"One.\n\nTwo.\n", ["--words", "nan"], "--words: nan is not a finite number above 0"),
        (b"One.\n\nTwo.\n", ["--words", "many"], "--words: invalid positive value: 'many'"),
    ],
)
def test_what_cannot_be_learnt_from(script, tmp_path, monkeypatch, capsys, content, flags, said):
    (tmp_path / "x.txt").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["small_encoder.py", "--texts", "x.txt", "-o", "out", *flags])
    with pytest.raises(SystemExit) as stop:
        script.main()
    assert stop.value.code == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.safetensors"))


def test_the_card_names_the_texts(script, tiny, tmp_path):
    table = "\t".join(Source._fields) + "\nguides\tGuides\t2020\tCC BY 4.0\tX\t36\t3156\n"
    (tmp_path / "table.tsv").write_text(table)
    script.make([CORPUS], tmp_path / "encoder", words=SHORT / 5, tables=[tmp_path / "table.tsv"], settings=tiny)
    assert (tmp_path / "encoder/sources.tsv").read_text() == table
    text = (tmp_path / "encoder/README.md").read_text()
    assert "license: cc-by-sa-4.0\n" in text
    assert "| Guides | CC BY 4.0 | 36 | 3,156 |\n" in text
    assert "- 2 layers of 16 dimensions, 2 heads, 32 inner dimensions, 128 positions\n" in text
    assert "- 300 pieces" in text
