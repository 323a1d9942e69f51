"""The study of view pairs: its plan, its corpora, its noise, its draws; and all of it at a small size."""

import itertools
import json
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scripts_for_tests import load
from trees_for_tests import random_sentence

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.runs.config import TrainConfig
from structviews.runs.settings_file import Parsed, save_config
from structviews.runtime.processes import Interrupted

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def study(monkeypatch):
    """The script; its parts are then modules too."""
    return load("view_pairs", monkeypatch)


@pytest.fixture
def part(study):
    """A part of the script by name."""
    return lambda name: sys.modules[f"pairs.{name}"]


def test_every_run_has_a_file_of_its_own_and_rows_are_shared(part):
    plan = part("plan").Plan.of(part("plan").FULL)
    runs = plan.runs()
    assert len({run.name for run in runs}) == len(runs)
    assert len({row.title for row in plan.table}) == len(plan.table)
    assert plan.table[3] == plan.size[3]
    assert plan.size[2] == plan.quality[0] == plan.batches[1] == plan.objectives[1] == plan.apart[0]
    assert [plan.seeds(row) for row in plan.table] == [3] * 6 + [1] * (len(plan.table) - 6)
    assert [run.row.sentences for run in runs[-2:]] == [3_000_000] * 2
    assert runs[-1].row.sentences != runs[-3].row.sentences
    choices = (plan.shape, plan.batches, plan.objectives, plan.channels)
    every = (plan.table, plan.size, plan.quality, *choices, plan.single, plan.apart, plan.same)
    assert all(plan.usual(row) in rows for rows in choices for row in rows)
    assert {run.row for run in runs} == set(itertools.chain(*every))


def test_a_claim_is_about_rows_of_the_study(part):
    plan = part("plan").Plan.of(part("plan").QUICK)
    found = part("claims").claims(plan)
    assert all(row in plan.rows for claim in found for _, row, _ in claim.terms)
    assert len({claim.text for claim in found}) == len(found)


@pytest.mark.parametrize(
    ("total", "available", "parts"),
    [(10, [20, 20], [5, 5]), (10, [2, 20], [2, 8]), (30, [8, 20, 5], [8, 17, 5]), (50, [8, 20], [8, 20])],
)
def test_shares_are_equal_as_far_as_there_is_text(part, total, available, parts):
    assert part("corpora").shares(total, available) == parts


def test_documents_are_drawn_whole_and_smaller_corpora_are_parts_of_larger_ones(part):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 400)
    documents = np.repeat(np.arange(400), lengths)
    groups = np.where(documents < 100, "novels", "modern")
    held_out, corpora = part("corpora").drawn(documents, groups, 200, [50, 200, 1000])
    for rows in (held_out, *corpora):
        assert (np.diff(rows) > 0).all()
        chosen = np.unique(documents[rows])
        assert len(rows) == lengths[chosen].sum()
    assert not set(held_out) & set(corpora[-1])
    assert set(corpora[0]) < set(corpora[1]) < set(corpora[2])
    for rows, size in zip((held_out, *corpora), (200, 50, 200, 1000), strict=True):
        counts = [int((groups[rows] == name).sum()) for name in ("modern", "novels")]
        if size < 1000:
            assert all(size / 2 <= count < size / 2 + 8 for count in counts)
        else:  # there are no more novels
            assert counts[1] == (groups == "novels").sum() - (groups[held_out] == "novels").sum()
            assert sum(counts) >= 1000


@pytest.fixture
def sentences():
    rng = random.Random(1)
    trees = [random_sentence(rng.randint(1, 40), rng) for _ in range(300)]
    return [replace(tree, relations=tuple(rng.choice("abcdefgh") for _ in tree.tokens)) for tree in trees]


def test_noise_depends_on_the_words_and_the_share_alone(part, sentences):
    noised = part("noise").noised
    assert [noised(each, 0.0) for each in sentences] == sentences
    once = [noised(each, 0.3) for each in sentences]  # each checks that it is a tree
    assert once == [noised(each, 0.3) for each in sentences]
    assert [each.tokens for each in once] == [each.tokens for each in sentences]
    assert once != [noised(each, 0.2) for each in sentences]


