"""Rows made with one command against the same made step by step; stopped in every stage; wrong input."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from corpora import opened, random_trees, write_corpus
from shell import fails

from structviews.corpus.parsed_corpus import Row
from structviews.encoding.embedder import Embedder
from structviews.evaluation.scores.results import all_results
from structviews.evaluation.senteval.tasks.finding import read_task
from structviews.parsing.sources import open_source
from structviews.recipes import recipe, stages
from structviews.recipes.outcome import _means, measures
from structviews.runs.folder import weight_files

DATA = Path(__file__).parents[2] / "data"
SIZE = ("--hidden", "8", "--epochs", "1")
FIVE = ("--dim", "5", "--min-count", "1", "--epochs", "1")
HOW = ("--corpus", "corpus.txt", "--senteval", "senteval", *SIZE)
SMALL = (*HOW, "--tasks", "TREC", "--sentences", "250")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _samples(tmp_path):
    """SentEval's tasks in small, and four documents of 68, 102, 64 and 105 sentences."""
    shutil.copytree(DATA / "senteval", tmp_path / "senteval")
    lines = (DATA / "corpus.txt").read_text().split("\n")
    (tmp_path / "corpus.txt").write_text("\n".join(lines[:343]) + "\n")
    (tmp_path / "x.conllu").touch()
    (tmp_path / "cut.vec").write_text("the 1 2 3\nof 4 5 6\nto 7 8\n")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def once(does, shared):
    """Run a command that makes a file or folder, or copy what it made for an earlier test."""

    def make(path, command):
        made = shared / path
        if not made.exists():
            does(*command)
        source, target = (made, path) if made.exists() else (Path(path), made)
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, target)

    return make


@pytest.fixture
def words(once):
    """The text parsed, and word vectors of five numbers."""
    once("corpus.parsed", ("parse", "corpus.txt", "--format", "lines", "--max-tokens", "30"))
    once("words.bin", ("vectors", "corpus.parsed", "-o", "words.bin", *FIVE))


@pytest.fixture
def uni_qt(once):
    """A small row of one run."""
    once("reproduced", ("reproduce", "uni-qt", *SMALL))


def scores(run):
    """By task, of the only results of a run."""
    (found,) = all_results(Path(run))
    return {task: entry["scores"] for task, entry in found["tasks"].items()}


def weights(run):
    return [path.read_bytes() for path in weight_files(Path(run))]


def outcome(name, folder="reproduced"):
    return json.loads(Path(folder, f"{name}.json").read_text())


def untimed(name):
    """The outcome without its hours of training."""
    found = outcome(name)
    return {**found, "lines": [line for line in found["lines"] if line["measure"] != "hours"]}


def test_a_row_is_that_of_the_single_commands(does):
    out = does("reproduce", "uni-qt", *HOW, "--tasks", "trec,SICK-R", "--sentences", "250")
    lines = Path("corpus.txt").read_text().split("\n")
    Path("first.txt").write_text("\n".join(lines[:236]) + "\n")
    does("parse", "first.txt", "--format", "lines")
    does("train", "--recipe", "uni-qt", "--corpus", "first.parsed", *SIZE, "--out", "x")
    does("eval", "x", "--recipe", "uni-qt", "--senteval", "senteval", "--partial", "--tasks", "TREC,SICK-R")
    assert weights("x") == weights("reproduced/runs/uni-qt")
    assert scores("x") == scores("reproduced/runs/uni-qt")
    made = outcome("uni-qt")
    row = {line["measure"]: line for line in made["lines"]}
    trec, sick = scores("x")["TREC"]["accuracy"], 100 * scores("x")["SICK-R"]["pearson"]
    own = {"ours": trec, "published": 90.6, "difference": trec - 90.6, "partial": True}
    assert row["TREC accuracy"] == {"measure": "TREC accuracy"} | own
    assert (row["SICK-R pearson"]["ours"], row["SICK-R mse"]["published"]) == (sick, 29.3)
    assert (row["dim"]["ours"], row["dim"]["published"], row["dim"]["difference"]) == (16, 2400, None)
    assert (row["MR accuracy"]["ours"], row["MR accuracy"]["published"]) == (None, 77.2)
    assert made["differences"][:4] == [
        "corpus: corpus.txt (234 sentences), not BookCorpus (45,000,000 sentences)",
        "sentences: at most 250, whole documents from the beginning (--sentences)",
        "vocabulary: not expanded to the words of word2vec, Google News (--vectors)",
        "hidden = 8, not 1200 (--hidden)",
    ]
    page = Path("reproduced/uni-qt.md").read_text()
    assert all(f"- {line}\n" in page for line in made["differences"])
    assert all(line in " ".join(out.split()) for line in made["differences"])
    assert f"| TREC accuracy | {row['TREC accuracy']['ours']:.1f}* | 90.6 |" in page


