"""Every recipe has settings that hold; one that joins runs trains them all; a wrong file is told in one line."""

from pathlib import Path

import numpy as np
import pytest
import vector_files
from corpora import opened, random_trees, topic_corpus

from structviews.encoding.embedder import Embedder
from structviews.errors import InputError
from structviews.recipes import recipe as recipe_module
from structviews.recipes.recipe import Recipe, names

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


@pytest.mark.parametrize("name", names())
def test_a_recipe_says_where_it_is_from_and_has_settings_that_hold(name, vectors):
    recipe = Recipe.load(name)
    assert recipe.source.place
    assert recipe.corpus.name
    for run, _ in recipe.runs.values():
        given = {"corpus": "x"} | ({"vectors": str(vectors)} if "fixed" in run.channels else {})
        config = run.config(**given)
        assert config.optimisation.lr == 5e-4
        assert config.optimisation.batch_size in (400, 512, 1500)


@pytest.mark.parametrize("name", names())
def test_a_recipe_trains(name, command, vectors, tmp_path):
    runs = Recipe.load(name).runs
    fixed = ("--vectors", "x.vec") if any("fixed" in run.channels for run, _ in runs.values()) else ()
    code, out, err = command("train", "--recipe", name, *fixed, *SMALL)
    assert (code, out) == (0, f"runs/{name}\n"), err
    embedder = Embedder.load(tmp_path / "runs" / name)
    assert np.isfinite(embedder.encode([random_trees(["the", "topic0-1"]), random_trees(["of"])])).all()
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {name, *runs}


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


def test_the_list_names_every_recipe_and_paper_and_one_can_be_shown(command):
    code, out, _ = command("recipes")
    assert code == 0
    assert all(name in out for name in names())
    credits = {Recipe.load(name).credit for name in names()}
    assert len(credits) == 5
    assert all(" ".join(out.split()).count(credit) == 1 for credit in credits)
    assert "Simoulin and Crabbé (2021): Contrasting" in out
    code, out, _ = command("recipes", "mc-qt")
    assert out == (recipe_module.ROWS / "mc-qt.toml").read_text("utf-8")


def test_wrong_names_and_clashes_are_told(command):
    with pytest.raises(
        InputError,
        match=r"unknown recipe 'uni-q' \(did you mean uni-qt\?\): choose one that structviews recipes lists$",
    ):
        Recipe.load("uni-q")
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


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a recipe's file, beside single and joined ones that hold, and read it."""
    rows = tmp_path / "rows"
    rows.mkdir()
    for name in ("uni-qt", "bi-qt", "combine-qt"):
        (rows / f"{name}.toml").write_bytes((recipe_module.ROWS / f"{name}.toml").read_bytes())
    monkeypatch.setattr(recipe_module, "ROWS", rows)

    def read(text):
        (rows / "own.toml").write_text(text, "utf-8")
        return Recipe.load("own")

    return read


HEAD = '[source]\npaper = "Q"\nplace = "table 1"\n'
CORPUS = '[corpus]\nname = "BookCorpus"\n'
VIEWS = '[settings]\nviews = ["seq", "seq"]\nobjective = "quick-thoughts"\n'
FIXED = VIEWS + 'channels = ["fixed", "trained"]\n'
WORDS = '[vectors]\nname = "GloVe"\n'


def test_a_recipe_has_what_its_file_says(own):
    evaluation = '[evaluation]\nprotocol = "kiros"\ntransductive = true\ntasks = ["MR"]\nensemble = true\n'
    published = 'published = ["Q 1: MC-QT; BookCorpus+UMBC", "Q 2: MC-QT; BookCorpus+UMBC"]\n'
    settings = FIXED + "remove_component = true\n"
    recipe = own(HEAD + published + CORPUS + "sentences = 7\n" + settings + WORDS + "expand = true\n" + evaluation)
    assert (recipe.corpus.sentences, recipe.vectors.name, recipe.vectors.dim, recipe.vectors.expand) == (
        *(7, "GloVe", 300, True),
    )
    second = recipe.evaluation
    assert (second.protocol, second.transductive, second.tasks, second.ensemble) == ("kiros", True, ("MR",), True)
    assert recipe.figures["MR accuracy"].text == "82.4"
    assert recipe.figures["SST2 accuracy"].text == "87.6"
    assert recipe.channels == ("fixed", "trained")
    assert recipe.reads_vectors
    assert list(recipe.runs) == ["own"]
    assert recipe.representation["remove_component"]
    assert recipe.representation["transductive"]
    assert recipe.representation["pooling"] == "vector"