def test_noise_changes_the_share_of_the_words(part, sentences):
    changed = [part("noise").noised(each, 0.3) for each in sentences]
    pairs = [
        (head != other, relation != another)
        for old, new in zip(sentences, changed, strict=True)
        for head, other, relation, another in zip(old.heads, new.heads, old.relations, new.relations, strict=True)
    ]
    assert np.any(pairs, axis=1).mean() == pytest.approx(0.3, abs=0.03)
    assert np.mean([head for head, _ in pairs]) == pytest.approx(0.3 * 0.82, abs=0.03)


def test_a_rotation_moves_a_part_to_the_sibling(part):
    noise = part("noise")
    tree = ParsedSentence(("a", "b", "c"), left=(0, 3), right=(1, 2), labels=("", "", "", "NP", "S"))

    class Always:
        def random(self):
            return 0.0

        def sample(self, values, k):
            return values

    turned = noise.rotated(tree, 1.0, Always())
    assert turned == ((1, 0), (2, 3), ("", "", "", "NP", "S"))
    back = ParsedSentence(tree.tokens, left=turned[0], right=turned[1], labels=turned[2])
    assert noise.rotated(back, 1.0, Always()) == (tree.left, tree.right, tree.labels)


def test_what_is_kept_comes_back(part):
    kept = part("kept")
    rng = np.random.default_rng(0)
    hits = rng.random((1, 21)) < 0.6
    pairs = np.stack([kept.standard(each) for each in (10 * rng.random(33) + 100, rng.random(33))])
    for kind, table in (("accuracy", hits), ("pearson", pairs), ("ratio", 100 * rng.random((2, 7)))):
        examples = kept.Examples(kind, 12.3456, (table, table[:, :5]))
        back = kept.unpacked(json.loads(json.dumps(kept.packed(examples))))
        assert (back.kind, back.score) == (kind, 12.3456)
        for ours, theirs in zip(back.parts, examples.parts, strict=True):
            np.testing.assert_allclose(ours, theirs.astype(float), atol=2e-3, rtol=1e-3)


def naive(kind, table, rows):
    """A score of the drawn examples, the obvious way."""
    chosen = table[:, rows]
    if kind == "accuracy":
        return 100 * chosen[0].mean()
    return 100 * stats.pearsonr(*chosen)[0] if kind == "pearson" else chosen[0].sum() / chosen[1].sum()


@pytest.mark.parametrize("kind", ["accuracy", "pearson", "ratio"])
def test_draws_are_scores_of_drawn_examples(part, kind):
    draws = part("draws")
    rng = np.random.default_rng(2)
    table = rng.random((3, 1 if kind == "accuracy" else 2, 25))
    table = (table < 0.5).astype(float) if kind == "accuracy" else table
    weights = rng.multinomial(25, np.full(25, 1 / 25), 6).astype(float)
    scores = draws.SCORERS[kind](weights, table)
    for run, weight in itertools.product(range(3), range(6)):
        rows = np.repeat(np.arange(25), weights[weight].astype(int))
        assert scores[run, weight] == pytest.approx(naive(kind, table[run], rows))


@pytest.fixture
def kept(part, tmp_path):
    """A folder with files of two rows of two seeds, whose classifiers are right with some probabilities."""
    plan = part("plan").Plan.of(part("plan").QUICK)
    rng = np.random.default_rng(0)
    (tmp_path / "runs").mkdir()
    common = rng.random(2000)
    for run in plan.runs():
        if run.row in (plan.table[0], plan.table[3]):
            level = {"seq,seq": 0.5, "dep,const": 0.6}[run.row.views] + 0.01 * run.seed
            hits = common + 0.1 * rng.standard_normal(2000) < level
            examples = {"MR": part("kept").Examples("accuracy", 100 * hits.mean() + 1, (hits[None],))}
            content = {
                "examples": {name: part("kept").packed(each) for name, each in examples.items()},
                "training": {"sentences a second": 1000.0 * run.seed, "minutes": 3.0},
            }
            (tmp_path / "runs" / f"{run.name}.json").write_text(json.dumps(content))
    return plan, tmp_path


