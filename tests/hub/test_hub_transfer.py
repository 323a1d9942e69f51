"""Runs to and from a folder that stands for the Hub."""

import re
import shutil
from fnmatch import fnmatch
from types import SimpleNamespace

import numpy as np
import pytest
from corpora import RandomParser, small_config
from rich.console import Console
from safetensors.numpy import load_file

from structviews.encoding.embedder import Embedder
from structviews.encoding.expansion import expand
from structviews.encoding.kinds.joined import join_runs
from structviews.errors import InputError
from structviews.evaluation.scores.results import save_results
from structviews.hub.transfer import pull, push
from structviews.runs.folder import model_checksum
from structviews.runs.settings_file import read_settings, write_settings
from structviews.runs.weights import save_vocabularies
from structviews.runtime.documents import read_sealed
from structviews.runtime.seals import write_arrays
from structviews.training.baselines import make_baseline
from structviews.training.loop import train
from structviews.words.vocabulary import Vocabulary

hub = pytest.importorskip("huggingface_hub", reason="needs structviews[hub]")
hub_errors = pytest.importorskip("huggingface_hub.errors")
pytest.importorskip("jinja2", reason="needs structviews[hub]")

TEXTS = ["A bird sings.", "The dead tree"]
COMMITS = {None: "c0ffee", "v1": "decade"}
"""The commit of each revision."""


@pytest.fixture(scope="module")
def trained(corpus):
    run = train(small_config(corpus, corpus.parent / "dep-const", epochs=1))
    task = {"scores": {"accuracy": 81.5}, "partial": {}, "dim": 16}
    others = {"TREC": task | {"scores": {"accuracy": 70.0}}, "STS14": task | {"scores": {"pearson mean": 0.5}}}
    tasks = {"MR": task, **others, "SUBJ": task | {"partial": {"test": 1}}}
    results = {"format": 1, "dim": 16, "representation": "vector", "protocol": {"name": "senteval"}}
    save_results(run, results | {"tasks": tasks, "unavailable": {"CR": f"{corpus.parent}/CR: no such file"}})
    (run / "notes.py").write_text("print('mine')")
    return run


@pytest.fixture(scope="module")
def joined(corpus, trained):
    encoders = {"views": ["avg", "seq"], "hidden": 8}
    other = make_baseline("random", corpus, corpus.parent / "random", None, encoders, Console(quiet=True))
    first = join_runs([trained, other], corpus.parent / "joined")
    return join_runs([first, other], corpus.parent / "joined-twice", "concatenation")


class Folder:
    """What ``HfApi`` does with the Hub, done with a folder."""

    root = None

    def __init__(self, **options):
        assert options == {"library_name": "structviews"}

    def create_repo(self, repo, *, private, exist_ok):
        assert exist_ok
        (self.root / repo).mkdir(parents=True, exist_ok=True)
        (self.root / f"{repo.replace('/', '-')}.private").write_text(str(private))
        return SimpleNamespace(repo_id=repo)

    def upload_folder(self, *, repo_id, folder_path, commit_message, delete_patterns):
        target = self.root / repo_id
        for path in list(target.rglob("*")):
            if path.is_file() and any(fnmatch(str(path.relative_to(target)), each) for each in delete_patterns):
                path.unlink()
        shutil.copytree(folder_path, target, dirs_exist_ok=True)
        return SimpleNamespace(commit_url=f"hub/{repo_id}: {commit_message}")

    def model_info(self, repo, *, revision):
        return SimpleNamespace(sha=COMMITS[revision])

    def snapshot_download(self, repo, *, revision, local_dir, allow_patterns):
        source = self.root / repo
        assert revision in COMMITS.values()
        (local_dir / ".cache" / "huggingface").mkdir(parents=True)
        for path in source.rglob("*"):
            name = path.relative_to(source)
            if not path.is_dir() and any(fnmatch(str(name), each) for each in allow_patterns):
                (local_dir / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, local_dir / name, follow_symlinks=False)


