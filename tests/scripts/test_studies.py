"""Studies: plans and draws; the stored results give the pages and tables that there are."""

import importlib
import itertools
import json
import zlib
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scripts_for_tests import SCRIPTS, load

ROOT = Path(__file__).parents[2]


@pytest.fixture
def part(monkeypatch):
    """A module of the studies by name."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return lambda name: importlib.import_module(f"studies.{name}")


@pytest.fixture
def plan(part):
    return part("view_pairs_plan").Plan()


def naive(kind, table, rows):
    """A score of the drawn examples, the obvious way."""
    chosen = table[:, rows]
    if kind == "accuracy":
        return 100 * chosen[0].mean()
    return 100 * stats.pearsonr(*chosen)[0] if kind == "pearson" else chosen[0].sum() / chosen[1].sum()


@pytest.mark.parametrize("kind", ["accuracy", "pearson", "ratio"])
def test_draws_are_scores_of_drawn_examples(part, kind):
    rng = np.random.default_rng(2)
    table = rng.random((3, 1 if kind == "accuracy" else 2, 25))
    table = (table < 0.5).astype(float) if kind == "accuracy" else table
    weights = rng.multinomial(25, np.full(25, 1 / 25), 6).astype(float)
    scores = part("intervals").SCORERS[kind](weights, table)
    for run, weight in itertools.product(range(3), range(6)):
        rows = np.repeat(np.arange(25), weights[weight].astype(int))
        assert scores[run, weight] == pytest.approx(naive(kind, table[run], rows))


@pytest.fixture
def draws(part, plan, tmp_path):
    """Two rows of three seeds, whose classifiers are right with some probabilities."""
    rng = np.random.default_rng(0)
    (tmp_path / "runs").mkdir()
    common = rng.random(2000)
    for run in (run for run in plan.runs() if run.row in (plan.table[0], plan.table[3])):
        level = {"seq,seq": 0.5, "dep,const": 0.6}[run.row.views] + 0.01 * run.seed
        hits = common + 0.1 * rng.standard_normal(2000) < level
        values = [{"shape": [1, 2000], "values": b64encode(zlib.compress(np.packbits(hits).tobytes())).decode()}]
        stored = {"kind": "accuracy", "score": 100 * hits.mean() + 1, "parts": values}
        (tmp_path / "runs" / f"{run.name}.json").write_text(json.dumps({"examples": {"MR": stored}}))
    return part("intervals").Draws(plan, tmp_path)


def test_a_row_is_the_mean_of_its_seeds_and_its_interval_covers_seeds_and_examples(draws, plan):
    rows = [plan.table[0], plan.table[3]]
    assert draws.scores == ["MR", "mean"]
    values = [[draws.loaded[run].examples["MR"].score for run in draws.runs[row]] for row in rows]
    for row, its in zip(rows, values, strict=True):
        assert draws.estimate(row, "mean").value == pytest.approx(np.mean(its), abs=1e-3)
    deviation, freedom = draws.deviation("MR")
    assert freedom == 4
    assert deviation == pytest.approx(np.sqrt(sum(np.var(its, ddof=1) for its in values) / 2), abs=1e-3)
    own = draws.estimate(rows[0], "MR")
    hits = np.mean([draws.loaded[run].examples["MR"].parts[0][0] for run in draws.runs[rows[0]]], axis=0)
    examples = 1.96 * 100 * hits.std() / 2000**0.5
    seeds = stats.t(4).ppf(0.975) * deviation / 3**0.5
    assert 1.02 * examples < (own.high - own.low) / 2 < examples + seeds


def test_differences_are_paired_and_a_verdict_follows_from_the_corrected_p_and_the_sign(part, draws, plan):
    claims, first, second = part("intervals"), plan.table[3], plan.table[0]
    draws.deviation = lambda score: (0.0, 0)
    apart = [draws.estimate(row, "MR") for row in (first, second)]
    both = draws.difference([(1, first, "MR"), (-1, second, "MR")])
    assert both.value == pytest.approx(apart[0].value - apart[1].value)
    widths = [each.high - each.low for each in (*apart, both)]
    assert widths[2] < 0.8 * (widths[0] ** 2 + widths[1] ** 2) ** 0.5
    pairs = {"up": (first, second), "down": (second, first), "none": (first, first)}
    found = claims.verdicts(draws, [claims.above(text, *rows, score="MR") for text, rows in pairs.items()])
    words = {each.claim.text: each.word for each in found}
    assert words == {"up": "shows", "down": "reversed", "none": "does not show"}
    assert found[0].p == pytest.approx(3 * 2 / 2001)


def test_the_readme_has_the_scores_that_are_stored(part):
    """The README's means of three pairs are the means over seeds and tasks."""
    pairs, scores, readme = part("view_pairs_plan"), part("intervals"), (ROOT / "README.md").read_text("utf-8")
    plan = pairs.Plan()
    for row in plan.table:
        if row.title in ("seq,seq", "dep,dep", "dep,const"):
            names = [part("rows").Run(row, seed).name for seed in range(1, plan.seeds(row) + 1)]
            stored = [scores.load(ROOT / f"docs/results/view-pairs/runs/{name}.json").examples for name in names]
            mean = np.mean([each[task].score for each in stored for task in scores.TASKS])
            assert f"{mean:.1f}" in readme


@pytest.mark.slow
@pytest.mark.parametrize("name", ["view-pairs", "transformers"])
def test_the_stored_results_give_the_pages_and_tables_that_there_are(monkeypatch, tmp_path, name):
    pytest.importorskip("matplotlib")
    study = load("study", monkeypatch)
    stored = ROOT / "docs/results" / name
    written = study.STUDIES[name](stored, tmp_path)
    texts = [path for path in written if path.suffix in (".md", ".csv")]
    assert {path.suffix for path in texts} == {".md", ".csv"}
    for path in texts:
        assert path.read_text() == (ROOT / "docs" / path.relative_to(tmp_path)).read_text()