def test_a_row_is_the_mean_of_its_seeds_and_its_interval_covers_seeds_and_examples(part, kept):
    plan, folder = kept
    draws = part("draws").Draws(plan, folder)
    rows = [plan.table[0], plan.table[3]]
    assert draws.scores == ["MR", "mean"]
    values = [[draws.known[run].examples["MR"].score for run in draws.runs[row]] for row in rows]
    for row, its in zip(rows, values, strict=True):
        assert draws.estimate(row, "mean").value == pytest.approx(np.mean(its), abs=1e-3)
    deviation, freedom = draws.deviation("MR")
    assert freedom == 2
    assert deviation == pytest.approx(np.sqrt(sum(np.var(its, ddof=1) for its in values) / 2), abs=1e-3)
    own = draws.estimate(rows[0], "MR")
    hits = np.mean([draws.known[run].examples["MR"].parts[0][0] for run in draws.runs[rows[0]]], axis=0)
    examples = 1.96 * 100 * hits.std() / 2000**0.5
    seeds = stats.t(2).ppf(0.975) * deviation / 2**0.5
    half = (own.high - own.low) / 2
    assert 1.02 * examples < half < examples + seeds
    assert not draws.has(plan.table[1])


def test_differences_are_paired(part, kept):
    plan, folder = kept
    draws = part("draws").Draws(plan, folder)
    first, second = plan.table[3], plan.table[0]
    draws.deviation = lambda score: (0.0, 0)
    apart = [draws.estimate(row, "MR") for row in (first, second)]
    both = draws.difference([(1, first, "MR"), (-1, second, "MR")])
    assert both.value == pytest.approx(apart[0].value - apart[1].value)
    widths = [each.high - each.low for each in (*apart, both)]
    assert widths[2] < 0.8 * (widths[0] ** 2 + widths[1] ** 2) ** 0.5
    assert both.p == pytest.approx(2 / 2001)
    assert draws.difference([(1, first, "MR"), (-1, first, "MR")]).p == 1


def test_runs_with_other_probing_tasks_have_draws_of_their_own(part):
    """Their numbers of examples may differ; runs with the same ones stay paired, and scores are those reported."""
    kept, rng = part("kept"), np.random.default_rng(0)
    common = {"a": rng.random(700), "b": rng.random(699)}
    runs = []
    for data, level in (("a", 0.5), ("b", 0.6), ("a", 0.7)):
        hits = common[data] < level
        runs.append(kept.Kept({"data": data}, {"Depth": kept.Examples("accuracy", 100 * hits.mean(), (hits[None],))}))
    values = part("draws").drawn_by_data("Depth", runs)
    assert values[:, 0] == pytest.approx([run.examples["Depth"].score for run in runs])
    correlations = np.corrcoef(values[:, 1:])
    assert correlations[0, 2] > 0.5
    assert np.abs(correlations[1, [0, 2]]).max() < 0.1
    same = [kept.Kept(run.about, {"MR": run.examples["Depth"]}) for run in (runs[0], runs[2])]
    same[1].about["data"] = "b"
    assert np.corrcoef(part("draws").drawn_by_data("MR", same)[:, 1:])[0, 1] > 0.5


def test_a_verdict_follows_from_the_corrected_p_and_the_sign(part, kept):
    plan, folder = kept
    draws, claims = part("draws").Draws(plan, folder), part("claims")
    draws.deviation = lambda score: (0.0, 0)
    first, second = plan.table[3], plan.table[0]
    pairs = {"up": (first, second), "down": (second, first), "none": (first, first)}
    asked = [claims.Claim("", text, ((1, a, "MR"), (-1, b, "MR"))) for text, (a, b) in pairs.items()]
    missing = claims.Claim("", "missing", ((1, first, "MR"), (-1, plan.table[1], "MR")))
    found = claims.verdicts(draws, [*asked, missing])
    words = {each.claim.text: each.word for each in found}
    assert words == {"up": "shows", "down": "reversed", "none": "does not show"}
    assert found[0].p == pytest.approx(3 * 2 / 2001)