@pytest.fixture
def remote(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_none")
    monkeypatch.setattr(Folder, "root", tmp_path / "hub")
    monkeypatch.setattr(hub, "HfApi", Folder)
    return tmp_path / "hub"


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


TRAINED_FILES = ["components.safetensors", "config.toml", "model.safetensors", "words.safetensors"]


def test_a_run_comes_back_without_code_of_others(remote, trained, tmp_path):
    pushed = push(trained, "me/dep-const")
    assert pushed.url == "hub/me/dep-const: Push dep-const"
    sent = ["README.md", *TRAINED_FILES[:3], "results.json", TRAINED_FILES[3]]
    assert names(remote / "me/dep-const") == sent
    for path in (remote / "me/dep-const").iterdir():
        assert str(trained.parent).encode() not in path.read_bytes()
    for name in ("structviews.py", "pytorch_model.bin", "members/0/evil.py", "expansion.safetensors"):
        (remote / "me/dep-const" / name).parent.mkdir(exist_ok=True, parents=True)
        (remote / "me/dep-const" / name).write_text("raise SystemExit")
    assert pull("me/dep-const", tmp_path / "again") == tmp_path / "again"
    assert names(tmp_path / "again") == sorted(["pulled.json", *sent])
    assert model_checksum(tmp_path / "again") == model_checksum(trained)
    before, after = (Embedder.load(run, RandomParser()) for run in (trained, tmp_path / "again"))
    np.testing.assert_array_equal(after.encode(TEXTS), before.encode(TEXTS))
    assert after.parsers == before.parsers


def test_no_path_of_this_machine_and_no_scores_of_other_weights_go(remote, trained, tmp_path):
    run = shutil.copytree(trained, tmp_path / "dep-const")
    settings = read_settings(run)
    settings["parsed"]["parser"]["name"] = "spacy:/home/me/a+benepar:../b"
    write_settings(run, settings)
    tensors = load_file(run / "model.safetensors")
    write_arrays(run / "model.safetensors", {name: each + 1 for name, each in tensors.items()})
    pushed = push(run, "me/x")
    assert pushed.notes == [f"{run}/results.json: left out, as its scores are of other weights"]
    assert "Not evaluated yet" in pushed.card
    assert names(remote / "me/x") == ["README.md", *TRAINED_FILES]
    found = read_settings(remote / "me/x")
    assert (found["data"]["corpus"], found["data"]["out"]) == ("x.parsed", "dep-const")
    settings["parsed"]["parser"]["name"] = "spacy:a+benepar:b"
    assert found["parsed"] == settings["parsed"]
    assert pull("me/x", tmp_path / "y").exists()


def test_a_join_of_joins_comes_back_and_goes_when_a_run_takes_its_place(remote, trained, joined, tmp_path):
    push(joined, "me/joined")
    pull("me/joined", tmp_path / "again")
    first = [f"members/0-joined/members/{name}" for name in ("0-dep-const", "1-random")]
    expected = [f"{folder}/{name}" for folder in (*first, "members/1-random") for name in TRAINED_FILES]
    own = ["README.md", "config.toml", "pulled.json", "members/0-joined/config.toml"]
    assert names(tmp_path / "again") == sorted([*own, *expected])
    before, after = (Embedder.load(run, RandomParser()) for run in (joined, tmp_path / "again"))
    np.testing.assert_array_equal(after.encode(TEXTS), before.encode(TEXTS))
    (remote / "me/joined/mine.csv").write_text("1")
    push(trained, "me/joined")
    assert names(remote / "me/joined") == sorted(["README.md", "mine.csv", "results.json", *TRAINED_FILES])


def test_the_card(trained, remote):
    card = push(trained, "me/dep-const", licence="cc-by-4.0").card
    assert card == (remote / "me/dep-const" / "README.md").read_text()
    header = hub.ModelCard(card).data
    assert (header.library_name, header.license, header.language) == ("structviews", "cc-by-4.0", ["en"])
    assert {"structviews", "dep", "const"} <= set(header.tags)
    found = {(each.dataset_name, each.metric_type): each.metric_value for each in header.eval_results}
    whole = {("MR", "accuracy"): 81.5, ("TREC", "accuracy"): 70.0, ("STS14", "pearson mean"): 50.0}
    assert found == whole  # SUBJ is of a part of the task
    for text in (
        "structviews pull me/dep-const -o dep-const",
        "| dep-const | dep,const | 16 | 81.5 | 81.5* | 70.0 | 50.0 |",
        "corpus: `x.parsed`",
        "trees: random 1",
        "lr = 0.02",
    ):
        assert text in card
    assert "No licence" not in card
    assert "bundled" not in card
    assert not re.search(r"\{[{%]|[%}]\}|\n\n\n", card)


def test_the_card_of_joined_and_random_runs(joined, corpus, remote):
    card = push(joined, "me/joined", dry_run=True).card
    assert "several runs, joined" in card
    assert "**0-dep-const**" in card
    assert "Not evaluated yet" in card
    assert "No licence is given" in card
    assert hub.ModelCard(card).data.license is None
    assert "**not trained**" in push(corpus.parent / "random", "me/random", dry_run=True).card
    assert not remote.exists()


HOSTILE = "x](javascript:alert(1)) | `a`` ```\n# <b>&amp; *_~$\u202e"


def test_names_in_the_card_are_shown_as_they_are(trained, remote, tmp_path):
    run = shutil.copytree(trained, tmp_path / HOSTILE.replace("/", ""))
    settings = read_settings(run)
    settings["data"]["corpus"] = HOSTILE
    settings["parsed"]["parser"]["name"] = settings["parsed"]["tokeniser"]["name"] = HOSTILE
    write_settings(run, settings)
    card = push(run, "me/x").card
    shown = HOSTILE.replace("\n", "\\n").replace("\u202e", "\\u202e")
    escaped = re.sub(r"[\\`*_\[\]<>|~&$]", r"\\\g<0>", shown)
    assert f"- corpus: ````{shown}````, fingerprint" in card
    assert f"- trees: {escaped} 1; words: {escaped}" in card
    assert "\n````toml\n" in card
    assert card.endswith("\n````\n")
    assert not re.search(r"(?m)^# <b>|\u202e", card)
    assert read_settings(remote / "me/x")["data"]["corpus"] == HOSTILE


def test_a_file_of_word_vectors_stays(corpus, vectors, remote, tmp_path):
    """Another machine has the words of the corpus, is told of the others, and can be given the file."""
    settings = {"channels": ("fixed",), "vectors": str(vectors), "steps": 1}
    run = train(small_config(corpus, tmp_path / "run", ("seq", "avg"), **settings))
    (note,) = push(run, "me/x").notes
    assert note.startswith(f"{run}: its word vectors, v.vec, are left out: without them it knows its training words")
    pulled = pull("me/x", tmp_path / "pulled")
    sentences = [["elsewhere"], ["zzz"], ["the", "nowhere"]]
    (tmp_path / "larger.vec").write_text("elsewhere 1 1 1 1 1 1\n" + vectors.read_text())
    with pytest.warns(UserWarning, match=r"pulled: words outside its vocabulary are unknown, .* v\.vec is not there"):
        before = Embedder.load(pulled).encode(sentences)
    np.testing.assert_array_equal(before[0], before[1])
    expand(pulled, tmp_path / "larger.vec")
    after = Embedder.load(pulled).encode(sentences)
    assert np.abs(after[0] - before[0]).max() > 1e-3
    np.testing.assert_allclose(after[1:], before[1:], atol=1e-6)
    settings = read_settings(pulled)
    settings["words"]["vectors"] = r"C:\v.vec"
    write_settings(remote / "me/x", settings)
    with pytest.raises(InputError, match=r"config\.toml: refers to a local file .*v\.vec'\): ask its owner to"):
        pull("me/x", tmp_path / "again")


def test_what_is_not_whole_in_its_folder_is_not_pushed(corpus, vectors, trained, remote, tmp_path):
    average = make_baseline("average", corpus, tmp_path / "average", vectors, None, Console(quiet=True))
    for run in (average, join_runs([trained, average], tmp_path / "joined")):
        with pytest.raises(InputError, match="a run of kind 'baseline' reads a file outside its folder"):
            push(run, "me/x")
    with pytest.raises(InputError, match="not a run"):
        push(tmp_path, "me/x")
    assert not remote.exists()


def damaged(before, after):
    def damage(repo):
        path = repo / "config.toml"
        path.write_text(path.read_text().replace(before, after))

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda repo: (repo / "config.toml").unlink(), "not a run"),
        (lambda repo: (repo / "model.safetensors").unlink(), "model.safetensors: no such file"),
        (lambda repo: (repo / "model.safetensors").write_bytes(b"\x80\x04pickled"), "model.safetensors: damaged"),
        (lambda repo: save_vocabularies(repo, {"trained": Vocabulary(["<unk>"])}), "not the weights of this run"),
        (lambda repo: (repo / "words.safetensors").write_text("<unk>\n"), "words.safetensors: damaged"),
        (damaged('"const"]', '"deep"]'), "unknown view 'deep'"),
        (damaged("[data]", 'kind = "baseline"\n[data]'), "a run of kind 'baseline' reads a file"),
        (damaged('models = ""', 'models = "/home/me"'), "refers to a local folder of parser models"),
        (damaged('name = "random"', "name = 'builtin+benepar:a/b'"), "to a local file"),
        (damaged('name = "random"', r"name = 'spacy:C:\x'"), "to a local file"),
        (damaged('name = "random"', 'name = "random"\nlanguage = "../x"'), "to a local file ('random', '../x'): ask"),
        (damaged("[data]", 'kind = "joined"\nmembers = ["../../.."]\n[data]'), "not folder names"),
        (lambda repo: (repo / "sources.tsv").symlink_to("/etc/passwd"), "sources.tsv: does not belong to a run"),
    ],
)
def test_what_arrives_is_looked_at(trained, remote, tmp_path, damage, message, one_line):
    push(trained, "me/x")
    damage(remote / "me/x")
    with one_line(re.escape(message)) as error:
        pull("me/x", tmp_path / "y")
    assert str(error.value).startswith("me/x: this repository does not hold a valid run: ")
    assert str(tmp_path) not in str(error.value)
    assert not list(tmp_path.glob("*y*"))