def test_members_of_the_same_seed_are_one_run(own):
    members = '{ recipe = "bi-qt", view = "seq" }, { recipe = "bi-qt" }, { recipe = "bi-qt", seed = 2 }'
    recipe = own(f'join = "average"\nmembers = [{members}]\n' + HEAD + CORPUS)
    assert [(name, each.name, seed) for name, (each, seed) in recipe.runs.items()] == [
        ("bi-qt", "bi-qt", 1),
        ("bi-qt-seed2", "bi-qt", 2),
    ]
    assert recipe.summary == "bi-qt:seq + bi-qt + bi-qt-seed2"
    assert recipe.reads_vectors  # to expand the vocabulary


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[source", "not TOML"),
        ("x = 1\n" + HEAD, "unknown key 'x': the keys are source, corpus,"),
        ("source = 3\n", "[source]: not a table"),
        (CORPUS + VIEWS, "[source]: the setting 'paper' is missing"),
        (HEAD + VIEWS, "[corpus]: the setting 'name' is missing"),
        (HEAD + "year = 3\n", "[source]: unknown setting 'year': the settings are paper,"),
        (HEAD + CORPUS + 'sentences = "many"\n', "[corpus]: sentences = 'many' is not of type whole number"),
        (HEAD.replace("Q", "Z") + CORPUS + VIEWS, "unknown paper 'Z': choose one of S, Q, M, F, C"),
        (HEAD + 'published = ["Q 1: MC-QT"]\n' + CORPUS + VIEWS, "unknown published row 'Q 1: MC-QT' (did you mean"),
        (HEAD + 'published = ["Q 17: MC-QT"]\n' + CORPUS + VIEWS, "unknown published row 'Q 17: MC-QT'"),
        (HEAD + CORPUS, "neither or both of [settings] and members"),
        ('members = [{ recipe = "bi-qt" }]\n' + HEAD + CORPUS + VIEWS, "neither or both of [settings] and members"),
        (HEAD + CORPUS + VIEWS + "seed = 3\n", "[settings] seed: not a recipe's"),
        (HEAD + CORPUS + FIXED, "fixed words need a table [vectors]"),
        (HEAD + CORPUS + VIEWS + WORDS, "[vectors]: nothing reads them"),
        (HEAD + CORPUS + FIXED.replace(', "trained"', "") + WORDS + "expand = true\n", "no channel of trained words"),
        (HEAD + CORPUS + VIEWS + "[evaluation]\ntransductive = true\n", "no component is removed"),
        ("members = 3\n" + HEAD + CORPUS, "members: not a list"),
        ("members = [3]\n" + HEAD + CORPUS, "members[0]: not a table"),
        ('members = [{ recipe = "x-qt" }]\n' + HEAD + CORPUS, "members[0]: unknown recipe 'x-qt' (did you mean"),
        ('members = [{ recipe = "bi-qt", sed = 2 }]\n' + HEAD + CORPUS, "members[0]: unknown setting 'sed'"),
        ('members = [{ recipe = "combine-qt" }]\n' + HEAD + CORPUS, "combine-qt is joined itself"),
        ('join = "sum"\nmembers = [{ recipe = "bi-qt" }]\n' + HEAD + CORPUS, "unknown join 'sum'"),
    ],
)
def test_a_wrong_file_is_one_line_with_its_name_and_a_remedy(own, text, message):
    with pytest.raises(InputError) as error:
        own(text)
    assert message in str(error.value)
    assert str(error.value).startswith(str(recipe_module.ROWS / "own.toml"))
    assert len(str(error.value).splitlines()) == 1


def test_a_wrong_training_setting_is_told_with_the_recipe(own):
    recipe = own(HEAD + CORPUS + VIEWS + "hiden = 3\n")
    with pytest.raises(InputError, match="recipe own: unknown setting 'hiden'"):
        recipe.config(corpus="x")
