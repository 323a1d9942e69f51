"""The bundled model is made from texts in stages, which are not done twice."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from scripts_for_tests import load

from structviews.encoding.embedder import Embedder
from structviews.evaluation.scores.results import load_results

DATA = Path(__file__).parents[2] / "data"
STOPPED = ("vectors", "train", "eval")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


@pytest.fixture
def make(command, monkeypatch, tmp_path):
    """The step ``make`` on two small texts, stopped before the first command of the given name; the commands it ran."""
    pytest.importorskip("gensim")
    shutil.copytree(DATA / "senteval", tmp_path / "senteval")
    lines = (DATA / "corpus.txt").read_text().split("\n")
    for i in range(2):
        (tmp_path / f"text-{i}.txt").write_text("\n".join(lines[300 * i : 300 * (i + 1)]) + "\n")
    module = load("default_model", monkeypatch)
    monkeypatch.setattr(module, "VECTORS", (*module.VECTORS, "--epochs", 1, "--subwords", 50, "--dim", 8))
    monkeypatch.setattr(module, "KEPT_WORDS", 20)

    def run(stopped_at=None):
        ran = []

        def structviews(*arguments):
            if arguments[0] == stopped_at:
                raise KeyboardInterrupt
            ran.append(arguments[0])
            more = ("--partial", "--tasks", "TREC,SICK14") if arguments[0] == "eval" else ()
            code, _, err = command(*arguments, *more)
            assert code == 0, err

        monkeypatch.setattr(module, "command", structviews)
        given = ("text-0.txt", "text-1.txt", "--senteval", "senteval", "-o", "work", "--hidden", 4)
        monkeypatch.setattr(sys, "argv", ["default_model.py", "make", *map(str, given)])
        if stopped_at:
            with pytest.raises(KeyboardInterrupt):
                module.main()
        else:
            module.main()
        return ran

    return run


def test_from_texts_to_scores_stopped_in_several_stages(make, capsys):
    ran = [make(stopped_at) for stopped_at in (*STOPPED, None)]
    assert ran == [
        ["parse", "parse", "cache"],
        ["vectors"],
        ["train", "parse", "baseline", "baseline"],
        ["eval", "eval", "eval"],
    ]
    capsys.readouterr()
    assert make() == []
    stages = json.loads(Path("work/stages.json").read_text())
    told = capsys.readouterr().out.splitlines()
    assert sorted(line.partition(":")[0] for line in told) == sorted(stages)
    packed = Path("work/packed/default")
    embedder = Embedder.load(packed)
    assert embedder.view_names == ["dep", "const", "sif"]
    assert embedder.encode(["The Unheardof word"]).shape == (1, 4 + 4 + 8)
    assert (embedder.encode(["THE unheardof"]) == embedder.encode(["the Unheardof"])).all()
    for run in (packed, "work/runs/average", "work/runs/sif"):
        assert load_results(Path(run))["tasks"].keys() == {"TREC", "SICK14"}