def test_the_budget_measures_each_kind_once_and_one_scoring(part, monkeypatch, tmp_path):
    """Rows that differ in size alone are of one kind; what is known is not measured again."""
    budget, trained, scored = part("budget"), [], []

    class Fake:
        plan = part("plan").Plan.of(part("plan").QUICK)
        kept = tmp_path

        def prepare(self):
            pass

        def corpus(self, sentences):
            return str(sentences)

        def train(self, run, steps):
            trained.append(run.row)
            (tmp_path / run.name).mkdir()
            return tmp_path / run.name

    monkeypatch.setattr(budget, "ParsedCorpus", type("Opened", (), {"open": lambda size: range(int(size))}))
    monkeypatch.setattr(budget, "rate", lambda folder: 50.0)
    monkeypatch.setattr(budget, "score", lambda work, run, folder: scored.append(run) or {"scoring minutes": 3.0})
    lines = list(budget.budget(Fake()))
    assert len(trained) == len({replace(row, sentences=0) for row in Fake.plan.rows if row.trained})
    assert {row.sentences for row in trained} == {Fake.plan.sizes.studied}
    assert len(scored) == 1
    runs = Fake.plan.runs()
    training = sum(run.row.sentences for run in runs if run.row.trained) / 50 / 3600
    assert lines[-2] == f"| all, on one thread | | | | {training + 0.05 * len(runs):.1f} |"
    assert list(budget.budget(Fake())) == lines
    assert len(scored) == 1


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (KeyboardInterrupt(), 130, "stopped; run the same command again to resume"),
        (InputError("x: missing: give it"), 2, "error: x: missing: give it"),
        (Interrupted(15, 3), 143, "stopped at step 3, saved; run the same command again to resume"),
        (subprocess.CalledProcessError(7, "structviews"), 7, ""),
    ],
)
def test_a_study_ends_with_one_line_and_a_status(part, capsys, raised, status, said):
    with pytest.raises(SystemExit) as end, part("runs").errors_as_exits():
        raise raised
    assert end.value.code == status
    assert capsys.readouterr().err.strip() == said


def test_each_objective_is_scored_with_the_first_component_and_without_it(part):
    """Rows without it are compared with the pair without it, and are the same training."""
    plan, kept = part("plan").Plan.of(part("plan").FULL), part("kept")
    without = [run.row for run in plan.runs() if kept.vectors_of(run).changes.get("remove_component")]
    assert {row.title for row in without} == {f"{row.title}, without component" for row in plan.objectives[:5]}
    assert [replace(row, without_component=False) for row in plan.objectives[5:]] == plan.objectives[:5]
    assert {plan.usual(row) for row in plan.objectives[5:]} == set(plan.objectives[5:7])
    assert all(kept.vectors_of(run).changes["normalise"] for run in plan.runs())


def test_a_row_without_component_is_the_training_of_the_row_with_it(part, tmp_path):
    plan, module = part("plan").Plan.of(part("plan").QUICK), part("work")
    work = module.Work(tmp_path, tmp_path, (), tmp_path, None, plan, quick=True)
    whole = part("plan").Run(plan.objectives[0], 1)
    work.run(whole).mkdir(parents=True)
    (work.run(whole) / module.COMPONENTS).touch()  # it is finished
    places = {"corpus": "elsewhere.parsed", "out": str(work.run(whole)), "seed": 1}
    save_config(work.run(whole), TrainConfig.from_flat(work.settings(whole.row) | places, "x"), Parsed())
    assert work.train(part("plan").Run(plan.objectives[5], 1)) == work.run(whole)


def test_the_last_gain_is_that_between_the_two_largest_corpora(part):
    """For each draw, per ten times as many sentences."""

    class Fake:
        def of(self, row, score):
            return {"small": np.array([1.0, 2.0]), "middle": np.array([3.0, 3.0]), "large": np.array([4.0, 2.0])}[row]

    sizes = {"large": 6.5, "small": 5.0, "middle": 6.0, "as large": 6.5}
    gain = part("studies").last_gain(Fake(), sizes, "mean")
    np.testing.assert_allclose(gain, [2.0, -2.0])


