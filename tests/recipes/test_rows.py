"""The recipes' files: what each has to state, and what their sizes come to in the papers."""

import pytest
import torch

from structviews.evaluation.senteval.protocols import PROTOCOLS
from structviews.evaluation.senteval.tasks import TASKS
from structviews.model import Channel
from structviews.recipes.recipe import Recipe, names

RECIPES = {name: Recipe.load(name) for name in names()}
STATED = {"views", "objective", "channels", "context", "hidden", "initialisation", "batch_size", "epochs", "lr", "clip"}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_states_what_moves_results(name):
    recipe = RECIPES[name]
    assert recipe.evaluation.tasks
    assert set(recipe.evaluation.tasks) <= set(TASKS)
    assert recipe.evaluation.protocol in PROTOCOLS
    assert recipe.corpus.sentences > 1_000_000
    if not recipe.members:
        assert set(recipe.settings) >= STATED
        assert recipe.settings["epochs"] == 1
        assert recipe.source.open
        assert recipe.source.differs
        assert recipe.evaluation.transductive == recipe.settings.get("remove_component", False)


@pytest.mark.parametrize("name", [name for name in RECIPES if name.endswith(("-umbc", "-amazon"))])
def test_a_model_on_another_corpus_has_the_same_settings(name):
    recipe, first = RECIPES[name], RECIPES[name.rsplit("-", 1)[0]]
    assert recipe.corpus != first.corpus
    words = ("word_dim", "vocabulary") if recipe.source.paper == "Q" else ()
    assert {**recipe.settings, **dict.fromkeys(words)} == {**first.settings, **dict.fromkeys(words)}
    assert [f"{member.recipe}:{member.view}" for member in recipe.members if recipe.source.paper != "Q"] == [
        f"{member.recipe}-umbc:{member.view}" for member in first.members if recipe.source.paper != "Q"
    ]


def test_vectors_have_the_papers_dimensions():
    for name, recipe in RECIPES.items():
        if "dim" in recipe.figures and not recipe.members:
            settings = recipe.settings
            dim = len(settings["channels"]) * len(settings["views"]) * settings["hidden"]
            assert dim == int(recipe.figures["dim"].text), name


@pytest.mark.parametrize(("name", "printed"), [("qt-1000-pair", 19.8e6), ("skip-thought-1000", 57.7e6)])
def test_appendix_c_s_models_have_as_many_parameters_as_it_counts(name, printed):
    config = RECIPES[name].config(corpus="x")
    with torch.device("meta"):
        made = Channel(
            config.views.names,
            config.words.vocabulary,
            config.words.dim,
            config.views.hidden,
            config.objective.name,
            options=config.objective.options,
            view_options=config.views.options,
        )
    assert sum(each.numel() for each in made.parameters()) == pytest.approx(printed, rel=2e-3)
