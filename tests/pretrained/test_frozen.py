"""Frozen encoders: states against one sentence at a time in plain calls of transformers, pieces against a slow aligner.

There are four kinds of tokenisers.
"""

import pickle
import shutil
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_encoders import KINDS, TEXT, encoder_folder, in_shards, tokeniser
from torch.utils.data import DataLoader
from transformers import AutoModel, AutoTokenizer, IBertConfig

from structviews.errors import InputError
from structviews.parsing.treebank import read_treebank
from structviews.pretrained.alignment import Aligner
from structviews.pretrained.encoder_name import EncoderName
from structviews.pretrained.loading import Blueprint, files_digest, found_folder, load_encoder
from structviews.pretrained.states import PIECES_AT_ONCE, FrozenEncoder, word_states

SENTENCES = [text.split() for text in (*TEXT[:4], "x", "It is n't we 'll", "the film")]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {kind: encoder_folder(tmp_path_factory.mktemp(kind), kind, positions=64) for kind in KINDS}


@cache
def plain(folder):
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()


def slow_spelling(words):
    """A sentence as text, and the first and last character of each word."""
    signs = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}
    text, spans = "", []
    for word in words:
        spelt = signs.get(word, word)
        glued = word.replace("’", "'").lower() in ("n't", "'s", "'m", "'d", "'re", "'ve", "'ll")
        text += "" if not text or glued else " "
        spans.append((len(text), len(text) + len(spelt)))
        text += spelt
    return text, spans


def slow_reading(tokeniser, words):
    """The ids of a sentence's pieces, and the places of each word's, by comparing characters one word at a time."""
    text, spans = slow_spelling(words)
    read = tokeniser(text, return_offsets_mapping=True)
    tokens = tokeniser.convert_ids_to_tokens(read["input_ids"])
    pieces = [(i, set(range(*span))) for i, span in enumerate(read["offset_mapping"]) if tokens[i] != "▁"]
    return read["input_ids"], [[i for i, characters in pieces if characters & set(range(*span))] for span in spans]


def slow_states(folder, words, layers=(2,), pooling="mean"):
    """One sentence without padding."""
    tokeniser, model = plain(folder)
    ids, places = slow_reading(tokeniser, words)
    with torch.no_grad():
        hidden = model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
    states = sum(hidden[layer][0] for layer in layers) / len(layers)
    return torch.stack([states[own[0]] if pooling == "first" else states[own].mean(dim=0) for own in places])


@pytest.mark.parametrize(
    ("layers", "numbers", "pooling"), [("", (2,), "mean"), (":0..1", (0, 1), "first"), (":-1,0", (0, 2), "mean")]
)
@pytest.mark.parametrize("kind", KINDS)
def test_states_are_those_of_one_sentence_at_a_time(folders, kind, layers, numbers, pooling):
    encoder = FrozenEncoder.open(f"{folders[kind]}{layers}", pooling)
    expected = torch.cat([slow_states(folders[kind], words, numbers, pooling) for words in SENTENCES])
    torch.testing.assert_close(encoder.states(SENTENCES), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_an_encoder_that_is_not_frozen_has_gradients(folders, pooling):
    """As a view that trains one needs: the same states, and gradients of all layers that are read."""
    loaded = load_encoder(folders["bert"])
    states = word_states(loaded, loaded.aligner.align(SENTENCES), (2,), pooling)
    torch.testing.assert_close(states, FrozenEncoder.open(str(folders["bert"]), pooling).states(SENTENCES))
    states.square().sum().backward()
    read = [each.grad for name, each in loaded.model.named_parameters() if "pooler" not in name]
    assert sum(each.abs().sum() > 0 for each in read) > len(read) / 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_does_not_depend_on_its_batch(folders, kind, monkeypatch):
    encoder = FrozenEncoder.open(str(folders[kind]), "mean")
    before, long = pickle.dumps(encoder), " ".join(TEXT).split()  # several windows
    together = encoder.states([*SENTENCES, long])
    assert pickle.dumps(encoder) == before
    assert torch.equal(pickle.loads(before).states([*SENTENCES, long]), together)
    alone = torch.cat([encoder.states([words]) for words in [*SENTENCES, long]])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)
    monkeypatch.setitem(PIECES_AT_ONCE, "cpu", 20)
    torch.testing.assert_close(encoder.states([*SENTENCES, long]), alone, rtol=1e-5, atol=1e-5)
    assert not together.requires_grad
    assert encoder.states([]).shape == (0, 32)
    # As many pieces at once as there are positions: one more would fail.
    assert encoder._loaded.aligner.align([["x"] * 300]).lengths.max() == 64
    assert encoder.states([["x"] * 300]).isfinite().all()


