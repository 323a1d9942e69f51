"""The pages on views, cells, objectives and tasks of one's own: each example is installed as a package, and used."""

import json
import os
import re
import subprocess
import sys
import tomllib

import pytest
from code_blocks import ROOT
from corpora import small_config, topic_corpus

from structviews.training.loop import train

PAGES = {
    "docs/views/your-own.md": "views",
    "docs/views/your-own-cell.md": "cell",
    "docs/objectives/your-own.md": "objective",
    "docs/evaluation/your-own-task.md": "",
}
FILE = re.compile(r"<!-- file: (\S+) -->\n\n```\w+\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"<!-- not commands: tests/docs/test_plugins.py .*?-->\n\n((?:    .*\n)+)")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A corpus, a text, a run, and tasks with a handful of examples."""
    folder = tmp_path_factory.mktemp("plugins")
    train(small_config(topic_corpus(folder / "corpus.parsed"), folder / "runs/dep-const", ("bow", "avg"), steps=1))
    (folder / "novel.txt").write_text("\n".join((ROOT / "data/corpus.txt").read_text().splitlines()[:80]) + "\n")
    (folder / "senteval").symlink_to(ROOT / "data/senteval")
    (folder / "tasks/QUESTIONS").mkdir(parents=True)
    asked = [f"{'yes' if i % 2 else 'no'}\t{'is' if i % 2 else 'it'} a bird {i}" for i in range(60)]
    (folder / "tasks/QUESTIONS/all.tsv").write_text("\n".join(asked) + "\n")
    return folder


def installed(page, folder):
    """The folder into which pip has installed the package of a page."""
    files = dict(FILE.findall((ROOT / page).read_text("utf-8")))
    for name, content in files.items():
        (folder / "package" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "package" / name).write_text(content)
        assert len(content.splitlines()) <= 40, f"{page}: {name} has over 40 lines"
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--target", folder / "site"]
    subprocess.run([sys.executable, "-m", "pip", *install, folder / "package"], check=True, capture_output=True)
    return folder / "site"


def structviews(words, folder, site):
    environment = os.environ | {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    command = [sys.executable, "-m", "structviews", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.slow
def test_an_example_works_as_a_package_of_its_own(page, place, tmp_path):
    site = installed(page, tmp_path)
    (listed,) = COMMANDS.findall((ROOT / page).read_text("utf-8"))
    outputs = {}
    for line in listed.splitlines():
        words = line.split()[1:]
        ended = structviews(words, place, site)
        assert ended.returncode == 0, ended.stderr
        assert "warning" not in ended.stderr.replace(
            "warning: the held-out loss is no better than chance", ""
        )  # from so little text
        outputs[words[0]] = ended.stdout
    table = PAGES[page]
    if table == "cell":
        resumed = structviews(["train", "--resume", "runs/dep-mgu-bow", "--epochs", "2"], place, site)
        assert resumed.returncode == 0, resumed.stderr
        assert "STS13" in outputs["table"]
    elif table:
        (flag,) = re.findall(r"--(power|margin) ", listed)
        assert f"--{flag}" in structviews(["train", "--help-all"], place, site).stdout
        run = place / next(word for word in listed.split() if word.startswith("runs/"))
        settings = tomllib.loads((run / "config.toml").read_text())[table]
        name = "gem" if table == "views" else "triplet"
        assert settings[name] == {flag: float(re.search(rf"--{flag} (\S+)", listed)[1])}
        assert "STS13" in outputs["table"]
    else:
        results = json.loads((place / "runs/dep-const/results.json").read_text())
        assert results["tasks"]["QUESTIONS"]["examples"] == {"all": 60}
        assert "QUESTIONS" in outputs["table"]


BROKEN = {
    "raises": ("raise RuntimeError('no such thing')", "RuntimeError: no such thing"),
    "taken": (
        "from structviews.views import VIEWS\nVIEWS.register('bow')(type('Bow', (), {}))",
        "the view 'bow' is already registered",
    ),
}


def test_plug_ins_that_fail_are_one_line_each_and_the_rest_works(place, tmp_path):
    for name, (content, _) in BROKEN.items():
        metadata = tmp_path / f"{name}-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(f"[structviews.views]\nbad-{name} = {name}_view\n")
        (tmp_path / f"{name}_view.py").write_text(content + "\n")
    words = "train --views bow,avg --corpus corpus.parsed --hidden 8 --word-dim 8 --steps 1 --out runs/broken"
    ended = structviews(words.split(), place, tmp_path)
    assert ended.returncode == 0, ended.stderr
    warnings = sorted(line for line in ended.stderr.splitlines() if line.startswith("warning: ") and "bad-" in line)
    for warning, (name, (_, message)) in zip(warnings, BROKEN.items(), strict=True):
        assert f"'bad-{name}' of {name}" in warning
        assert message in warning