def test_a_row_of_members_is_that_of_the_single_commands(does, command, monkeypatch):
    row = ("reproduce", "single-views-fg", *HOW, "--tasks", "TREC,SICK14")
    with monkeypatch.context() as patch:
        patch.setattr(stages, "learn_vectors", stopped(stages.learn_vectors))
        assert command(*row)[0] == 130
    does(*row)
    does("parse", "corpus.txt", "--format", "lines")
    does("vectors", "corpus.parsed", "-o", "words.bin")
    for name in ("f", "g"):
        flags = ("--corpus", "corpus.parsed", "--vectors", "words.bin", *SIZE, "--out", name)
        does("train", "--recipe", f"single-view-{name}", *flags)
    does("join", "f", "g", "-o", "fg", "--similarity-join", "average")
    how = ("--protocol", "senteval-torch", "--transductive", "part")
    does("eval", "fg", "--senteval", "senteval", "--partial", "--tasks", "TREC,SICK14", *how)
    assert scores("fg") == scores("reproduced/runs/single-views-fg")
    found = outcome("single-views-fg")["differences"]
    assert "word vectors: learnt from the corpus, 300 dimensions, not fastText (--vectors)" in found
    published = {line["measure"]: line["published"] for line in outcome("single-views-fg")["lines"]}
    assert (published["MRPC f1"], published["TREC accuracy"]) == (83.2, None)  # the supplement's table has no TREC


def test_given_vectors_expand_and_what_is_there_is_used(does, command, words):
    given = ("--corpus", "corpus.parsed", "--senteval", "senteval", *SIZE, "--vectors", "words.bin")
    does("reproduce", "dep-const-paper", *given, "--tasks", "TREC")
    assert Path("reproduced/runs/dep-const-paper/expansion.safetensors").is_file()
    assert not list(Path("reproduced").glob("corpus*"))
    assert any("trees: by the parser builtin" in line for line in outcome("dep-const-paper")["differences"])
    again = ("reproduce", "dep-const-paper", *given, "--tasks", "TREC,SICK-R")
    left = ["parsing the sentences of the tasks", "scoring reproduced/runs/dep-const-paper"]
    assert command(*again, "--dry-run")[2].splitlines() == left
    assert command(*again)[0] == 0
    assert command(*again, "--dry-run")[2].splitlines() == ["nothing left to do"]
    assert scores("reproduced/runs/dep-const-paper").keys() == {"TREC", "SICK-R"}
    test = Path("senteval/TREC/TREC_10.label")
    lines = test.read_bytes().splitlines(keepends=True)
    test.write_bytes(b"".join([b"HUM:ind Who wrote this rather unusual sentence ?\n", *lines[1:]]))
    assert command(*again, "--dry-run")[2].splitlines() == left


def test_the_row_of_structured_views_has_no_gap(does, words):
    """Hours, the author's mean and the distances of table 2 beside the scores; of incomplete tasks, with a mark."""
    for folder, files in (("CR", "custrev.{}"), ("MPQA", "mpqa.{}"), ("SUBJ", "subj.{}")):
        Path("senteval", folder).mkdir()
        names = ("objective", "subjective") if folder == "SUBJ" else ("pos", "neg")
        for name, side in zip(names, ("pos", "neg"), strict=True):
            shutil.copy(f"senteval/MR/rt-polarity.{side}", Path("senteval", folder, files.format(name)))
    given = ("--corpus", "corpus.parsed", "--senteval", "senteval", *SIZE, "--vectors", "words.bin")
    out = does("reproduce", "dep-const-paper", *given)
    lines = {line["measure"]: line for line in outcome("dep-const-paper")["lines"]}
    assert all(line["ours"] is not None and line["published"] is not None for line in lines.values())
    assert "neighbour 2 of 'Rugby is'" in lines
    assert 0 < lines["hours"]["ours"] < 1
    own = {name: line["ours"] for name, line in lines.items()}
    mrpc, sick = (own["MRPC accuracy"] + own["MRPC f1"]) / 2, own["SICK-R pearson"] + own["SICK-R spearman"]
    others = sum(own[f"{task} accuracy"] for task in ("MR", "CR", "SUBJ", "MPQA", "TREC"))
    mean = (others + mrpc + (sick + 100 - own["SICK-R mse"]) / 3) / 7
    assert lines["SentEval mean"]["ours"] == pytest.approx(mean)
    assert f"{lines['SentEval mean']['published']:.1f}" == "86.0"
    assert lines["SentEval mean"]["partial"]
    assert "not a deep biaffine parser with BERT features" in " ".join(out.split())
    sick = read_task("SICK-R", Path("senteval"), allow_partial=True).splits["test"]
    query = "Rugby is being played by some men"
    vectors = Embedder.load("reproduced/runs/dep-const-paper").encode([query.split(), *sick.first, *sick.second])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = np.unique((100 * (1 - vectors[1:] @ vectors[0])).round(3))[:2]
    assert [own[f"neighbour {n} of 'Rugby is'"] for n in (1, 2)] == pytest.approx(nearest, abs=2e-3)


