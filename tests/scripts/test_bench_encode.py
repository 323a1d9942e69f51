import importlib
import json
import re
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import opened, small_config, tiny_corpus
from packed_runs import pack
from torch.utils.flop_counter import FlopCounterMode
from trees_for_tests import SHAPES
from vector_files import fasttext_model, random_vectors

from structviews import Embedder
from structviews.corpus.sentence import ParsedSentence
from structviews.training.loop import train
from structviews.views.view import create_view
from structviews.words.vocabulary import count_words

pytest.importorskip("transformers", reason="needs structviews[sentence-transformers]")
SCRIPTS = Path(__file__).parents[2] / "scripts"
VIEWS = ["dep-sum", "dep", "const", "seq"]
TEXTS = ["A bird sings.", "The old man sees a very small bird in the dead tree.", "Nobody", "It rains, it pours."]


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def module(monkeypatch):
    """A module of the benchmark by its name."""
    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # the benchmark sets it
    return importlib.import_module


@pytest.fixture
def pieces(module):
    return module("benchmarks.texts").tokeniser(None, TEXTS * 2)


@pytest.fixture
def tiny(module, pieces):
    """A small transformer."""

    def make(name, precision="fp32"):
        encoders = module("benchmarks.encoders")
        size = encoders.SIZES[name]._replace(layers=2, width=8, heads=2, inner=16)
        return encoders.Transformer(name, precision, size, size.make(size, pieces).eval(), pieces)

    return make


def settings(module, **changes):
    quick = {"threads": [1], "batches": [2], "precisions": ["fp32"], "rounds": 2, "seconds": 1e-9, "sentences": 3}
    quick |= {"longest": 1e9, "calls": 4, "ceiling": 8}
    return module("benchmarks.encoder_race").Settings(**quick | changes)


class Recorded:
    """An encoder that takes note of its calls."""

    given, precision = "raw", "fp32"

    def __init__(self, name, processes=1):
        self.name, self.processes, self.calls = name, processes, []

    def prepare(self, texts):
        return texts

    def encode(self, sentences, batch_size):
        self.calls.append((sentences, batch_size))

    def operations(self, sentences):
        return 1000 * len(sentences)


def test_a_quick_race(module, monkeypatch, tmp_path, capsys):
    path = tmp_path / "race.json"
    names = ("default", "seq,seq", "avg,avg", "all-MiniLM-L6-v2")
    flags = ["--quick", "--json", str(path), "--precisions", "fp32", "bf16", "--encoders", *names]
    monkeypatch.setattr(sys, "argv", ["bench_encode.py", *flags])
    module("bench_encode").main()
    shown, found = capsys.readouterr().out, json.loads(path.read_text())
    rates = [row for row in found["rows"] if row["batch"] == 8]
    raced = {(row["encoder"], row["given"], row["precision"]) for row in rates}
    assert {(name, given, "fp32") for name in names[:3] for given in ("raw", "prepared")} <= raced
    assert {(names[3], "raw", "fp32"), (names[3], "raw", "bf16")} <= raced
    assert all(row["sentences_per_second"] > 0 and row["ceiling_gflops"] > 0 for row in rates)
    assert all(
        ("share_of_ceiling" in row) == (row["given"] == "prepared" or row["encoder"] == names[3]) for row in rates
    )
    assert all(row["times_reference"] == 1 for row in rates if row["encoder"] == names[3])
    single = [row for row in found["rows"] if row["batch"] == 1]
    assert {(row["encoder"], row["given"], row["precision"]) for row in single} == raced
    assert all(row["calls"] == 2 and 0 < row["wall_p50_ms"] <= row["wall_p99_ms"] for row in single)
    assert found["pieces"] > 1000
    assert 1 < found["texts"][0]["pieces"] < 3
    assert shown.count("\n| default | prepared | fp32 | ") == 2
    assert "## 5 words, 1 thread\n" in shown


def test_sentences_of_a_length_are_different_and_cut_only_if_there_are_too_few(module):
    of_length = module("benchmarks.texts").of_length
    lines = ["a b c", "d e", "f g h i", "a b c", "j k l", "a b c m", "n o p q r"]
    assert sorted(of_length(lines, 3, 2).texts) == ["a b c", "j k l"]
    some = of_length(lines, 3, 10)
    assert sorted(some.texts) == ["a b c", "f g h", "j k l", "n o p"]
    assert (some.words, some.cut) == (3, 2)
    assert of_length(lines, 9, 10).texts == []


