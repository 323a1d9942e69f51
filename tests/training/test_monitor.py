"""What is looked at in the course of training, which changes nothing: a similarity task, TensorBoard's files."""

import struct
import sys

import numpy as np
import pytest
from corpora import RandomParser, random_trees, small_config, small_sts14, topic_corpus, vectors_of, write_corpus
from test_training import log_of, result

from structviews.corpus.layout import Row
from structviews.encoding.embedder import Embedder
from structviews.encoding.preparation import Preparer
from structviews.errors import InputError
from structviews.evaluation.senteval.suite import evaluate
from structviews.evaluation.senteval.tasks.downstream import PUBLISHED
from structviews.training.checkpoint import extend, extended, read_progress
from structviews.training.loop import train
from structviews.training.monitor import Monitor
from structviews.training.trainer import Training


@pytest.fixture
def config(tmp_path):
    return small_config(topic_corpus(tmp_path / "x.parsed"), tmp_path / "run", epochs=2, validate_every=4)


@pytest.fixture
def senteval(tmp_path, monkeypatch):
    """STS14 with a few pairs a data set, whole by its own measure."""
    for file, size in small_sts14(tmp_path / "senteval").items():
        monkeypatch.setitem(PUBLISHED, file, size)
    return tmp_path / "senteval"


def test_a_fixed_channel_knows_all_words_of_its_file(senteval, tmp_path, parser):
    corpus = topic_corpus(tmp_path / "x.parsed")
    vectors = vectors_of(corpus, tmp_path / "v.vec", "elsewhere")
    settings = {"channels": ("fixed",), "vectors": str(vectors), "eval_every": 1, "eval_data": str(senteval)}
    training = Training(small_config(corpus, tmp_path / "run", ("seq", "avg"), **settings))
    found = Monitor(training).embedder.encode([random_trees(["elsewhere", "the"]), random_trees(["zzz", "the"])])
    assert np.abs(found[0] - found[1]).max() > 1e-3


@pytest.fixture
def parser(monkeypatch):
    made = RandomParser()
    monkeypatch.setattr(Preparer, "_resolve_parser", lambda self: made)
    return made


def test_scores_are_those_of_eval_and_training_is_undisturbed(config, senteval, parser):
    plain = result(train(config.replaced(out=config.data.out + "-plain")))
    run = train(config.replaced(eval_every=3, eval_data=str(senteval)))
    files, log, _ = result(run)
    assert files == plain[0]
    assert [entry for entry in log if entry["kind"] != "evaluation"] == plain[1]
    scores = log_of(run, "evaluation")
    assert [entry["step"] for entry in scores] == [3, 6, 9, 12]
    embedder = Embedder.load(run)
    expected = evaluate(embedder.for_similarity().encode, ["STS14"], senteval)["tasks"]["STS14"]["scores"]
    assert scores[-1]["STS14.pearson"] == pytest.approx(expected["pearson mean"], abs=1e-5)
    assert scores[-1]["STS14.spearman"] == pytest.approx(expected["spearman mean"], abs=1e-5)
    assert len({entry["STS14.pearson"] for entry in scores}) == 4


def test_sentences_are_parsed_once_or_taken_from_a_parsed_corpus(config, senteval, parser, tmp_path, monkeypatch):
    config = config.replaced(eval_every=2, eval_data=str(senteval))
    monitor = Monitor(Training(config))
    parsed = parser.n_parsed
    assert parsed == len(monitor.parsed)
    monitor.score()
    assert parser.n_parsed == parsed
    rows = [Row(i, 0, i + 1, random_trees(tokens)) for i, tokens in enumerate(monitor.parsed)]
    there = write_corpus(tmp_path / "sts14.parsed", rows)
    monkeypatch.setattr(Preparer, "_resolve_parser", None)
    assert Monitor(Training(config.replaced(eval_parsed=str(there)))).score() == pytest.approx(monitor.score())
    few = write_corpus(tmp_path / "few.parsed", rows[:-1])
    with pytest.raises(InputError, match=r"few\.parsed: 1 of \d+ sentences of STS14 are missing, such as '"):
        train(config.replaced(eval_parsed=str(few)))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("changes", [{"remove_component": True}, {"similarity_pooling": "mean", "normalise": True}])
def test_the_vectors_are_the_runs_own(config, senteval, parser, changes):
    made = Training(config.replaced(eval_every=2, eval_data=str(senteval), **changes))
    monitor = Monitor(made)
    scores = monitor.score()
    assert np.isfinite(list(scores.values())).all()
    representation = monitor.embedder.representation
    assert representation.transductive == ("remove_component" in changes)
    assert representation.pooling == changes.get("similarity_pooling", "vector")
    assert made.model.training


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eval_every": 2, "eval_task": "STS99"}, "unknown task 'STS99'"),
        ({"eval_every": 2, "eval_data": "nowhere"}, "nowhere/STS/STS14-en-test/.*: no such file"),
        ({"eval_every": 2, "eval_parsed": "nowhere.parsed"}, "nowhere.parsed does not exist"),
        ({"tensorboard": True}, r"--tensorboard needs tensorboardX: pip install 'structviews\[tensorboard\]'"),
    ],
)
def test_what_cannot_be_looked_at(config, senteval, parser, tmp_path, monkeypatch, changes, message):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(InputError, match=message):
        train(config.replaced(**{"eval_data": str(senteval)} | changes))
    assert not (tmp_path / "run").exists()


def assert_points(run):
    """Each line of the log is a point of the event files, by the format that TensorFlow documents (TFRecord)."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    (file,) = (run / "tensorboard").iterdir()
    content = file.read_bytes()
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        event = Event.FromString(content[12 : 12 + length])
        found += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
        content = content[12 + length + 4 :]
    expected = [
        (f"{entry['kind']}/{name}", entry["step"], pytest.approx(value, rel=1e-6, abs=1e-6))
        for entry in log_of(run)
        for name, value in entry.items()
        if name not in ("kind", "step", "epoch")
    ]
    assert found == expected
    assert len(set(found)) == len(found) > 0


def test_event_files_have_each_point_once_also_after_resuming(config, tmp_path):
    pytest.importorskip("tensorboardX")
    run = train(config.replaced(tensorboard=True, steps=5))
    assert_points(run)
    log = (run / "log.jsonl").read_text()
    (run / "log.jsonl").write_text(log + '{"kind": "train", "step": 6, "epoch": 0, "loss": 1.0}\n{"kind": "tr')
    extend(extended(run, None, 0))
    train(config.replaced(tensorboard=True))
    assert_points(run)
    assert read_progress(run).step > 5
    # Asked for later, it has the whole history.
    late = train(config.replaced(out=str(tmp_path / "late"), steps=5))
    assert not (late / "tensorboard").exists()
    extend(extended(late, None, 0))
    assert_points(train(config.replaced(out=str(late), tensorboard=True)))