def test_members_have_corpora_of_their_own(command, words):
    Path("both.txt").write_text("\n".join(Path("corpus.txt").read_text().split("\n")[69:]) + "\n")
    how = ("--senteval", "senteval", "--hidden", "4", "--epochs", "1", "--tasks", "TREC", "--sentences", "100")
    for arguments, message in (
        (("mc-qt", "--corpus", "Books=corpus.txt"), "unknown corpus 'Books'"),
        (("qt-ensemble", "--corpus", "BookCorpus=corpus.txt"), "no corpus for BookCorpus+UMBC: give one for all runs"),
        (("uni-qt", "--corpus", "corpus.parsed", "--parser", "trivial:balanced"), "corpus.parsed is parsed"),
    ):
        assert message in fails(command, Path(), "reproduce", *arguments, *how)
    corpora = ("--corpus", "corpus.txt", "--corpus", "BookCorpus+UMBC=both.txt")
    _, _, err = command("reproduce", "qt-ensemble", *corpora, *how, "--vectors", "words.bin", "--dry-run")
    taken = [line for line in err.splitlines() if line.startswith("taking")]
    assert taken == [f"taking the first 100 sentences of {name}.txt" for name in ("corpus", "both")]


@pytest.mark.usefixtures("uni_qt", "words")
def test_members_are_shared_unless_they_differ_in_settings_or_vectors(does, command):
    def refused(*flags):
        code, _, err = command("reproduce", "combine-qt", *SMALL, *flags)
        assert code == 2
        assert "training" not in err
        return err

    before = weights("reproduced/runs/uni-qt")
    other = "uni-qt: already has a run with hidden = 8 (you asked for 10): give another folder with --out"
    assert other in refused("--hidden", "10")
    assert not Path("reproduced/runs/bi-qt").exists()
    code, _, err = command("reproduce", "combine-qt", *SMALL)
    assert (code, weights("reproduced/runs/uni-qt")) == (0, before)
    assert "training reproduced/runs/bi-qt" in err
    assert "training reproduced/runs/uni-qt" not in err
    joined = "combine-qt: a join of other members, or of earlier versions: delete it, or give another folder"
    assert joined in refused("--vectors", "words.bin")
    assert not list(Path("reproduced").rglob("expansion.safetensors"))
    shutil.rmtree("reproduced/runs/combine-qt")
    does("reproduce", "combine-qt", *SMALL, "--vectors", "words.bin")
    before = weights("reproduced")
    does("vectors", "corpus.parsed", "-o", "other.bin", *FIVE, "--seed", "2")
    expanded = f"runs/uni-qt: expanded from the vectors of {Path('words.bin').resolve()}: give them with --vectors, or"
    for flags in ((), ("--vectors", "other.bin")):
        assert expanded in refused(*flags)
    assert weights("reproduced") == before


STAGES = ("take_beginning", "parse", "parse_tasks", "train_run", "expand_vocabulary", "join", "score")


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """A copy of the recipes' files."""
    shutil.copytree(recipe.ROWS, tmp_path / "rows")
    monkeypatch.setattr(recipe, "ROWS", tmp_path / "rows")
    return tmp_path / "rows"


def stopped(stage):
    """A stage that is stopped after it has done something."""

    def instead(*arguments):
        titles = list(stage(*arguments))
        if titles:
            raise KeyboardInterrupt
        return titles

    return instead


