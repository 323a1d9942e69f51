"""Joined runs: several as one."""

import shutil
from collections import Counter

import numpy as np
import pytest
from corpora import RandomParser, small_config, topic_rows, write_corpus

from structviews.encoding import preparation
from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.joined import Member, holds_joined, join_runs
from structviews.encoding.representation import normalised
from structviews.errors import InputError
from structviews.runs.settings_file import run_views, write_settings
from structviews.training.loop import train

SENTENCES = [row.sentence for row in topic_rows(2, 5, seed=3)]


@pytest.fixture(scope="module")
def runs(topics, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    own = {"pooling": "mean", "normalise": True, "similarity_pooling": "vector"}
    return [
        train(small_config(topics, folder / "dep-seq", ("dep", "seq"), steps=2)),
        train(small_config(topics, folder / "const-avg", ("const", "avg"), steps=2, **own)),
    ]


@pytest.fixture(scope="module")
def joined(runs, tmp_path_factory):
    return join_runs(runs, tmp_path_factory.mktemp("joined") / "both", similarity_join="average")


def test_vectors_of_members_stand_side_by_side_each_in_its_own_way(runs, joined):
    expected = [Embedder.load(run).encode(SENTENCES) for run in runs]
    embedder = Embedder.load(joined)
    assert (embedder.dim, embedder.widths) == (32, [16, 16])
    np.testing.assert_array_equal(embedder.encode(SENTENCES), np.concatenate(expected, axis=1))
    described = "vector | mean, l2; similarity: vector, l2; members: concatenation, similarity average"
    assert embedder.description == described
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
    described = "mean - pc (transductive), average | mean - pc (transductive), l2, average; members: average"
    assert changed.description == described


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
    monkeypatch.setattr(preparation, "load", lambda name, options: asked.append(name) or RandomParser())
    with pytest.warns(UserWarning, match="the run was trained on trees of other 1"):
        Embedder.load(joined).encode([["a", "bird"]])
    assert asked == ["random", "other"]


@pytest.fixture(scope="module")
def twice(topics, tmp_path_factory):
    """A run with two views of the same name."""
    return train(small_config(topics, tmp_path_factory.mktemp("twice") / "seq-seq", ("seq", "seq"), steps=2))


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


def test_the_join_command(runs, twice, does, tmp_path):
    assert does("join", *runs, "-o", "both", "--join", "average") == "both\n"
    assert Embedder.load(tmp_path / "both").dim == 16
    colon = shutil.copytree(runs[0], tmp_path / "a:seq")
    does("join", f"{twice}:seq.2", colon, f"{colon}:dep", "-o", "out")
    assert Embedder.load(tmp_path / "out").widths == [8, 16, 8]


def test_what_cannot_be_joined_leaves_nothing(runs, twice, topics, command, tmp_path):
    wide = train(small_config(topics, tmp_path / "wide", ("seq", "seq"), steps=1, hidden=10))
    for members, message in (
        ([f"{twice}:seq.2", f"{twice}:seq.2"], "seq-seq:seq.2: named twice: name each run, or view, once"),
        ([f"{twice}:seq"], "seq-seq: no view 'seq': the run has seq.1, seq.2"),
        (["none:seq"], "none: not a run: no such folder"),
        ([runs[0], topics], "x.parsed: not a run"),
        ([runs[0], wide, "--join", "average"], "equal dimensions, but 0-dep-seq has 16, 1-wide has 20"),
        ([runs[0], wide, "--similarity-join", "average"], "equal dimensions"),
        ([*runs, "--join", "sum"], "unknown join 'sum'"),
        ([*runs, "-o", "wide"], "wide: already exists: give another folder with --out"),
    ):
        code, _, errors = command("join", "-o", "new", *members)
        assert (code, message in errors) == (2, True), errors
        assert [path.name for path in tmp_path.iterdir()] == ["wide"]


WHOLE = {"kind": "joined", "join": "average", "similarity_join": "", "members": ["0-x"], "only": []}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "joined", "views": ["dep"]}, r"config\.toml: Object missing required field `.*`: join the runs"),
        ({"kind": "joint", "views": ["dep"]}, "unknown kind of run 'joint'"),
        (WHOLE, r"config\.toml: only = \[\]: not one for each of the members: join the runs"),
        (WHOLE | {"only": [""]}, "0-x: not a run"),
    ],
)
def test_a_damaged_joined_run(tmp_path, settings, message):
    write_settings(tmp_path, settings)
    with pytest.raises(InputError, match=message):
        Embedder.load(tmp_path)
