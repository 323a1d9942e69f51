"""The bundled models are made from texts in stages, which are not done twice."""

import json
import shutil
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scripts_for_tests import load
from tiny_encoders import published_model

from structviews.encoding.embedder import Embedder
from structviews.evaluation.scores.results import load_results

DATA = Path(__file__).parents[2] / "data"
STOPPED = ("perturb", "vectors", "train", "eval")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


@pytest.fixture
def make(command, monkeypatch, tmp_path):
    """The step ``make`` on two small texts, stopped before the first command of the given name; the commands it ran."""
    pytest.importorskip("gensim")
    published_model(tmp_path)
    shutil.copytree(DATA / "senteval", tmp_path / "senteval")
    lines = (DATA / "corpus.txt").read_text().split("\n")
    for i in range(2):
        (tmp_path / f"text-{i}.txt").write_text("\n".join(lines[300 * i : 300 * (i + 1)]) + "\n")
    module = load("default_model", monkeypatch)
    little = {"sub_words": 50, "steps": (3, 2)}
    sizes = {"full": replace(module.SIZES["full"], dim=8, hidden=4, words=20, **little)}
    sizes["small"] = replace(module.SIZES["small"], dim=6, hidden=3, words=10, **little)
    monkeypatch.setattr(module, "SIZES", sizes)

    def run(stopped_at=None, size="full"):
        ran = []

        def structviews(*arguments):
            if arguments[0] == stopped_at:
                raise KeyboardInterrupt
            ran.append(arguments[0])
            more = ("--partial", "--tasks", "TREC,SICK14") if arguments[0] == "eval" else ()
            code, _, err = command(*arguments, *more)
            assert code == 0, err

        monkeypatch.setattr(module, "command", structviews)
        given = f"text-0.txt text-1.txt --teacher tiny --senteval senteval -o work --size {size}"
        monkeypatch.setattr(sys, "argv", ["default_model.py", "make", *given.split()])
        with pytest.raises(KeyboardInterrupt) if stopped_at else nullcontext():
            module.main()
        return ran

    return run


def test_from_texts_to_scores_stopped_in_several_stages(make, capsys):
    ran = [make(stopped_at) for stopped_at in (*STOPPED, None)]
    assert ran == [
        ["parse", "parse", "corpus"], ["perturb", "corpus"], ["vectors"], ["train", "train", "parse"], ["eval"] * 3
    ]  # fmt: skip
    capsys.readouterr()
    assert make() == []
    stages = json.loads(Path("work/stages.json").read_text())
    told = capsys.readouterr().out.splitlines()
    assert sorted(line.partition(":")[0] for line in told) == sorted(stages)
    packed = Path("work/packed/default")
    embedder = Embedder.load(packed)
    assert embedder.view_names == ["dep-rel", "const", "avg", "average", "teacher"]
    assert embedder.encode(["The Unheardof word"]).shape == (1, 4 + 4 + 8 + 32)
    assert embedder.for_similarity().encode(["The Unheardof word"]).shape == (1, 32)
    assert (embedder.encode(["THE unheardof"]) == embedder.encode(["the Unheardof"])).all()
    for run in (packed, *map(Path, ("work/runs/average", "work/runs/random"))):
        assert load_results(run)["tasks"].keys() == {"TREC", "SICK14"}

    # The small one, from the same parsed texts and tasks.
    assert make(size="small") == ["vectors", "train", "train", *["eval"] * 3]
    assert json.loads(Path("work/stages.json").read_text()) == stages
    small, random = (Embedder.load(f"work/{run}") for run in ("packed/default-small", "runs/random-small"))
    assert small.encode(["The Unheardof word"]).shape == (1, 3 + 6 + 32)
    assert len(small.vocabularies["fixed"]) == 1 + 10
    assert (*random.view_names, "teacher") == tuple(small.view_names)
    assert random.dim == 3 + 6
    of_one_word = [each.encode_views(["The"])[2] for each in (random, small)]  # of average, which is not learnt
    np.testing.assert_allclose(*of_one_word, atol=0.03 * np.abs(of_one_word).max())
