"""Trained runs made small, and put into the package with a card."""

import json
import pickle
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from corpora import RandomParser, opened, random_trees, small_config
from packed_runs import pack
from rich.console import Console
from safetensors.torch import load_file
from scripts_for_tests import load
from vector_files import fasttext_model, write_vectors

from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import join_runs
from structviews.errors import InputError
from structviews.evaluation.scores.results import save_results
from structviews.hub.card import model_card
from structviews.hub.portable import HEADER, Group, Source, check_arrived, read_sources, stage, summed, write_sources
from structviews.runs import bundled
from structviews.runs.file_checks import verify
from structviews.runs.folder import SOURCES, SUB_WORDS, model_checksum
from structviews.runs.weights import load_sub_words, load_words
from structviews.runtime.seals import read_arrays, write_arrays
from structviews.training.baselines import make_baseline
from structviews.training.loop import train
from structviews.words.sub_words import quantise
from structviews.words.vector_files import WordVectors
from structviews.words.vocabulary import count_words

WORDS = 12
TASK = {"partial": {}, "dim": 16}
FILES = ["components.safetensors", "config.toml", "model.safetensors", "words.safetensors"]


def scored(run, unavailable=(), **tasks):
    entries = {name: TASK | {"scores": {"accuracy": score}} for name, score in tasks.items()}
    results = {"format": 1, "dim": 16, "representation": "vector", "protocol": {"name": "senteval"}}
    save_results(run, results | {"tasks": entries, "unavailable": dict(unavailable)})


@pytest.fixture(scope="module")
def run(corpus, vectors):
    settings = {"channels": ("fixed", "trained"), "vectors": str(vectors), "epochs": 2}
    run = train(small_config(corpus, corpus.parent / "dep-const", **settings))
    scored(run, MR=80.0)
    return run


@pytest.fixture(scope="module")
def average(corpus, vectors):
    run = make_baseline("average", corpus, corpus.parent / "average", vectors, None, Console(quiet=True))
    scored(run, MR=70.0, SUBJ=71.0, TREC=72.0)
    return run


@pytest.fixture
def packed(run, tmp_path):
    pack(run, tmp_path / "default", WORDS)
    return tmp_path / "default"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_sentences_of_kept_words_have_the_same_vectors(run, packed):
    before, after = (Embedder.load(folder, RandomParser()) for folder in (run, packed))
    kept = [word for word in after.vocabularies["fixed"].words[1:] if word in after.vocabularies["trained"].words]
    assert len(kept) > WORDS / 2
    sentences = [kept[:4], kept[::-1], kept[2::3], kept[:1]]
    expected, found = before.encode(sentences), after.encode(sentences)
    np.testing.assert_allclose(found, expected, atol=1e-2 * np.abs(expected).max(), rtol=0)
    assert (found != expected).any()
    # A word that is not kept is unknown.
    known = {"<unk>", *after.vocabularies["fixed"].words, *after.vocabularies["trained"].words}
    cut = next(word for word in before.vocabularies["fixed"].words if word not in known)
    tree = random_trees([*kept[:4], "unheard"])
    cut, unheard = ([replace(tree, tokens=(*kept[:4], word))] for word in (cut, "unheard"))
    np.testing.assert_array_equal(after.encode(cut), after.encode(unheard))
    assert np.abs(before.encode(cut) - before.encode(unheard)).max() > 0.01


@pytest.mark.filterwarnings("error")
def test_what_a_packed_run_holds(run, packed, corpus, vectors):
    """The first words, rounded rows, halved weights; and it looks for no file, whatever lies beside it."""
    assert names(packed) == FILES
    weights, own = load_file(packed / "model.safetensors"), load_file(run / "model.safetensors")
    table = "channels.fixed.words.0"
    rows, scales = quantise(own.pop(f"{table}.weight")[: WORDS + 1].numpy())
    assert torch.equal(weights.pop(f"{table}.weight"), torch.from_numpy(rows))
    assert torch.equal(weights.pop(f"{table}.scale"), torch.from_numpy(scales))
    assert weights.keys() == own.keys()
    for name, weight in own.items():
        expected = weight[: WORDS + 1] if ".words." in name else weight
        assert torch.equal(weights[name], expected.half()), name
    for channel in ("fixed", "trained"):
        words = load_words(run, channel).words
        assert load_words(packed, channel).words == words[: WORDS + 1]
        assert len(words) > WORDS + 1
    for path in packed.iterdir():
        assert str(corpus.parent).encode() not in path.read_bytes()
    write_vectors(packed.parent / vectors.name, sorted(load_words(packed, "fixed").words))
    embedder = Embedder.load(packed)
    found = embedder.encode([random_trees(["elsewhere", "the"]), random_trees(["zzz", "the"])])
    np.testing.assert_allclose(found[0], found[1], atol=1e-7)
    assert embedder.description == "vector"


# Runs that compose unknown words of n-grams.
DIM, BUCKETS = 6, 64
UNHEARD = random_trees(["the", "unheard", "of", "computers", "naïveté"])