def test_what_runs_took_is_summed_by_kind(part, kept):
    plan, folder = kept
    pages = part("pages")
    found = pages.Found(plan, part("draws").Draws(plan, folder), {}, {}, "")
    lines = list(pages.rates(found, lambda row: row.title))
    assert lines == [["seq,seq", "2", "1,500", "0.10"], ["dep,const", "2", "1,500", "0.10"]]


def test_the_readme_has_the_scores_that_are_kept(part):
    """The README's three rows are the means over seeds and tasks, and so are those of the study's page."""
    plan, work = part("plan").Plan.of(part("plan").FULL), part("work")
    root = Path(__file__).parents[2]
    readme, page = ((root / path).read_text("utf-8") for path in ("README.md", "docs/results/view-pairs.md"))
    for views in ("seq,seq", "dep,dep", "dep,const"):
        row = next(each for each in plan.table if each.title == views)
        files = [
            root / f"docs/results/view-pairs/runs/{part('plan').Run(row, seed).name}.json"
            for seed in range(1, plan.seeds(row) + 1)
        ]
        kept = [part("kept").load(file).examples for file in files]
        mean = np.mean([each[task].score for each in kept for task in work.TASKS])
        assert f"| `{views}` | {mean:.1f} ±" in readme
        assert f"| {views} | 600 | 3 |" in page
        assert f"| {mean:.1f} ±" in next(line for line in page.splitlines() if line.startswith(f"| {views} | 600 | 3"))


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_all_of_it_at_a_small_size(study, part, command, monkeypatch, tmp_path, capsys):
    """Runs are trained, scored and put on the pages, and what is kept is not done again when the work is gone."""
    pytest.importorskip("gensim")
    pytest.importorskip("matplotlib")
    shutil.copy(DATA / "corpus.txt", tmp_path / "modern-000.txt")

    def structviews(*arguments):
        code, _, err = command(*arguments)
        assert code == 0, err

    monkeypatch.setattr(part("work"), "command", structviews)
    pairs = "dep-const-b100-n10000-*,seq-seq-b100-n10000-*,seq-seq-b100-n300-*"
    parts = "dep-of-dep-const-*,dep-of-dep-dep-b*"
    only = f"{pairs},{parts},dep-const-noise-60-*,dep-const-trivial-random-heads-*,sif,random-dep-const-*"

    def run(*step):
        given = (*step, "--quick", "--texts", tmp_path / "modern-000.txt", "--only", only, "-o", "work")
        monkeypatch.setattr(sys, "argv", ["view_pairs.py", *map(str, given)])
        study.main()

    run("run")
    run("pages")
    assert sorted(path.stem for path in Path("work/docs/results").iterdir()) == ["parser-quality", "size", "view-pairs"]
    page = Path("work/docs/results/view-pairs.md").read_text()
    assert "| dep,const | 32 | 2 |" in page
    size = Path("work/docs/results/size.md").read_text()
    assert not re.search(r"\b(nan|inf)\b", page + size)
    kept = {path.name for path in Path("work/kept/runs").iterdir()}
    assert len(kept) == 2 * 2 + 1 + 4 + 4
    assert "| dep of dep,const |" in page
    assert not list(Path("work/runs").glob("dep-of-*"))
    trees = json.loads(Path("work/kept/trees.json").read_text())
    assert 0.8688 * trees["agreement"]["noise:60"]["las"] == pytest.approx(60, abs=1.5)
    held_out, most = (ParsedCorpus.open(f"work/corpora/{name}.parsed") for name in ("held-out", "30000"))
    assert not {row.document for row in held_out} & {row.document for row in most}
    for path in Path("work").iterdir():
        if path.name != "kept":
            shutil.rmtree(path, ignore_errors=True)
    monkeypatch.setattr(part("runs"), "score", None)
    capsys.readouterr()
    run("run")
    assert "run " not in capsys.readouterr().err
    run("pages")
    assert Path("work/docs/results/view-pairs.md").read_text() == page
