"""Every recipe has settings that hold and that the papers state; one that joins runs trains them all."""

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import random_trees, topic_corpus, vectors_of
from shell import fails, refused

from structviews.encoding.embedder import Embedder
from structviews.evaluation.scores.published import papers
from structviews.evaluation.senteval.protocols import PROTOCOLS
from structviews.evaluation.senteval.tasks import TASKS
from structviews.model import Channel
from structviews.objectives import OBJECTIVES
from structviews.recipes import recipe as recipe_module
from structviews.recipes.recipe import Recipe, names
from structviews.runs.config import TrainConfig
from structviews.runs.which_vectors import JOINS
from structviews.settings import settings_of
from structviews.views import VIEWS

RECIPES = {name: Recipe.load(name) for name in names()}
STATED = {"views", "objective", "channels", "context", "hidden", "initialisation", "batch_size", "epochs", "lr", "clip"}
SMALL = "--hidden 8 --word-dim 6 --batch-size 16 --steps 2 --held-out 0.2 --corpus x.parsed"
# One for each objective with its kinds of settings, for each channel, and for each kind of join.
DISTINCT = [
    *("bi-qt-margin", "bow-qt", "mc-qt", "skip-thought-1000", "combine-qt", "dep-const-paper", "dep-seq-paper"),
    *("multi-view-d", "multi-and-single-view", "skip-connection", "generative-g", "multi-view-d-f1g1"),
]


@pytest.fixture
def vectors(tmp_path):
    return vectors_of(topic_corpus(tmp_path / "x.parsed"), tmp_path / "x.vec")


def test_recipes_state_what_moves_results_and_their_settings_hold(vectors):
    assert len(RECIPES) == 87
    for name, recipe in RECIPES.items():
        assert recipe.source.place, name
        assert recipe.source.paper in papers(), name
        assert {recipe.join, recipe.similarity_join or recipe.join} <= set(JOINS), name
        assert bool(recipe.settings) != bool(recipe.members), name
        assert not any(RECIPES[member.recipe].members for member in recipe.members), name
        assert recipe.evaluation.tasks, name
        assert set(recipe.evaluation.tasks) <= set(TASKS), name
        assert recipe.evaluation.protocol in PROTOCOLS, name
        assert recipe.corpus.sentences > 1_000_000, name
        assert not {"corpus", "vectors", "out", "seed"} & recipe.settings.keys(), name  # which users choose
        if recipe.members:
            continue
        assert set(recipe.settings) >= STATED, name
        assert recipe.source.open, name
        assert recipe.evaluation.transductive == ("part" if recipe.settings.get("remove_component") else ""), name
        expand = bool(recipe.vectors and recipe.vectors.expand)
        assert bool(recipe.vectors) == ("fixed" in recipe.channels or expand), name
        assert "trained" in recipe.channels or not expand, name
        config = recipe.config(corpus="x", **({"vectors": str(vectors)} if "fixed" in recipe.channels else {}))
        assert (config.optimisation.lr, config.optimisation.epochs) == (5e-4, 1), name
        assert config.optimisation.batch_size in (400, 512, 1500), name


def test_what_a_recipe_does_otherwise_than_its_paper_states_is_in_its_list():
    """Every setting of stated.toml, in each recipe that trains, has the paper's value, or a line to say otherwise."""
    stated = tomllib.loads(recipe_module.STATED.read_text("utf-8"))["stated"]
    settings = {each.flat for _, each in TrainConfig.settings()}
    for component in (*map(OBJECTIVES.__getitem__, OBJECTIVES), *map(VIEWS.__getitem__, VIEWS)):
        settings |= {each.flat for each in settings_of(component.Config)}
    assert {each["setting"] for each in stated} <= settings
    assert {key for each in stated for key in each["papers"]} == {each.source.paper for each in RECIPES.values()}
    for name, recipe in RECIPES.items():
        assert all(recipe.deviations.values()), (name, recipe.deviations)
        assert all(line in recipe.differs for line in recipe.deviations.values())
    bi_qt = RECIPES["bi-qt"]
    assert "5 % of the documents are held out; in the authors' code, the first 50,000 sentences" in bi_qt.differs
    assert not any("clip" in line or "contexts" in line for line in bi_qt.differs)
    other = replace(bi_qt, settings={**bi_qt.settings, "clip_by": "channel", "held_out": 50_000, "lr": 0.001})
    assert other.deviations["clip_by"].startswith("gradients are clipped to norm 5 for each channel")
    assert "held_out" not in other.deviations
    assert other.deviations["lr"] == ""  # for which there is no excuse


def test_sizes_are_those_of_the_papers():
    for name, recipe in RECIPES.items():
        if "dim" in recipe.figures and not recipe.members:
            settings = recipe.settings
            dim = len(settings["channels"]) * len(settings["views"]) * settings["hidden"]
            assert dim == int(recipe.figures["dim"].text), name
    # [max ; mean ; min ; last] of seq, [max ; mean ; min] of avg
    assert 7 * RECIPES["multi-view-d"].settings["hidden"] == 14336


@pytest.mark.parametrize(("name", "printed"), [("qt-1000-pair", 19.8e6), ("skip-thought-1000", 57.7e6)])
def test_appendix_c_s_models_have_as_many_parameters_as_it_counts(name, printed):
    config = RECIPES[name].config(corpus="x")
    with torch.device("meta"):
        channel = Channel(config, config.words.vocabulary)
    assert sum(each.numel() for each in channel.parameters()) == pytest.approx(printed, rel=2e-3)