def test_single_views_of_runs_are_joined(does, command, rows):
    head = 'paper = "M"\n[own]\nplace = "table 6"\ncorpus.name = "x"\n'
    members = '{ recipe = "multi-view-d-f1f2", view = "VIEW" }, { recipe = "single-view-g", seed = 2 }'
    own = rows / "own.toml"
    own.write_text(f"{head}members = [{members}]\n".replace("VIEW", "seq"))
    said = fails(command, Path(), "reproduce", "own", *SMALL)
    assert "recipe own: unknown view of multi-view-d-f1f2 'seq'" in said
    assert "choose one of seq.1, seq.2" in said
    own.write_text(f"{head}members = [{members}]\n".replace("VIEW", "seq.2"))
    recipe._rows.cache_clear()
    does("reproduce", "own", *SMALL)
    runs = {path.name for path in Path("reproduced/runs").iterdir()}
    assert runs == {"multi-view-d-f1f2", "single-view-g-seed2", "own"}
    # Four kinds of states of one recurrent view, and three of the average.
    assert outcome("own")["lines"][0]["ours"] == 4 * 8 + 3 * 8


def test_a_row_is_the_same_whichever_stages_were_stopped(rows, words, does, command, monkeypatch):
    head = 'paper = "S"\n[all]\nplace = "table 1"\ncorpus.name = "x"\n'
    (rows / "all.toml").write_text(head + 'members = [{ recipe = "dep-const-paper" }, { recipe = "uni-qt" }]\n')
    arguments = ("reproduce", "all", *HOW, "--tasks", "SICK14", "--sentences", "250", "--vectors", "words.bin")
    does(*arguments, "--out", "whole")
    for each in STAGES:
        with monkeypatch.context() as patch:
            patch.setattr(stages, each, stopped(getattr(stages, each)))
            code, _, err = command(*arguments, "--out", "parts")
        assert code == 130, (each, err)
        assert err.endswith("stopped; run the same command again to resume\n")
    does(*arguments, "--out", "parts")
    assert outcome("all", "parts") == outcome("all", "whole")
    assert scores("parts/runs/all") == scores("whole/runs/all")