def test_workers_of_a_loader_read_on_the_cpu(folders):
    """Forks, in which a GPU cannot be used; here the parent's device is one that computes nothing."""
    encoder = FrozenEncoder.open(str(folders["bert"]), "mean")
    expected = encoder.states([["film"]])
    encoder.to("meta")
    with pytest.raises(RuntimeError, match="meta"):
        encoder.states([["film"]])
    loader = DataLoader([["film"]], collate_fn=encoder.states, num_workers=1, multiprocessing_context="fork")
    (states,) = loader
    torch.testing.assert_close(states, expected)
    with pytest.raises(RuntimeError, match="meta"):
        encoder.states([["film"]])


def test_what_is_fetched_is_whole_and_its_digest_that_of_what_decides_the_states(folders, tmp_path, monkeypatch):
    """A cache with a part of the files, as another program leaves it, is not the encoder: the rest is fetched."""
    hub = pytest.importorskip("huggingface_hub")
    whole = in_shards(folders["bert"], tmp_path / "whole")
    parts = {name: shutil.copytree(whole, tmp_path / name) for name in ("weights", "tokeniser")}
    shard = sorted(parts["weights"].glob("model-*"))[1]
    shard.unlink()
    for file in parts["tokeniser"].glob("*token*"):
        file.unlink()
    for part, missing in ((parts["weights"], shard.name), (parts["tokeniser"], "tokeniser")):
        there = {True: part, False: whole}

        def fetch(name, *, local_files_only, allow_patterns, there=there, **_):
            assert any(fnmatch("model.safetensors.index.json", pattern) for pattern in allow_patterns)
            return str(there[local_files_only])

        monkeypatch.setattr(hub, "snapshot_download", fetch)
        assert found_folder("owner/tiny") == whole
        there[False] = part
        with pytest.raises(InputError, match=rf"owner/tiny: neither .* \(it has no {missing}\): give one"):
            found_folder("owner/tiny")
    states = FrozenEncoder.open(str(folders["bert"]), "mean").states(SENTENCES)
    torch.testing.assert_close(FrozenEncoder.open(str(whole), "mean").states(SENTENCES), states)
    before, described = files_digest(whole), Blueprint.of(whole).digest
    assert files_digest(parts["weights"]) != before
    save_file({"x": torch.zeros(2)}, whole / "adapter.safetensors")
    (whole / "vocab.txt").write_text("also in tokenizer.json")
    (whole / "README.md").write_text("about")
    assert (files_digest(whole), Blueprint.of(whole).digest) == (before, described)
    for name in ("config.json", "tokenizer.json", sorted(whole.glob("model-*"))[0].name):
        content = (whole / name).read_bytes()
        (whole / name).write_bytes(content + b" ")
        assert files_digest(whole) != before
        (whole / name).write_bytes(content)
    (whole / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(InputError, match=r"model\.safetensors\.index\.json: .*weight_map.*: restore its files"):
        files_digest(whole)


@pytest.mark.parametrize(
    ("text", "name", "layers", "numbers"),
    [
        ("roberta-base", "roberta-base", "-1", (12,)),
        ("a/b:-4..-1", "a/b", "-4..-1", (9, 10, 11, 12)),
        ("C:\\models\\x:0,2..3,-1", "C:\\models\\x", "0,2..3,-1", (0, 2, 3, 12)),
    ],
)
def test_names(text, name, layers, numbers):
    assert EncoderName.of(text) == (name, layers)
    assert EncoderName.of(text).numbers(12) == numbers
    for wrong in ("13", "-14", "3..2", "11..13"):
        with pytest.raises(InputError, match=r"not layers of it: it has 0 \(its embeddings\) to 12"):
            EncoderName.of(f"x:{wrong}").numbers(12)


def without_a_weight(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def as_pickle(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def with_code(folder):
    text = (folder / "config.json").read_text()
    text = text.replace('"model_type": "bert"', '"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}')
    (folder / "config.json").write_text(text)
    (folder / "own.py").write_text("raise SystemExit('run')")


@pytest.mark.parametrize(
    ("breaking", "said"),
    [
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "not an encoder that can be loaded"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "not an encoder that can be loaded"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "not an encoder that can be loaded"),
        (without_a_weight, "its weights lack encoder.layer.1.output.dense.weight"),
        (as_pickle, "not an encoder that can be loaded"),
        (with_code, "not an encoder that can be loaded"),
    ],
)
def test_what_cannot_be_loaded_is_one_line(folders, tmp_path, breaking, said, one_line):
    copy = shutil.copytree(folders["bert"], tmp_path / "broken")
    breaking(copy)
    with one_line(said):
        FrozenEncoder.open(str(copy), "mean").states([["film"]])


def test_a_table_of_positions_of_another_class(folders, tmp_path):
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    about = IBertConfig(vocab_size=400, max_position_embeddings=66, pad_token_id=1, **size)
    AutoModel.from_config(about).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folders["roberta"]).save_pretrained(tmp_path)
    assert FrozenEncoder.open(str(tmp_path), "mean").states([["x"] * 300]).shape == (300, 32)


def test_loading_draws_no_random_numbers(folders, tmp_path):
    """Of a pooler that the file lacks, in the middle of a training that is resumed."""
    folder = Path(shutil.copytree(folders["bert"], tmp_path / "bare"))
    weights = load_file(folder / "model.safetensors")
    bare = {name: weight for name, weight in weights.items() if "pooler" not in name}
    assert len(bare) < len(weights)
    save_file(bare, folder / "model.safetensors", {"format": "pt"})
    before = torch.get_rng_state()
    load_encoder(folder)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_missing_encoder_is_one_line(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match=r"nobody/nothing: neither a folder here nor a model of the Hugging Face Hub"):
        FrozenEncoder.open("nobody/nothing", "mean")
    with pytest.raises(InputError, match="no folder with a model"):
        FrozenEncoder.open("./nothing", "mean")
    with pytest.raises(InputError, match=r"layers after a colon are numbers, as in -4\.\.-1"):
        FrozenEncoder.open("bert:last4", "mean")


GUM = Path(__file__).parents[3] / "shared/data/treebanks/gum"
TOKENISERS = {kind: tokeniser(kind) for kind in KINDS}
UNKNOWN = {kind: each.unk_token for kind, each in TOKENISERS.items()}
HARD = (
    "It is n't we 'll Mary 's dogs ' ca n't do n’t he ’s",
    "'s n't she",
    "-LRB- see -LSB- 1 -RSB- and -LCB- x -RCB- -RRB-",
    "`` it rains '' she said",
    "good 😀 film 👩‍👩‍👧 🇨🇭 ! ❤️",
    "a \x00 b \u200b c \u0301 \xa0 \ufeff end \x07",  # words that tokenisers drop
    "\x00 \x07",
    "电影 很 好看 。 龘 x",
    "a <s> [SEP] </s> [UNK] <unk> <mask> b",
    "ﬁne ½ Ⅷ İstanbul ß é é",  # which normalising changes
    "x",
)
HARD_SENTENCES = [*(text.split(" ") for text in HARD), ["1 1/2", "cups"], ["of", "the", "film"] * 40, list("abc") * 70]
LONGEST = 20


def slow_pieces(kind, words):
    """The pieces of each word as ids; whole sentences are read."""
    while True:
        ids, places = slow_reading(TOKENISERS[kind], words)
        if all(places):
            return [[ids[place] for place in own] for own in places]
        words = [word if own else UNKNOWN[kind] for word, own in zip(words, places, strict=True)]


def aligned(kind, sentences, longest=LONGEST):
    """Each word's pieces as ids, sentence by sentence, and what was found."""
    found = Aligner(TOKENISERS[kind].backend_tokenizer, longest, UNKNOWN[kind]).align(sentences)
    own = [each.tolist() for each in np.split(found.ids[found.indices], found.starts[1:])]
    ends = np.cumsum([len(each) for each in sentences])
    return [own[end - len(each) : end] for each, end in zip(sentences, ends, strict=True)], found


@pytest.mark.parametrize("kind", KINDS)
def test_hard_cases_as_the_slow_aligner(kind):
    own, _ = aligned(kind, HARD_SENTENCES)
    assert own == [slow_pieces(kind, words) for words in HARD_SENTENCES]


@pytest.mark.parametrize("kind", KINDS)
def test_each_piece_is_read_once_and_far_from_a_cut(kind):
    """Every piece of a long sentence in the window in which its distance to the nearer cut is largest."""
    words = " ".join(TEXT).split()
    (own,), found = aligned(kind, [words])
    assert own == slow_pieces(kind, words)
    window = np.repeat(np.arange(len(found.lengths)), found.lengths)
    inside = np.arange(len(found.ids)) - np.repeat(np.cumsum(found.lengths) - found.lengths, found.lengths)
    assert len(found.lengths) > 3
    content = LONGEST - 2
    step = content - content // 2
    for place in found.indices.tolist():
        which, rank = window[place], inside[place] - 1  # without the token that begins each window
        number = which * step + rank
        others = [other for other in range(len(found.lengths)) if 0 <= number - other * step < found.lengths[other] - 2]

        def room(other, number=number):
            left = number - other * step if other else np.inf
            right = found.lengths[other] - 3 - (number - other * step) if other < len(found.lengths) - 1 else np.inf
            return min(left, right)

        assert room(which) == max(map(room, others))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.skipif(not GUM.is_dir(), reason=f"{GUM} is not there")
def test_a_treebank_as_the_slow_aligner(kind):
    (file,) = GUM.glob("*dev*.conllu")
    sentences = [list(each.sentence.tokens) for each in read_treebank((file,))]
    own, _ = aligned(kind, sentences, 64)
    assert own == [slow_pieces(kind, words) for words in sentences]