def test_a_sample_is_of_all_parts_of_a_text(module):
    lines = [f"word {number}" for number in range(1000)]
    numbers = sorted(int(text.split()[1]) for text in module("benchmarks.texts").of_length(lines, 2, 10).texts)
    assert numbers == list(range(0, 1000, 100))


def test_the_tokeniser_splits_as_bert_does(module, pieces, tmp_path):
    texts = module("benchmarks.texts")
    ids = pieces(["The bird, it SINGS."])["input_ids"][0]
    shown = pieces.convert_ids_to_tokens(ids)
    assert (shown[0], shown[-1]) == ("[CLS]", "[SEP]")
    assert "".join(shown[1:-1]).replace("##", "") == "thebird,itsings."
    one_word = texts.Sentences(["tree"], 1, 0)
    assert texts.pieces_per_word(pieces, one_word) == len(pieces.tokenize("tree"))
    pieces.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    again = texts.tokeniser(tmp_path / "tokenizer.json", [])
    assert again(TEXTS, padding=True) == pieces(TEXTS, padding=True)


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "all-mpnet-base-v2"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_transformer_gives_each_sentence_its_vector(tiny, name, precision):
    encoder = tiny(name, precision)
    vectors = encoder.encode(TEXTS, 3)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), 8), np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    alone = np.concatenate([encoder.encode([text], 1) for text in TEXTS])
    assert vectors == pytest.approx(alone, abs=1e-5 if precision == "fp32" else 0.02)
    # How far random vectors are apart depends on the tokeniser, which is learnt anew and breaks ties by chance.
    nearest = np.abs(vectors[:, None] - alone).max(axis=2).argmin(axis=1)
    assert nearest.tolist() == list(range(len(TEXTS)))


def test_operations_of_a_transformer(tiny):
    """Of sentences of one length, which are not padded."""
    encoder = tiny("all-mpnet-base-v2")  # whose attention is plain products
    with FlopCounterMode(display=False) as counted:
        encoder.encode(TEXTS[:1] * 3, 3)
    assert encoder.operations(TEXTS[:1] * 3) == counted.get_total_flops()


@pytest.fixture
def averages(module, tmp_path):
    encoders = module("benchmarks.encoders")
    embedder = encoders.in_precisions(encoders.random_run(["avg", "avg"], tmp_path / "run"), ["fp32"])["fp32"]
    return [encoders.Run("avg,avg", given, "fp32", embedder) for given in (encoders.RAW, encoders.PREPARED)]


def test_a_random_run_has_the_words_of_the_bundled_model(averages):
    bundled = Embedder.load("default")
    for encoder in averages:
        run = encoder.embedder
        assert run.views == ("avg", "avg")
        assert run.dim == 2 * bundled.config.views.hidden
        (channel,), (original,) = run.model.channels.values(), bundled.model.channels.values()
        ids = torch.arange(100)
        assert torch.equal(channel.tables[0].own_rows(ids), original.tables[0].own_rows(ids))
        assert [run.vocabularies[name].words for name in run.vocabularies] == [
            bundled.vocabularies[name].words for name in bundled.vocabularies
        ]


def test_a_random_run_of_a_model_with_sub_words_and_views_that_weigh_differently(module, tmp_path, monkeypatch):
    corpus = tiny_corpus(tmp_path / "x.parsed")
    words = sorted(count_words(opened(corpus)))
    (tmp_path / "v.bin").write_bytes(fasttext_model(words, random_vectors(range(len(words) + 64), 6)))
    given = {"channels": ("fixed",), "vectors": str(tmp_path / "v.bin"), "similarity_view_weights": (0, 0, 1)}
    run = train(small_config(corpus, tmp_path / "run", ("dep", "const", "sif"), unit_words=True, epochs=1, **given))
    pack(run, tmp_path / "packed", 5)
    encoders = module("benchmarks.encoders")
    monkeypatch.setattr(encoders, "BUNDLED", str(tmp_path / "packed"))
    made = Embedder.load(encoders.random_run(["avg", "avg"], tmp_path / "random"))
    unheard, other = made.encode([["unheard"], ["otherwise"]])
    assert np.abs(unheard - other).max() > 1e-3


def test_prepared_sentences_have_the_vectors_of_their_text(averages):
    raw, prepared = averages
    sentences = prepared.prepare(TEXTS)
    assert [type(each).__name__ for each in sentences] == ["ParsedSentence"] * len(TEXTS)
    assert np.array_equal(prepared.encode(sentences, 2), raw.encode(raw.prepare(TEXTS), 2))


