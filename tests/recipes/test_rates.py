"""When rates that were measured before still hold."""

from pathlib import Path

from structviews.recipes.rates import identity
from structviews.recipes.recipe import Recipe
from structviews.recipes.reproduction import Reproduction
from structviews.runtime import device

DATA = Path(__file__).parents[2] / "data"


def test_rates_are_of_a_corpus_a_scale_and_a_device(tmp_path, monkeypatch):
    text = tmp_path / "corpus.txt"

    def rates_of(content, **scale):
        text.write_text(content)
        senteval = DATA / "senteval"
        return identity(Reproduction(Recipe.load("uni-qt"), text, senteval, tmp_path, chosen_tasks=("TREC",), **scale))

    before = rates_of("a b\nc d\n")
    assert rates_of("a b\nc d\n") == before
    assert len({before, rates_of("a b\nc e\n"), rates_of("a b\nc d\n", epochs=3)}) == 3
    monkeypatch.setattr(device, "_chosen", ["cuda"])
    assert rates_of("a b\nc d\n") != before
