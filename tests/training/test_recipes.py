"""Every recipe has settings that hold; one that joins runs trains them all."""

from pathlib import Path

import numpy as np
import pytest
import vector_files
from corpora import opened, random_trees, topic_corpus

from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.runs.config import TrainConfig
from structviews.training import recipes
from structviews.training.recipes import Recipe

SMALL = [
    *("--hidden", "8", "--word-dim", "6", "--batch-size", "16", "--steps", "2", "--held-out", "0.2"),
    *("--corpus", "x.parsed"),
]


@pytest.fixture
def vectors(tmp_path):
    words = sorted({word for row in opened(topic_corpus(tmp_path / "x.parsed")) for word in row.sentence.tokens})
    made = np.random.default_rng(0).normal(size=(len(words), 5)).astype(np.float32)
    (tmp_path / "x.vec").write_bytes(vector_files.word2vec_text(words, made))
    return tmp_path / "x.vec"


def runs_of(name):
    """The recipes of the runs that a recipe is made of."""
    return [Recipe.load(each) for each in Recipe.load(name).members or (name,)]


def has_fixed_words(recipe):
    return "fixed" in recipe.settings["channels"]


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_says_where_it_is_from_and_has_settings_that_hold(name, vectors):
    recipe = Recipe.load(name)
    assert "table" in recipe.place
    assert recipe.paper
    assert bool(recipe.settings) != bool(recipe.members)
    for each in runs_of(name):
        given = {"corpus": "x"} | ({"vectors": str(vectors)} if has_fixed_words(each) else {})
        config = TrainConfig.from_flat(given | each.settings, name)
        assert config.optimisation.lr == 5e-4
        assert config.optimisation.batch_size in (400, 512, 1500)


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_trains(name, command, vectors, tmp_path):
    fixed = ("--vectors", "x.vec") if has_fixed_words(runs_of(name)[0]) else ()
    code, out, err = command("train", "--recipe", name, *fixed, *SMALL)
    assert (code, out) == (0, f"runs/{name}\n"), err
    embedder = Embedder.load(tmp_path / "runs" / name)
    assert np.isfinite(embedder.encode([random_trees(["the", "topic0-1"]), random_trees(["of"])])).all()
    made = {name, *(each.name for each in runs_of(name))}
    assert {path.name for path in (tmp_path / "runs").iterdir()} == made


def test_a_joined_recipe_goes_on_where_it_was(command, vectors):
    arguments = ["train", "--recipe", "combine-qt", *SMALL, "--out", "a/both"]
    assert command(*arguments)[:2] == (0, "a/both\n")
    code, out, err = command(*arguments)
    assert (code, out) == (0, "a/both\n")
    assert err.splitlines() == ["a/uni-qt: already trained", "a/bi-qt: already trained"]
    assert Embedder.load("a/both").dim == 2 * 2 * 8


def test_sizes_are_those_of_the_papers():
    for name in ("mc-qt", "dep-const-paper", "dep-seq-paper", "seq-const-paper", "seq-seq-control"):
        settings = Recipe.load(name).settings
        assert len(settings["channels"]) * len(settings["views"]) * settings["hidden"] == 4800
    # [max ; mean ; min ; last] of seq, [max ; mean ; min] of avg
    assert 7 * Recipe.load("multi-view-d").settings["hidden"] == 14336


def test_the_list_names_every_recipe_and_one_can_be_shown(command, tmp_path):
    code, out, _ = command("recipes")
    assert code == 0
    assert all(name in out for name in recipes.names())
    code, out, _ = command("recipes", "mc-qt")
    (tmp_path / "own.toml").write_text(out)
    assert "MC-QT" in out


def test_wrong_names_and_clashes_are_told(command):
    with pytest.raises(InputError, match="unknown recipe 'qt': choose one of bi-qt,"):
        Recipe.load("qt")
    Path("run").mkdir()
    Path("run/config.toml").touch()
    for arguments, message in (
        (("--recipe", "qt"), "unknown recipe 'qt'"),
        (("--recipe", "mc-qt", "--config", "x.toml"), "--config and --recipe both give settings"),
        (("--recipe", "mc-qt", "--resume", "run"), "leave out --recipe"),
    ):
        code, out, err = command("train", *arguments)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert message in err
