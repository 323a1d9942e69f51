"""What every baseline keeps to, and the formula of each in plain loops."""

import json
import math
import shutil
from collections import Counter

import numpy as np
import pytest
import torch
from corpora import RandomParser, random_trees, topic_rows, write_corpus
from tiny_encoders import published_model

from structviews.corpus.layout import Row
from structviews.corpus.sentence import ParsedSentence
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.baseline import RECIPES
from structviews.errors import InputError
from structviews.evaluation.scores.tables import score_table
from structviews.runs.settings_file import load_run
from structviews.training.baselines import make_baseline
from structviews.training.loop import train
from structviews.training.trainer import Training
from structviews.words.vector_files import WordVectors, save_vectors

# One word is so frequent that a random walk meets it by chance.
CORPUS_ROWS = [
    *topic_rows(),
    *(Row(12, i, i + 1, random_trees(["the", "of", "the", "the", f"topic{i % 3}-1"])) for i in range(30)),
]
SENTENCES = [row.sentence for row in topic_rows(6, 6, seed=7)]
RANDOM = {"views": ["dep", "seq", "avg"], "hidden": 8, "word_dim": 6}
DIM = 12


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A corpus, and vectors of most of its words and of some others."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    words = sorted({word for row in CORPUS_ROWS for word in row.sentence.tokens})
    words = [word for i, word in enumerate(words) if i % 7] + ["elsewhere", "nowhere"]
    vectors = rng.standard_normal((len(words), DIM)) * np.linspace(0.5, 2, DIM) + 0.7
    save_vectors(folder / "x.vec", words, vectors.astype(np.float32))
    return write_corpus(folder / "x.parsed", CORPUS_ROWS), folder / "x.vec"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return published_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def runs(files, tmp_path_factory):
    """Runs of the kinds as they are asked for."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def run(kind, request):
        if kind not in made:
            name = f"{kind}:{request.getfixturevalue('model')}" if kind == "sentence-transformers" else kind
            vectors = files[1] if kind in RECIPES else None
            made[kind] = make_baseline(name, files[0], folder / kind, vectors, RANDOM if kind == "random" else None)
        return made[kind]

    return run


@pytest.fixture(params=[*RECIPES, "random", "sentence-transformers"])
def run(request, runs):
    return runs(request.param, request)


def test_a_sentence_has_one_vector_alone_and_in_any_batch(run):
    embedder = Embedder.load(run, RandomParser())
    together = embedder.encode(SENTENCES)
    assert together.dtype == np.float32
    assert np.abs(together).max() > 0
    alone = np.concatenate([embedder.encode([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(alone, together, atol=1e-5, rtol=0)
    assert embedder.encode([]).shape == (0, embedder.dim)
    for pooling in embedder.poolings:
        chosen = embedder.with_representation(pooling=pooling, remove_component=True, normalise=True)
        vectors = chosen.encode(SENTENCES)
        assert vectors.shape == (len(SENTENCES), chosen.dim)
        assert np.isfinite(vectors).all()
        assert np.isfinite(chosen.with_representation(transductive=True).encode(SENTENCES)).all()


def weight(kind, word, counts, spread, n_sentences):
    """The papers' formulas, one word at a time."""
    p = counts[word] / counts.total()
    if kind == "tfidf":
        return math.log((1 + n_sentences) / (1 + spread[word]))
    if kind == "sif":
        return 0.001 / (0.001 + p)
    if kind == "up":
        size, steps = len(counts), counts.total() / n_sentences
        alpha = sum(counts[other] / counts.total() > 1 - (1 - 1 / size) ** steps for other in counts) / size
        a = (1 - alpha) / (alpha * size / 2)
        return a / (a / 2 + p)
    return 1.0


