"""Joined runs: several as one."""

import shutil
from collections import Counter

import numpy as np
import pytest
from corpora import RandomParser, small_config, topic_corpus, topic_rows, write_corpus
from typer.testing import CliRunner

from structviews.cli.app import app
from structviews.encoding import preparation
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import Member, holds_joined, join_runs
from structviews.encoding.representation import normalised
from structviews.errors import InputError
from structviews.runs.settings_file import run_views, write_settings
from structviews.training.loop import train

SENTENCES = [row.sentence for row in topic_rows(2, 5, seed=3)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    corpus = topic_corpus(folder / "x.parsed")
    own = {"pooling": "mean", "normalise": True, "similarity_pooling": "vector"}
    return [
        train(small_config(corpus, folder / "dep-seq", ("dep", "seq"), steps=2)),
        train(small_config(corpus, folder / "const-avg", ("const", "avg"), steps=2, **own)),
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
    changes = {"pooling": "mean", "similarity_pooling": "", "join": "average"}
    changes |= {"remove_component": True, "transductive": True}
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


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """A run with two views of the same name."""
    folder = tmp_path_factory.mktemp("twice")
    return train(small_config(topic_corpus(folder / "x.parsed"), folder / "seq-seq", ("seq", "seq"), steps=2))


def test_single_views_are_joined(runs, twice, tmp_path):
    members = [Member(twice, "seq.1"), Member(twice, "seq.2"), Member(runs[0], "dep"), runs[1]]
    joined = join_runs(members, tmp_path / "joined")
    whole, other = Embedder.load(twice).encode_views(SENTENCES), Embedder.load(runs[0]).encode_views(SENTENCES)
    expected = [*whole, other[0], Embedder.load(runs[1]).encode(SENTENCES)]
    found = Embedder.load(joined)
    assert (found.dim, found.widths) == (40, [8, 8, 8, 16])
    assert found.views == ("0-seq-seq.seq.1", "1-seq-seq.seq.2", "2-dep-seq.dep", "3-const-avg")
    for one, another in zip(found.encode_views(SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(one, another)
    assert np.abs(expected[0] - expected[1]).max() > 1e-3
    assert run_views(joined) == ["seq", "seq", "dep", "const", "avg"]
    assert holds_joined(joined, members)
    assert not holds_joined(joined, [Member(twice, "seq.2"), *members[1:]])
    # A view of a joined run is one of its members.
    again = Embedder.load(join_runs([Member(joined, found.views[2]), Member(twice, "seq.2")], tmp_path / "again"))
    np.testing.assert_array_equal(again.encode(SENTENCES), np.concatenate([expected[2], expected[1]], axis=1))


def test_the_join_command(runs, twice, tmp_path):
    out = tmp_path / "both"
    ended = CliRunner().invoke(app, ["join", *map(str, runs), "-o", str(out), "--join", "average"])
    assert (ended.exit_code, ended.output.replace("\n", "")) == (0, str(out))
    assert Embedder.load(out).dim == 16
    colon = shutil.copytree(runs[0], tmp_path / "a:seq")
    ended = CliRunner().invoke(app, ["join", f"{twice}:seq.2", str(colon), f"{colon}:dep", "-o", str(tmp_path / "out")])
    assert ended.exit_code == 0, ended.output
    assert Embedder.load(tmp_path / "out").widths == [8, 16, 8]
    for typed, said in (
        ([f"{twice}:seq.2", f"{twice}:seq.2"], r"seq-seq:seq.2: named twice: name each run, or view, once"),
        ([str(twice), str(twice)], "seq-seq: named twice"),
        ([f"{twice}:seq"], r"seq-seq: no view 'seq': the run has seq.1, seq.2"),
        ([f"{tmp_path}/none:seq"], "none: not a run: no such folder"),
        (runs, "both: already exists: give another folder with --out"),
    ):
        with pytest.raises(InputError, match=said):
            CliRunner().invoke(app, ["join", *map(str, typed), "-o", str(out)], catch_exceptions=False)


def test_what_cannot_be_joined_leaves_nothing(runs, tmp_path):
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
    assert sorted(tmp_path.iterdir()) == before


def test_a_damaged_joined_run(tmp_path, joined):
    write_settings(tmp_path, {"kind": "joined", "views": ["dep"], "join": "average"})
    with pytest.raises(InputError, match=r"config\.toml: Object missing required field `members`: join the runs again"):
        Embedder.load(tmp_path)
    write_settings(tmp_path, {"kind": "joint", "views": ["dep"]})
    with pytest.raises(InputError, match="unknown kind of run 'joint'"):
        Embedder.load(tmp_path)
    whole = {"kind": "joined", "join": "average", "similarity_join": "", "members": ["0-x"], "only": []}
    write_settings(tmp_path, whole)
    with pytest.raises(InputError, match=r"config\.toml: only = \[\]: not one for each of the members: join the runs"):
        Embedder.load(tmp_path)
    write_settings(tmp_path, whole | {"only": [""]})
    with pytest.raises(InputError, match="0-x: not a run"):
        Embedder.load(tmp_path)