def refusal(kind, status=400, message="no reason"):
    response = SimpleNamespace(headers={}, request=None, status_code=status)
    return kind(message, response=response, server_message=message)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (refusal(hub_errors.RepositoryNotFoundError, 404), "me/x: no such repository, or no access to it"),
        (refusal(hub_errors.RevisionNotFoundError, 404), "me/x: no such --revision: give a branch, a tag or a commit"),
        (refusal(hub_errors.HfHubHTTPError, 403, "You may not\nwrite"), "refused the request (403, You may not): log"),
        (refusal(hub_errors.HfHubHTTPError, 500, "Busy."), "refused the request (500, Busy): try again later"),
        (hub_errors.HTTPError("[Errno 111] refused"), "the Hub cannot be reached ([Errno 111] refused): check the net"),
        (hub_errors.LocalEntryNotFoundError("Offline."), "the Hub cannot be reached (Offline): check the network"),
    ],
)
def test_errors_of_the_hub_are_one_line(trained, remote, tmp_path, monkeypatch, error, message, one_line):
    def fails(*arguments, **options):
        raise error

    monkeypatch.setattr(Folder, "create_repo", fails)
    monkeypatch.setattr(Folder, "model_info", fails)
    for call in (lambda: push(trained, "me/x"), lambda: pull("me/x", tmp_path / "y")):
        with one_line(re.escape(message)):
            call()
    assert not list(tmp_path.glob("*y*"))