@pytest.mark.usefixtures("uni_qt")
def test_calls_killed_before_a_checkpoint_and_after_the_scores_go_on(does):
    arguments = ("reproduce", "uni-qt", *SMALL)
    first, before, there = untimed("uni-qt"), weights("reproduced/runs/uni-qt"), sorted(Path().rglob("*"))
    run = Path("reproduced/runs/uni-qt")
    for path in (run / ".results.json.lock", run / ".predictions.safetensors.lock", run.with_name(".uni-qt.lock")):
        path.write_text("process 1")
    does(*arguments)
    assert sorted(Path().rglob("*")) == there
    for path in run.iterdir():
        if path.name not in ("config.toml", "words.safetensors"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    does(*arguments)
    assert (untimed("uni-qt"), weights(run)) == (first, before)


@pytest.mark.usefixtures("uni_qt")
def test_what_was_made_of_another_text_of_the_same_name_is_not_used(command):
    text = Path("corpus.txt")
    text.write_text("\n".join(text.read_text().split("\n")[69:]))
    assert "uni-qt: already has a run with corpus = " in fails(command, Path(), "reproduce", "uni-qt", *SMALL)
    shutil.rmtree("reproduced/runs")
    assert command("reproduce", "uni-qt", *SMALL, "--dry-run")[2].startswith("taking the first 250 sentences of")


def test_a_recipe_of_a_run_says_how_others_are_scored(does, words):
    own = ("--views", "avg", "--objective", "consensus", "--corpus", "corpus.parsed", "--hidden", "8", "--epochs", "1")
    does("train", *own, "--agreement", "single", "--out", "x")
    shutil.copytree("x", "y")
    how = ("--senteval", "senteval", "--partial", "--tasks", "SICK14")
    does("eval", "x", "--recipe", "single-view-g", *how)
    flags = ("--pooling", "pooled", "--remove-component", "--normalise", "--transductive", "part")
    similarity = ("--similarity-pooling", "mean", "--similarity-join", "average")
    does("eval", "y", *flags, *similarity, "--protocol", "senteval-torch", *how)
    assert scores("x") == scores("y")
    found = {"part": scores("x")["SICK14"]}
    for fitted, shown in (("task", "pooled - pc (transductive), l2; "), ("no", "pooled - pc, l2; ")):
        does("eval", "x", "--recipe", "single-view-g", *how, "--transductive", fitted)
        (stored,) = (each for each in all_results(Path("x")) if f"--transductive {fitted}" in each["flags"])
        assert stored["flags"] == f" --recipe single-view-g --transductive {fitted} --protocol senteval-torch"
        assert stored["representation"].startswith(shown)
        found[fitted] = stored["tasks"]["SICK14"]["scores"]
    assert len({str(each) for each in found.values()}) == 3


def test_what_is_left_is_said_and_nothing_is_written(command, monkeypatch):
    code, out, err = command("reproduce", "combine-qt", *HOW, "--dry-run")
    assert (code, out) == (0, "")
    left = ["parsing corpus.txt", *(f"training reproduced/runs/{name}" for name in ("uni-qt", "bi-qt"))]
    left += [f"{stage} reproduced/runs/combine-qt" for stage in ("joining", "scoring")]
    assert err.splitlines() == left
    monkeypatch.setitem(sys.modules, "gensim", None)
    said = fails(command, Path(), "reproduce", "multi-view-d", *HOW, "--tasks", "TREC", "--dry-run")
    assert said.endswith("needs gensim: pip install 'structviews[vectors]', or give --vectors FILE")
    assert not Path("reproduced").exists()


def test_wrong_input_is_one_line_and_nothing_is_written(command):
    for arguments, message in (
        (("uni-qt", *HOW, "--corpus", "no.txt"), "no.txt: no such file or folder: give a text or a parsed corpus"),
        (("uni-qt", *HOW, "--corpus", "x.conllu"), "x.conllu: a treebank file: run structviews parse --parser"),
        (("uni-qt", *HOW, "--senteval", "no"), "no: no such folder"),
        (("uni-qt", *HOW, "--tasks", "TREC,Tense"), "unknown task 'Tense'"),  # a probing task is no task of a row
        (("uni-qt", *HOW, "--tasks", "STS14"), "STS14"),
        (("uni-qt", *HOW, "--tasks", "TREC", "--vectors", "cut.vec"), "cut.vec"),
        (("uni-qt", *HOW, "--sentences", "0"), "--sentences"),
        (("uni-qt", *HOW, "-o", "corpus.txt"), "corpus.txt: is a file"),
        (("uni-qt", "--senteval", "senteval"), "--corpus"),
    ):
        assert message in fails(command, Path(), "reproduce", *arguments)


def test_measures_are_named_and_scaled_as_the_papers_have_them():
    accuracy = {"scores": {"accuracy": 76.0, "f1": 83.5}}
    assert measures("MRPC", accuracy) == {"MRPC accuracy": 76.0, "MRPC f1": 83.5}
    assert measures("SICK-R", {"scores": {"pearson": 0.86, "mse": 0.25}}) == {"SICK-R pearson": 86, "SICK-R mse": 25}
    of_sets = {"a": {"pearson": 0.5, "pairs": 1}, "b": {"pearson": 0.7, "pairs": 3}}
    year = {"scores": {"pearson mean": 0.6, "pearson weighted mean": 0.65, "spearman mean": 0.1}, "sets": of_sets}
    assert measures("STS12", year) == {"STS12 mean": 60, "STS12 weighted mean": 65, "STS12/a": 50, "STS12/b": 70}
    assert measures("SICK14", {**year, "sets": {"all": {"pearson": 0.6}}}) == {"SICK14 pearson": 60}


def test_a_published_mean_is_over_the_main_score_of_every_task_or_is_left_out():
    ours = {"STS12 mean": 60.0, "SICK14 pearson": 70.0, "MRPC f1": 84.0, "MRPC accuracy": 76.0, "MR accuracy": 81.0}
    assert _means(["STS12, SICK14 mean", "MR, MRPC mean", "STS12 mean", "MR, CR mean", "dim"], ours) == {
        "STS12, SICK14 mean": ["STS12 mean", "SICK14 pearson"],
        "MR, MRPC mean": ["MR accuracy", "MRPC accuracy"],
    }


@pytest.mark.parametrize(("n", "taken"), [(1, 1), (5, 5), (9, 6)])
def test_the_beginning_of_a_text_or_corpus_has_its_documents(n, taken, tmp_path):
    """Of 2, 3 and 1 sentences; where the first document is too long, its beginning."""
    (tmp_path / "x.txt").write_text("a b\nc d\n\n\ne f\ng h\ni j\n\nk l\n")
    how = {"parser": "trivial:balanced", "layout": "lines", "tokenised": True, "max_tokens": 120}
    source = open_source([str(tmp_path / "x.txt")], **how)
    stages.write_first_lines(source, n, tmp_path / "y.txt")
    first, whole = (
        [(each.document, each.position, each.text) for each in text.sentences()]
        for text in (open_source([str(tmp_path / "y.txt")], **how), source)
    )
    assert first == whole[:taken]
    rows = [Row(*place, line, random_trees(text.split())) for line, (*place, text) in enumerate(whole, 1)]
    corpus = write_corpus(tmp_path / "x.parsed", rows)
    stages.write_first_rows(opened(corpus), n, tmp_path / "y.parsed")
    assert list(opened(tmp_path / "y.parsed")) == rows[:taken]