def test_operations_of_a_mean(averages):
    raw, prepared = averages
    sentences = prepared.prepare(TEXTS)
    with FlopCounterMode(display=False) as counted:
        prepared.encode(sentences, len(TEXTS))
    assert prepared.operations(sentences) == counted.get_total_flops() == 2 * 2 * len(TEXTS) * 300 * 600
    assert raw.operations(TEXTS) is None


def forward_operations(module, name, sentences):
    """Operations of a small view's forward pass."""
    flops = module("benchmarks.forward_flops")
    known = {word: number for number, word in enumerate({word for each in sentences for word in each.tokens})}
    words = [flops.Words([known[word] for word in each.tokens], each) for each in sentences]
    return flops.of_view(create_view(name, 3, 6), words)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("shape", SHAPES)
def test_operations_are_a_third_of_training_where_nothing_is_the_same(module, name, shape):
    number = count()
    some = [replace(s, tokens=tuple(f"word{next(number)}" for _ in s.tokens)) for s in SHAPES[shape]]
    batch = module("benchmarks.corpora").batch_of(some, ["dependency", "constituency"])
    assert (
        forward_operations(module, name, some) == module("benchmarks.flops").of_view(create_view(name, 3, 6), batch) / 3
    )


@pytest.mark.parametrize("name", VIEWS)
def test_what_is_the_same_counts_once(module, name):
    def tree(tokens):
        """The second word is the root, under it the first and the third, and so on to the right."""
        n = len(tokens)
        heads = (2, 0, *range(2, n))
        left, right = (n - 2, *range(n - 3, -1, -1)), (n - 1, *range(n, 2 * n - 2))
        return ParsedSentence(tokens, ("X",) * n, heads, ("r",) * n, left, right, ("",) * (2 * n - 1))

    one, again, other = map(tree, (("a", "b", "c", "d"), ("a", "b", "c", "d"), ("e", "f", "c", "d")))
    alone = forward_operations(module, name, [one])
    assert forward_operations(module, name, [one, again]) == alone
    both = forward_operations(module, name, [one, other])
    x, h = 3, 6
    # Two new words; and above `c d`, which is there, two nodes and what these bring, or all steps but the first.
    more = {
        "dep-sum": 2 * x * 3 * h + h * 3 * h + x * h + h * h,
        "dep": 2 * x * 3 * h + h * 3 * h + 2 * (x * h + h * h),
        "const": 2 * x * 3 * h + 3 * h * 5 * h,
        "seq": 2 * 2 * x * 3 * (h // 2) + (3 + 2) * (h // 2) * 3 * (h // 2),
    }
    assert both - alone == 2 * more[name]


def test_encoders_take_turns_on_other_sentences(module):
    racing, spending, texts = map(module, ("benchmarks.encoder_race", "benchmarks.spending", "benchmarks.texts"))
    pool = texts.Sentences([f"w{number}" for number in range(9)], 1, 0)
    first, second = Recorded("all-MiniLM-L6-v2"), Recorded("other")
    rows = list(racing.race(settings(module), [first, second], [pool], spending.Meter()))
    assert first.calls == second.calls
    trial, turns = first.calls[:2], first.calls[2:]
    assert [sentences for sentences, _ in trial] == [["w0", "w1"]] * 2
    assert [sentences for sentences, _ in turns] == [["w0", "w1"], ["w2", "w3"]]  # a whole batch, however slow
    assert {size for _, size in first.calls} == {2}
    assert [(row["encoder"], row["words"], row["threads"], row["batch"]) for row in rows] == [
        ("all-MiniLM-L6-v2", 1, 1, 2),
        ("other", 1, 1, 2),
    ]
    assert all((row["sentences"], row["rounds"], row["mflop_per_sentence"]) == (2, 2, 0.001) for row in rows)


def test_who_is_left_out(module):
    racing, spending, texts, tables = map(
        module, ("benchmarks.encoder_race", "benchmarks.spending", "benchmarks.texts", "benchmarks.encoder_tables")
    )
    pool = texts.Sentences(["w0", "w1", "w2"], 1, 0)
    encoders = [Recorded("all-MiniLM-L6-v2"), Recorded("other")]
    rows = list(racing.race(settings(module, batches=[2, 4], longest=0.0), encoders, [pool], spending.Meter()))
    assert [row["left_out"] for row in rows] == [
        *["a batch takes about 0 s"] * 2,
        *["the text has 3 sentences of 1 words or more"] * 2,
    ]
    assert [len(each.calls) for each in encoders] == [2, 2]  # the trials
    shown = tables.tables(tables.compare(rows))
    assert "No batches of 4 of all-MiniLM-L6-v2 raw fp32, other raw fp32: the text has 3 sentences" in shown
    assert "| other | raw | fp32 | - | - |" in shown


def test_several_processes_race_with_as_many_threads(module):
    racing, spending, texts = map(module, ("benchmarks.encoder_race", "benchmarks.spending", "benchmarks.texts"))
    encoders = [Recorded("one"), Recorded("two", processes=2)]
    pool = texts.Sentences([f"w{number}" for number in range(9)], 1, 0)
    some = settings(module, threads=[1, 2], batches=[1, 2])
    rows = list(racing.race(some, encoders, [pool], spending.Meter()))
    places = [(row["encoder"], row["threads"], row["batch"]) for row in rows]
    assert places == [("one", 1, 1), ("one", 1, 2), ("one", 2, 1), ("one", 2, 2), ("two", 2, 2)]
    assert [row["sentences_per_cpu_second"] is None for row in rows if row["batch"] == 2] == [False, False, True]
    shown = module("benchmarks.encoder_tables").tables(rows)
    assert re.search(r"\| two \| raw \| fp32 \| [\d,.]+ / - \|", shown)


@pytest.mark.slow
def test_processes_give_the_vectors_of_one(module, pieces):
    with module("benchmarks.encoders").encoders(["default"], ["fp32"], [1, 2], pieces) as found:
        raw, _, processes = found
        assert (processes.given, processes.processes, processes.operations(TEXTS)) == ("raw, 2 processes", 2, None)
        assert processes.encode(TEXTS * 300, 256) == pytest.approx(raw.encode(TEXTS * 300, 256), abs=1e-5)


def test_single_calls(module):
    racing, spending = module("benchmarks.encoder_race"), module("benchmarks.spending")
    encoder = Recorded("other")
    entrant = racing.Entrant(encoder, list("abcdefgh"))
    (row,) = racing.latencies(settings(module), [entrant], 1, spending.Meter())
    assert row["calls"] == 4
    counted = [sentences for sentences, _ in (*encoder.calls[3:5], *encoder.calls[8:10])]
    assert counted == [["a"], ["b"], ["c"], ["d"]]
    spent = [spending.Spent(seconds, seconds / 2, None) for seconds in np.arange(1, 102) / 1000]
    assert racing.percentiles(spent) == pytest.approx(
        {"calls": 101, "wall_p50_ms": 51, "wall_p99_ms": 100, "cpu_p50_ms": 25.5, "cpu_p99_ms": 50}
    )


def test_ratios_are_to_the_best_rate_of_the_reference(module):
    tables = module("benchmarks.encoder_tables")

    def row(encoder, batch, wall, cpu, threads=1, precision="fp32"):
        place = {"words": 20, "threads": threads, "batch": batch, "encoder": encoder, "precision": precision}
        return place | {"sentences_per_second": wall, "sentences_per_cpu_second": cpu}

    reference = "all-MiniLM-L6-v2"
    rows = [row("a", 8, 1, 30), row("a", 64, 1, 60), row(reference, 8, 1, 20), row(reference, 64, 1, 10)]
    rows += [row("a", 8, 9, 1, threads=2), row(reference, 8, 3, 1, threads=2), row("a", 8, 1, 1, precision="bf16")]
    rows.append({"words": 20, "threads": 1, "batch": 1, "encoder": "a", "precision": "fp32", "wall_p50_ms": 1.0})
    ratios = [each.get("times_reference") for each in tables.compare(rows)]
    assert ratios == [1.5, 3, 1, 0.5, 3, 1, None, None]


def test_energy_is_that_of_whole_packages(module, tmp_path):
    spending = module("benchmarks.spending")
    assert not spending.Meter(tmp_path / "none").tells_energy
    for name in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "max_energy_range_uj").write_text("9999999\n")
        (tmp_path / name / "energy_uj").write_text("7000000\n")

    def use():
        (tmp_path / "intel-rapl:0/energy_uj").write_text("8500000\n")
        (tmp_path / "intel-rapl:1/energy_uj").write_text("1000000\n")  # past its end
        (tmp_path / "intel-rapl:0:0/energy_uj").write_text("9000000\n")

    meter = spending.Meter(tmp_path)
    assert meter.tells_energy
    spent = meter.spent(use)
    assert spent.joules == pytest.approx(1.5 + 4)
    assert spent.wall > 0
    assert meter.spent(dict).joules == 0