def test_names_that_no_repository_has_and_no_token(trained, remote, monkeypatch):
    for call in (lambda: push(trained, "a/b/c", dry_run=True), lambda: pull("../x")):
        with pytest.raises(InputError, match="not a repository name: give OWNER/NAME"):
            call()
    monkeypatch.setattr(hub, "get_token", lambda: None)
    with pytest.raises(InputError, match="no token for the Hugging Face Hub: log in with `hf auth login`, or set HF"):
        push(trained, "me/x")


def test_the_commands(trained, remote, command, tmp_path):
    code, output, errors = command("push", trained, "me/x", "--dry-run", "--licence", "mit")
    assert (code, "license: mit" in output) == (0, True)
    *files, last = errors.splitlines()
    assert last == "nothing was uploaded"
    assert [line.split()[-1] for line in files] == [*TRAINED_FILES[:3], "results.json", TRAINED_FILES[3]]
    assert not remote.exists()
    assert command("push", trained, "me/x", "--private") == (0, "hub/me/x: Push dep-const\n", "")
    assert (remote / "me-x.private").read_text() == "True"
    assert command("pull", "me/x", "--revision", "v1") == (0, "runs/x\n", "")
    pulled = tmp_path / "runs/x"
    record = read_sealed(pulled / "pulled.json", dict[str, str], "")
    assert (record["repository"], record["commit"]) == ("me/x", "decade")
    already = "error: runs/x: already exists: give another folder with --out\n"
    assert command("pull", "me/x") == (2, "", already)
    assert push(pulled, "me/again").notes == []
    assert names(remote / "me/again") == names(remote / "me/x")
    with pytest.raises(InputError, match="--revision v1: bundled models have no revisions"):
        pull("default", tmp_path / "z", revision="v1")