@pytest.fixture(scope="module")
def ngram_vectors(corpus):
    words = sorted(count_words(opened(corpus)))
    rows = np.random.default_rng(2).normal(size=(len(words) + BUCKETS, DIM)).astype(np.float32)
    path = corpus.parent / "v.bin"
    path.write_bytes(fasttext_model(words, rows))
    return path


@pytest.fixture(scope="module")
def ngram_run(corpus, ngram_vectors):
    return train(small_config(corpus, corpus.parent / "run", channels=("fixed",), vectors=str(ngram_vectors), epochs=1))


@pytest.fixture
def composing(ngram_run, tmp_path):
    assert pack(ngram_run, tmp_path / "packed", WORDS) == []
    return tmp_path / "packed"


@pytest.fixture
def hub():
    pytest.importorskip("jinja2", reason="needs structviews[hub]")
    return pytest.importorskip("huggingface_hub", reason="needs structviews[hub]")


ROW = "novels\tTwo novels\t1900\tpublic domain\tX & Y\t3\t4000"
CC = "wiki\tA wiki\t2015\tCC BY-SA 3.0\tits writers\t20\t6000"


def table(path, *rows):
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


@pytest.mark.filterwarnings("error")
def test_unknown_words_are_composed_as_by_the_run(ngram_run, composing, ngram_vectors):
    """Of rows of 8 bits."""
    before, after = Embedder.load(ngram_run), Embedder.load(composing)
    words = after.vocabularies["fixed"]
    stored = words.words[1:]
    sentence = replace(UNHEARD, tokens=(stored[0], "unheard", stored[1], "computers", "naïveté"))
    expected, found = before.encode([sentence]), after.encode([sentence])
    np.testing.assert_allclose(found, expected, atol=0.03 * np.abs(expected).max())
    same = [replace(sentence, tokens=("unheard",) * 5)]
    assert np.abs(after.encode(same) - found).max() > 0.01
    # A word without n-grams, and what stands for unknown words, are unknown.
    ids, further = words.look_up([["<unk>", ""]])
    assert (ids.tolist(), further) == ([0, 0], None)
    file = WordVectors.open(ngram_vectors)
    cut = next(word for word in file.words.to_pylist() if word not in stored)
    ids, further = words.look_up([[cut]])
    assert ids.tolist() == [WORDS + 1]
    np.testing.assert_allclose(further, file.sub_words.read([cut])[1], atol=0.02)
    read, given = load_sub_words(composing, DIM), file.sub_words
    assert (read.rows.dtype, read.rows.shape, read.scales.shape) == (np.int8, (BUCKETS, DIM), (BUCKETS,))
    assert (read.shortest, read.longest) == (given.shortest, given.longest) == (3, 6)
    np.testing.assert_allclose(read.rows * read.scales[:, None], given.rows, atol=np.abs(given.rows).max() / 253)


def test_n_grams_of_another_run_are_named(composing):
    path, checksum = composing / SUB_WORDS, model_checksum(composing)
    assert list(verify(composing, lambda *_: None)) == []
    arrays = read_arrays(path, "")
    narrow = {name: each[..., :-1] for name, each in arrays.items()}
    for write, message in (
        (lambda: write_arrays(path, narrow, {"shortest": 3, "longest": 6}), "damaged: its n-grams are not of this run"),
        (lambda: write_arrays(path, arrays, {"shortest": 3, "longest": 10**9}), "longest"),
        (path.unlink, "no such file: copy the run again"),
    ):
        write()
        with pytest.raises(InputError, match=f"^{re.escape(str(path))}: .*{message}"):
            Embedder.load(composing)
    assert model_checksum(composing) != checksum


@pytest.fixture
def script(monkeypatch):
    module = load("default_model", monkeypatch)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["default_model.py", *map(str, arguments)])
        module.main()

    return call


