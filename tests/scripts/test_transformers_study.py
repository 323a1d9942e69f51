"""The study of transformers: its plan and its questions; and all of it at a small size."""

import argparse
import json
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripts_for_tests import load

from structviews.errors import DivergedError, InputError

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def study(monkeypatch):
    """The script."""
    for extra in ("transformers", "sentence_transformers"):
        pytest.importorskip(extra)
    return load("transformers_study", monkeypatch)


@pytest.fixture
def part(study):
    """A part of the script by name."""
    return lambda name: sys.modules[f"encoders.{name}"]


@pytest.fixture
def plan(study):
    return study.Plan.of(study.FULL)


def test_every_run_has_a_file_of_its_own_and_every_row_a_name(plan, part):
    runs = plan.runs()
    assert len({run.name for run in runs}) == len(runs) == 2 + 3 + 2 * 12
    assert len({part("pages").title(row) for row in plan.table}) == len(plan.table)


def test_a_question_is_about_two_rows_of_the_table(plan, part):
    found = part("pages").claims(plan)
    assert len({claim.text for claim in found}) == len(found)
    for claim in found:
        (one, better, _), (minus, worse, _) = claim.terms
        assert (one, minus) == (1, -1)
        assert better != worse
        assert {better, worse} <= set(plan.table)
    assert plan.alone in {row for claim in found for _, row, _ in claim.terms}


def test_each_row_has_the_best_rate_of_its_kind(plan, study, part, tmp_path):
    simcse, pair, diverged, _ = (row.name for row in plan.tried)
    measured = {
        simcse: {"5e-05": 51.0, "0.0002": 50.0, "7": 99.0},
        pair: {"5e-05": 60.0, "0.0002": 70.0, "0.0008": None},
        diverged: {"0.0008": None},
    }
    (tmp_path / part("plan").RATES).write_text(json.dumps(measured))
    assert plan.chosen(plan.alone, tmp_path) == 5e-5
    assert plan.chosen(plan.pairs[0], tmp_path) == 2e-4
    with pytest.raises(InputError, match="training diverges with each"):
        plan.chosen(plan.pairs[1], tmp_path)
    lines = [part("pages").trial_line(row, measured.get(row.name, {}), (2e-4, 8e-4)) for row in plan.tried]
    assert [line[1:] for line in lines] == [["50.0", ""], ["70.0", "diverges"], ["", "diverges"], ["", ""]]
    all_of_them = part("pages").trial_line(plan.tried[1], measured[pair], (5e-5, 2e-4, 8e-4))
    assert all_of_them[1:] == ["60.0", "**70.0**", "diverges"]


def test_a_pattern_that_names_no_run_is_refused(study, part, plan, tmp_path):
    work = argparse.Namespace(plan=plan, file=lambda run: tmp_path / run.name)
    with pytest.raises(InputError, match="--only transformer,dep: names no run"):
        study.run_all(work, "transformer,dep", pytest.fail)


def test_one_run_that_diverges_does_not_stop_the_others(study, plan, tmp_path, capsys, monkeypatch):
    first, second = plan.runs()[:2]

    def train(run):
        if run == first:
            raise DivergedError("the loss is NaN at step 3")
        return tmp_path

    work = SimpleNamespace(
        plan=SimpleNamespace(runs=lambda: [first, second]),
        file=lambda run: tmp_path / f"{run.name}.json",
        run=lambda run: tmp_path / run.name,
        claimed=lambda name: nullcontext(True),
        prepare=lambda: None,
        train=train,
    )
    monkeypatch.setattr(sys.modules["pairs.runs"], "score", lambda work, run, folder: {"run": run.name})
    with pytest.raises(DivergedError, match=f"training diverged: {first.name}: the other runs are not affected"):
        study.run_all(work, "*", lambda: None)
    assert not work.file(first).exists()
    assert json.loads(work.file(second).read_text()) == {"run": second.name}
    assert "error: the loss is NaN at step 3" in capsys.readouterr().err


def test_an_encoder_of_the_hub_is_refused(study):
    options = argparse.Namespace(encoder=Path("bert-base-uncased"))
    with pytest.raises(InputError, match="bert-base-uncased: no such folder"):
        study.work_of(options, study.FULL, Path("kept"))


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_all_of_it_at_a_small_size(study, part, command, monkeypatch, tmp_path):
    """Every row is trained and scored, and is on the page."""
    pytest.importorskip("gensim")
    from tiny_encoders import encoder_folder

    shutil.copy(DATA / "corpus.txt", tmp_path / "modern-000.txt")
    encoder = encoder_folder(tmp_path / "encoder", dim=16)

    def structviews(*arguments):
        code, _, err = command(*arguments)
        assert code == 0, err

    for module in ("pairs.work", "encoders.work"):
        monkeypatch.setattr(sys.modules[module], "command", structviews)
    sizes = study.Sizes(600, 200, (1e-4, 1e-3), 1_500, 300, 500, 16, 50, 1)
    options = argparse.Namespace(
        out=Path("work"),
        texts=[tmp_path / "modern-000.txt"],
        senteval=DATA / "senteval",
        encoder=encoder,
        vectors=None,
    )
    work = study.work_of(options, sizes, Path("kept"), quick=True)
    study.run_all(work, "*", lambda: study.keep_agreement(work, ()))
    page = study.write_page(work.plan, Path("kept"), Path("docs")).read_text()
    for row in work.plan.table:
        wide = len(row.parts) > 1 or (row.views.count(",") == 1 and not row.parts)
        assert f"| {part('pages').title(row)} | {32 if wide else 16} |" in page
    assert "nan" not in page
    (Path("kept") / part("work").ENCODER).write_text("{}")
    with pytest.raises(InputError, match="has scores of another encoder"):
        work.check_encoder()
    assert "The encoder's mean has " in page
    pair = next(run for run in work.plan.runs() if run.row == work.plan.pairs[0])
    assert work.train(pair) == work.run(pair)
    rates = part("plan").rates_measured(Path("kept"))
    better = {**rates, work.plan.trial(pair.row).name: {"0.0001": 1.0, "0.001": 2.0}}
    worse = {**rates, work.plan.trial(pair.row).name: {"0.0001": 2.0, "0.001": 1.0}}
    refused = []
    for measured in (better, worse):  # one of them chooses the other rate
        (Path("kept") / part("plan").RATES).write_text(json.dumps(measured))
        for act in (lambda: study.write_page(work.plan, Path("kept"), Path("docs")), lambda: work.train(pair)):
            try:
                act()
            except InputError as error:
                refused.append(str(error))
    page_said, run_said = refused
    assert "trained with a learning rate of 0.0" in page_said
    assert "holds a run with encoder_lr = 0.0" in run_said
    assert set(rates.pop(work.plan.frozen[0].name)) == {"0"}
    assert {row: set(of_row) for row, of_row in rates.items()} == {
        row.name: {"0.0001", "0.001"} for row in work.plan.tried
    }
    assert len(list(Path("kept/runs").iterdir())) == len(work.plan.runs())