@pytest.mark.parametrize("name", DISTINCT)
def test_a_recipe_trains(name, command, does, vectors, tmp_path):
    """A joined one goes on where it was."""
    runs = Recipe.load(name).runs
    fixed = ("--vectors", "x.vec") if any("fixed" in run.channels for run, _ in runs.values()) else ()
    arguments = ("train", "--recipe", name, *fixed, *SMALL.split())
    assert does(*arguments) == f"runs/{name}\n"
    embedder = Embedder.load(tmp_path / "runs" / name)
    assert np.isfinite(embedder.encode([random_trees(["the", "topic0-1"]), random_trees(["of"])])).all()
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {name, *runs}
    if name == "combine-qt":
        assert embedder.dim == 2 * 2 * 8
        code, out, err = command(*arguments)
        assert (code, out) == (0, "runs/combine-qt\n")
        assert err.splitlines() == ["runs/uni-qt: already trained", "runs/bi-qt: already trained"]


def test_the_list_names_every_recipe_and_paper_and_one_can_be_shown(does, monkeypatch):
    out = does("recipes")
    assert all(name in out for name in names())
    credits = {recipe.credit for recipe in RECIPES.values()}
    assert len(credits) == 6
    assert all(" ".join(out.split()).count(credit) == 1 for credit in credits)
    resolved = recipe_module._resolved
    for name in ("mc-qt", "multi-view-d-f1g1", "qt-ensemble"):
        shown = tomllib.loads(does("recipes", name))
        shown |= {"similarity_join": RECIPES[name].similarity_join}
        with monkeypatch.context() as patch:
            patch.setattr(recipe_module, "_resolved", lambda n, s=shown, of=name: s if n == of else resolved(n))
            loaded = Recipe.load(name)
            assert list(loaded.source.differs) == RECIPES[name].differs
            assert replace(loaded, source=RECIPES[name].source) == RECIPES[name]


def test_wrong_names_and_clashes_are_told(command):
    Path("run").mkdir()
    Path("run/config.toml").touch()
    for arguments, message in (
        (("uni-q",), "unknown recipe 'uni-q' (did you mean uni-qt?): choose one that structviews recipes lists"),
        (("mc-qt", "--config", "x.toml"), "--config and --recipe both give settings"),
        (("mc-qt", "--resume", "run"), "leave out --recipe"),
    ):
        assert message in fails(command, Path(), "train", "--recipe", *arguments)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a recipe of one's own, beside another one, and read it."""
    (tmp_path / "rows").mkdir()
    monkeypatch.setattr(recipe_module, "ROWS", tmp_path / "rows")

    def read(text):
        (tmp_path / "rows/own.toml").write_text('paper = "Q"\n' + OTHER + text, "utf-8")
        recipe_module._rows.cache_clear()
        return Recipe.load("own")

    return read


OTHER = """
[bi-qt]
place = "table 1"
published = ["Q 1: bi-QT; BookCorpus"]
open = "passes"
corpus = { name = "BookCorpus", sentences = 7 }
vectors = { name = "word2vec", expand = true }
evaluation = { protocol = "kiros", tasks = ["MR", "CR"] }
settings = { views = ["seq", "seq"], objective = "quick-thoughts", hidden = 1200, vocabulary = 5 }

[own]
"""
HEAD = 'place = "table 3"\ncorpus.name = "BookCorpus"\n'
TWO_VIEWS = HEAD + 'settings.views = ["seq", "seq"]\nsettings.objective = "quick-thoughts"\n'


def test_a_recipe_has_what_its_table_says_and_the_rest_from_its_parent(own):
    published = 'published = ["Q 1: MC-QT; BookCorpus+UMBC", "Q 2: MC-QT; BookCorpus+UMBC"]\n'
    fixed = TWO_VIEWS + 'settings.channels = ["fixed", "trained"]\nvectors.name = "GloVe"\n'
    recipe = own(f"{fixed}{published}settings.remove_component = true\nevaluation.transductive = 'part'\n")
    assert (recipe.corpus.name, recipe.vectors.name, recipe.vectors.dim) == ("BookCorpus", "GloVe", 300)
    assert (recipe.figures["MR accuracy"].text, recipe.figures["SST2 accuracy"].text) == ("82.4", "87.6")
    assert (recipe.channels, list(recipe.runs)) == (("fixed", "trained"), ["own"])
    chosen = recipe.representation
    assert (chosen["remove_component"], chosen["transductive"], chosen["pooling"]) == (True, True, "vector")
    head = 'parent = "bi-qt"\nwithout = ["vocabulary"]\nplace = "table 3"\n'
    recipe = own(f"{head}corpus.sentences = 9\nsettings.hidden = 400\n")
    assert recipe.settings == {"views": ["seq", "seq"], "objective": "quick-thoughts", "hidden": 400}
    assert (recipe.source.place, recipe.source.published, recipe.source.open) == ("table 3", (), "passes")
    assert (recipe.corpus.name, recipe.corpus.sentences, recipe.vectors.name) == ("BookCorpus", 9, "word2vec")
    assert (recipe.evaluation.protocol, recipe.evaluation.tasks) == ("kiros", ("MR", "CR"))


def test_a_wrong_training_setting_is_told_with_the_recipe(own):
    wrong = own(TWO_VIEWS + "settings.hiden = 3\n")
    assert "recipe own: unknown setting 'hiden'" in refused(lambda: wrong.config(corpus="x"))