def test_a_run_is_packed_and_shipped_with_its_card(script, hub, run, average, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bundled, "MODELS", tmp_path / "models")
    packed, out = tmp_path / "packed/default-small", tmp_path / "models/default-small"
    script("pack", run, "-o", packed, "--words", WORDS)
    scored(packed, {"CR": f"{tmp_path}/CR: no such file"}, MR=75.0, SUBJ=91.0)
    seconds = {"parse a.txt": 3600, "merge": 1800, "word vectors": 720, "train": 36000, "score default-small": 360}
    (tmp_path / "stages.json").write_text(json.dumps(seconds))
    (tmp_path / "one.md").write_text("\n## Section one\n\nText.\n")
    sources = ("--sources", table(tmp_path / "a.tsv", ROW), table(tmp_path / "b.tsv", CC))
    given = (*sources, "--stages", tmp_path / "stages.json", "--baselines", average)
    script("ship", packed, *given, "--about", tmp_path / "one.md", "--machine", "two cores", "--cores", 2, 1, 1, 1, 2)
    assert capsys.readouterr() == (f"{packed}: 0.0 MB\n{out}: 0.0 MB\n", "")
    assert names(out) == ["README.md", *FILES[:3], "results.json", SOURCES, *FILES[3:]]
    assert (out / SOURCES).read_text() == f"{HEADER}\n{ROW}\n{CC}\n"
    for path in out.iterdir():
        assert str(tmp_path).encode() not in path.read_bytes(), path
    card = (out / "README.md").read_text()
    header = hub.ModelCard(card).data
    assert (header.license, header.language, header.model_name) == ("cc-by-sa-4.0", ["en"], "default-small")
    for text in (
        'Embedder.load("default-small")',
        "This model is bundled with structviews; nothing is downloaded.",
        "- vocabulary: 12 (fixed), 12 (trained)",
        "| A wiki | CC BY-SA 3.0 | 20 | 6,000 |\n| Two novels | public domain | 3 | 4,000 |\n",
        "| all | | 23 | 10,000 |\n\n## Scores\n\n| run |",
        "| default-small | dep,const | 16 | 75.0 | 91.0 |\n| average | average | 16 | 70.0 | 71.0 |\n",
        "| DEP, CONST (UMBC 40M) | S 1 | 4800 | 80.7 | 94.9 |\n\n",
        "- `average`: the baseline `average`, of the word vectors `v.vec`\n",
        "| texts, altered sentences and tasks parsed | 1.5 | 2 | 3.0 |\n| words taken from it | 0.2 | 1 | 0.2 |\n",
        "| all | 11.8 | | 13.4 |\n\nBy the clock on two cores, without",
        "energy.\n\n## Section one\n\nText.\n\n## Limits",
        "rounded to half precision, fixed word vectors to 8 bits",
    ):
        assert text in card
    assert "structviews pull" not in card
    with pytest.raises(SystemExit) as stop:
        script("pack", run, "-o", packed, "--words", WORDS)
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"error: {packed}: already exists: give another folder with --out\n"


@pytest.mark.filterwarnings("error")
def test_n_grams_and_sources_go_wherever_the_run_goes(script, hub, composing, tmp_path):
    embedder = Embedder.load(composing)
    expected = embedder.encode([UNHEARD])
    embedder.save(tmp_path / "saved")
    pack(composing, tmp_path / "again", WORDS)
    for folder in ("saved", "again"):
        np.testing.assert_allclose(Embedder.load(tmp_path / folder).encode([UNHEARD]), expected, atol=1e-3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(embedder)).encode([UNHEARD]), expected)
    shipped, staged = tmp_path / "models/shipped", tmp_path / "staged"
    script("ship", composing, "-o", shipped, "--sources", table(tmp_path / "a.tsv", ROW))
    joined = join_runs([shipped, composing], tmp_path / "joined")
    assert stage(joined, staged) == []
    check_arrived(staged)
    found = Embedder.load(staged)
    np.testing.assert_allclose(found.encode([UNHEARD])[0, : embedder.dim], expected[0], atol=1e-6)
    assert read_sources(staged / "members/0-shipped" / SOURCES) == read_sources(tmp_path / "a.tsv")
    card = model_card(staged, "me/x", found)
    assert "| Two novels | public domain | 3 | 4,000 |\n| all | | 3 | 4,000 |\n\n**1-packed**\n" in card
    assert card.count("| Two novels |") == card.count("ask the owner of this repository") == 1


# Tables of the texts that a run was trained on.


def book(title, source="books", licence="CC BY 4.0", documents=1, sentences=10):
    return Source(source, title, "2020", licence, 'its "authors"', documents, sentences)


def test_a_table_is_read_as_it_was_written(tmp_path):
    rows = [book("Zoë's “book”; part 1"), book("b", documents=0, sentences=10**9)]
    write_sources(tmp_path / "x.tsv", rows)
    assert read_sources(tmp_path / "x.tsv") == rows
    assert (tmp_path / "x.tsv").read_text("utf-8").startswith("source\ttitle\tyear\tlicence\tattribution\tdocuments\t")


def test_sums_by_source_and_licence():
    series = [book(f"Series: {name}", "series", sentences=5) for name in "abcd"]
    rows = [book("x", sentences=3), *series, book("y", documents=2, sentences=4), book("z", licence="CC0", sentences=8)]
    rows += [book(name, "mixed", sentences=1) for name in "abcd"]
    assert summed(rows) == [
        Group("Series (4 titles)", "CC BY 4.0", 4, 20),
        Group("z", "CC0", 1, 8),
        Group("x; y", "CC BY 4.0", 3, 7),
        Group("(4 titles)", "CC BY 4.0", 4, 4),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["source\ttitle"], "x.tsv: not a table of sources: give a first line of source, title, year, licence"),
        ([HEADER, "a\tb\tc\td\te\t1\t2", "a\tb\tc\td\t1\t2"], "x.tsv:3: not 7 values, the last two counts: fix"),
        ([HEADER, "a\tb\tc\td\te\t1\tmany"], "x.tsv:2: not 7 values"),
    ],
)
def test_what_is_no_such_table(tmp_path, lines, message):
    (tmp_path / "x.tsv").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError) as error:
        read_sources(tmp_path / "x.tsv")
    assert str(error.value).startswith(f"{tmp_path}/{message}")