def centred(table):
    """All-but-the-top, by a decomposition of the centred vectors."""
    result = table - table.mean(axis=0)
    _, _, directions = np.linalg.svd(result, full_matrices=False)
    for direction in directions[: max(1, DIM // 100)]:
        result -= np.outer(result @ direction, direction)
    return result


def in_loops(kind, vectors, sentences):
    """Vectors before any component is removed."""
    counts = Counter(word for row in CORPUS_ROWS for word in row.sentence.tokens)
    spread = Counter(word for row in CORPUS_ROWS for word in set(row.sentence.tokens))
    table = vectors.rows(np.arange(len(vectors))).astype(np.float64)
    if kind == "all-but-the-top":
        table = centred(table)
    places = {word: i for i, word in enumerate(vectors.words.to_pylist())}
    found = []
    for sentence in sentences:
        known = [word for word in sentence.tokens if word in places]
        rows = [table[places[word]] for word in known]
        if kind == "up" and rows:
            rows = list(np.array(rows) / np.sqrt(sum(row**2 for row in rows)))
        total = np.zeros(DIM)
        for word, row in zip(known, rows, strict=True):
            total += weight(kind, word, counts, spread, len(CORPUS_ROWS)) * row
        found.append(total / max(len(known), 1))
    return np.array(found)


@pytest.mark.parametrize("kind", RECIPES)
def test_weighted_averages_are_those_of_the_formulas(kind, files, runs, request):
    vectors = WordVectors.open(files[1])
    # Of words that are the file's alone, and of none that it has.
    others = [["elsewhere", "topic0-1", "topic0-1", "the"], ["zyx", "wvu"], ["zyx", "the"], ["zyx"]]
    sentences = [*SENTENCES, *RandomParser().parse(others)]
    expected = in_loops(kind, vectors, sentences)
    embedder = Embedder.load(runs(kind, request))
    weighed = embedder.with_representation(remove_component=False).encode(sentences)
    np.testing.assert_allclose(weighed, expected, atol=1e-5)
    assert np.isfinite(embedder.with_representation(pooling="pooled", normalise=True).encode(sentences)).all()
    for transductive, reference in ((False, [row.sentence for row in CORPUS_ROWS]), (True, sentences)):
        _, scales, directions = np.linalg.svd(in_loops(kind, vectors, reference), full_matrices=False)
        count = {"up": 5}.get(kind, 1)
        left = expected.copy()
        for scale, direction in list(zip(scales, directions, strict=True))[:count]:
            left -= scale**2 / sum(scales[:count] ** 2) * np.outer(expected @ direction, direction)
        removed = embedder.with_representation(remove_component=True, transductive=transductive).encode(sentences)
        np.testing.assert_allclose(removed, left, atol=1e-4)
    assert embedder.representation.remove_component == (kind in ("sif", "up"))


def test_random_encoders_are_those_that_training_starts_with(files, tmp_path):
    run = make_baseline("random", files[0], tmp_path / "random", encoders=RANDOM)
    before = Embedder.load(run).encode(SENTENCES)
    other = make_baseline("random", files[0], tmp_path / "other", encoders=RANDOM | {"seed": 2})
    assert np.abs(Embedder.load(other).encode(SENTENCES) - before).max() > 1e-3
    fixed = make_baseline("random", files[0], tmp_path / "fixed", files[1], RANDOM)
    assert Embedder.load(fixed).config.words.channels == ("fixed",)
    config, _ = load_run(run)
    first = Training(config).model.channels["trained"].views[1].state_dict()
    saved = Embedder.load(run).model.channels["trained"].views[1].state_dict()
    assert all(torch.equal(first[name], saved[name].to(first[name].device)) for name in first)
    assert score_table([run]).runs[0].texts[1] == "dep,seq,avg (random)"
    train(config)  # from there it may be trained, and is a trained run then
    assert np.abs(Embedder.load(run).encode(SENTENCES) - before).max() > 1e-3
    assert score_table([run]).runs[0].texts[1] == "dep,seq,avg"


def test_a_model_reads_sentences_as_texts(model, runs, request):
    import sentence_transformers

    words = ["it is n't -LRB- bad -RRB-", "``", "they 're all here", "it is not bad"]
    texts = ["it isn't ( bad )", '"', "they're all here", "it is not bad"]
    expected = sentence_transformers.SentenceTransformer(str(model), device="cpu").encode(texts)
    embedder = Embedder.load(runs("sentence-transformers", request))
    found = embedder.encode([ParsedSentence(tuple(each.split())) for each in words])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert len(np.unique(np.round(expected, 3), axis=0)) > 1
    with pytest.raises(InputError, match="pooling = mean: this run supports only vector"):
        embedder.with_representation(pooling="mean").encode(SENTENCES)


def test_a_model_with_code_of_its_own_is_refused(model, files, tmp_path):
    own = shutil.copytree(model, tmp_path / "own")
    modules = json.loads((own / "modules.json").read_text())
    modules[-1]["type"] = "mine.Pooling"
    (own / "modules.json").write_text(json.dumps(modules))
    (own / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(InputError, match="not a model that sentence-transformers can load"):
        make_baseline(f"sentence-transformers:{own}", files[0], tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own"]


def test_what_a_baseline_is_made_of_must_be_there(files, model, tmp_path):
    corpus, vectors = files
    mine = shutil.copy(vectors, tmp_path / "mine.vec")
    run = make_baseline("sif", corpus, tmp_path / "sif", mine)
    save_vectors(mine, ["the"], np.ones((1, DIM), dtype=np.float32))
    with pytest.raises(InputError, match=r"mine\.vec: not the word vectors that .*sif was made from"):
        Embedder.load(run)
    mine.unlink()
    with pytest.raises(InputError, match=r"mine\.vec: No such file"):
        Embedder.load(run)
    own = shutil.copytree(model, tmp_path / "own")
    run = make_baseline(f"sentence-transformers:{own}", None, tmp_path / "st")  # reads no words or trees of a corpus
    (own / "further.json").write_text("changed")
    with pytest.raises(InputError, match=r"own: not the model that .*st was made from"):
        Embedder.load(run)
    (run / "config.toml").write_text('kind = "baseline"\n')
    with pytest.raises(InputError, match=r"config\.toml: not of a run made by structviews baseline \('baseline'\)"):
        Embedder.load(run)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("sift", {}, "unknown baseline 'sift' .did you mean sif..: choose one of average, tfidf, "),
        ("sif:x", {"vectors": True}, "unknown baseline 'sif:x'"),
        ("sif", {}, "sif needs word vectors: give --vectors"),
        ("sif", {"vectors": True, "encoders": RANDOM}, "sif has no encoders: leave out --views"),
        ("random", {}, "random needs encoders: give --views"),
        ("random", {"encoders": {"views": ["deep", "seq"]}}, "unknown view 'deep'"),
        ("sentence-transformers:/no/such", {}, "/no/such: no such folder"),
        ("sentence-transformers:x", {"vectors": True}, "takes no word vectors: leave out --vectors"),
    ],
)
def test_wrong_baselines_leave_nothing(kind, options, message, files, tmp_path):
    vectors = files[1] if options.get("vectors") else None
    with pytest.raises(InputError, match=message):
        make_baseline(kind, files[0], tmp_path / "run", vectors, options.get("encoders"))
    assert list(tmp_path.iterdir()) == []
