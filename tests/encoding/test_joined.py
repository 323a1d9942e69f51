"""Joined runs: several as one."""

from collections import Counter

import numpy as np
import pytest
from corpora import RandomParser, small_config, topic_corpus, topic_rows, write_corpus
from typer.testing import CliRunner

from structviews.cli.app import app
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import join_runs
from structviews.encoding.representation import normalised
from structviews.errors import InputError
from structviews.evaluation.scores.results import save_results
from structviews.evaluation.scores.tables import score_table
from structviews.runs.folder import model_checksum
from structviews.runs.settings_file import write_settings
from structviews.training.loop import train

SENTENCES = [row.sentence for row in topic_rows(2, 5, seed=3)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    corpus = topic_corpus(folder / "x.parsed")
    return [
        train(small_config(corpus, folder / "dep-seq", ("dep", "seq"), steps=2)),
        train(
            small_config(
                corpus,
                folder / "const-avg",
                ("const", "avg"),
                steps=2,
                pooling="mean",
                normalise=True,
                similarity_pooling="vector",
            )
        ),
    ]


@pytest.fixture(scope="module")
def joined(runs, tmp_path_factory):
    return join_runs(runs, tmp_path_factory.mktemp("joined") / "both", similarity_join="average")


def test_vectors_of_members_stand_side_by_side_each_in_its_own_way(runs, joined):
    expected = [Embedder.load(run).encode(SENTENCES) for run in runs]
    embedder = Embedder.load(joined)
    assert (embedder.dim, embedder.widths) == (32, [16, 16])
    np.testing.assert_array_equal(embedder.encode(SENTENCES), np.concatenate(expected, axis=1))
    assert embedder.description == (
        "vector | mean, l2; similarity: vector, l2; members: concatenation, similarity average"
    )
    similarity = embedder.for_similarity()
    expected = [Embedder.load(run).for_similarity().encode(SENTENCES) for run in runs]
    assert similarity.dim == 16
    np.testing.assert_allclose(similarity.encode(SENTENCES), sum(map(normalised, expected)) / 2, atol=1e-6)


def test_flags_change_every_member_and_the_join(runs, joined):
    changes = {
        "pooling": "mean",
        "similarity_pooling": "",
        "join": "average",
        "remove_component": True,
        "transductive": True,
    }
    expected = [Embedder.load(run).with_representation(**changes).encode(SENTENCES) for run in runs]
    changed = Embedder.load(joined).with_representation(**changes)
    np.testing.assert_allclose(changed.encode(SENTENCES), sum(map(normalised, expected)) / 2, atol=1e-6)
    assert changed.dim == 8
    assert changed.description == (
        "mean - pc (transductive), average | mean - pc (transductive), l2, average; members: average"
    )


def test_a_joined_run_is_whole_without_its_members(runs, joined, tmp_path):
    before = Embedder.load(joined).encode(SENTENCES)
    moved = joined.rename(tmp_path / "elsewhere")
    np.testing.assert_array_equal(Embedder.load(moved).encode(SENTENCES), before)
    names = Counter(path.name for path in moved.rglob("*") if path.is_file())
    assert names["model.safetensors"] == names["components.safetensors"] == 2
    assert not any(name.startswith(("step-", "log", "results")) for name in names)
    twice = join_runs([moved, runs[0]], tmp_path / "twice")
    assert Embedder.load(twice).encode(SENTENCES).shape == (len(SENTENCES), 48)
    moved.rename(joined)


def test_sentences_are_parsed_once_for_all_members(joined):
    parser = RandomParser()
    embedder = Embedder.load(joined, parser)
    seen = []
    tokens = [list(sentence.tokens) for sentence in SENTENCES]
    vectors = embedder.encode(tokens, 4, lambda done, total: seen.append((done, total)))
    assert parser.n_parsed == len(SENTENCES)
    assert seen[-1] == (2 * len(SENTENCES), 2 * len(SENTENCES))
    assert seen == sorted(seen)
    np.testing.assert_allclose(embedder.encode([SENTENCES[0], *tokens])[1:], vectors, atol=1e-5)


def test_members_with_trees_of_different_parsers_get_each_its_own(runs, tmp_path, monkeypatch):
    from structviews.encoding import preparation

    monkeypatch.setattr("corpora.RandomParser.describe", lambda self: {"name": "other", "version": self.version})
    corpus = write_corpus(tmp_path / "y.parsed", topic_rows())
    other = train(small_config(corpus, tmp_path / "other", steps=1))
    monkeypatch.undo()
    joined = join_runs([runs[0], other], tmp_path / "both")
    asked = []

    def load(name, options):
        asked.append(name)
        return RandomParser()

    monkeypatch.setattr(preparation, "load", load)
    with pytest.warns(UserWarning, match="the run was trained on trees of other 1"):
        Embedder.load(joined).encode([["a", "bird"]])
    assert asked == ["random", "other"]


def test_a_joined_run_has_its_row_in_the_table(runs, joined):
    results = {"format": 1, "protocol": {}, "dim": 32, "tasks": {}, "unavailable": {"MR": "no such file"}}
    save_results(joined, results | {"representation": Embedder.load(joined).description})
    assert [row[1] for row in score_table([joined, runs[0]]).rows] == ["dep,seq,const,avg", "dep,seq"]
    assert model_checksum(joined) not in {model_checksum(run) for run in runs}
    (joined / "results.json").unlink()


def test_the_join_command(runs, tmp_path):
    out = tmp_path / "both"
    command = ["join", *map(str, runs), "-o", str(out)]
    ended = CliRunner().invoke(app, [*command, "--join", "average"])
    assert (ended.exit_code, ended.output.replace("\n", "")) == (0, str(out))
    assert Embedder.load(out).dim == 16
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both"]
    with pytest.raises(InputError, match="both: already exists: give another folder with --out"):
        CliRunner().invoke(app, command, catch_exceptions=False)


def test_what_cannot_be_joined_leaves_nothing(runs, tmp_path, monkeypatch):
    corpus = topic_corpus(tmp_path / "x.parsed")
    wide = train(small_config(corpus, tmp_path / "wide", ("seq", "seq"), steps=1, hidden=10))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match="equal dimensions, but 0-dep-seq has 16, 1-wide has 20"):
        join_runs([runs[0], wide], tmp_path / "both", "average")
    with pytest.raises(InputError, match="equal dimensions"):
        join_runs([runs[0], wide], tmp_path / "both", similarity_join="average")
    with pytest.raises(InputError, match=r"x\.parsed: not a run"):
        join_runs([runs[0], corpus], tmp_path / "both")
    with pytest.raises(InputError, match="unknown join 'sum'"):
        join_runs(runs, tmp_path / "both", "sum")
    with pytest.raises(InputError, match="no runs"):
        join_runs([], tmp_path / "both")
    monkeypatch.setattr("structviews.encoding.kinds.joined.write_settings", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        join_runs(runs, tmp_path / "both")
    assert sorted(tmp_path.iterdir()) == before


def test_a_damaged_joined_run(tmp_path, joined):
    write_settings(tmp_path, {"kind": "joined", "views": ["dep"], "join": "average"})
    with pytest.raises(InputError, match=r"config\.toml: Object missing required field `members`: join the runs again"):
        Embedder.load(tmp_path)
    write_settings(tmp_path, {"kind": "joint", "views": ["dep"]})
    with pytest.raises(InputError, match="unknown kind of run 'joint'"):
        Embedder.load(tmp_path)
    whole = {"kind": "joined", "join": "average", "similarity_join": "", "members": ["0-x"]}
    write_settings(tmp_path, whole)
    with pytest.raises(InputError, match="0-x: not a run"):
        Embedder.load(tmp_path)
