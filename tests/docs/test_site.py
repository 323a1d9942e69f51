"""The site that mkdocs.yml makes of README.md and docs/: whole, linked, and drawn without a network."""

import os
import re
import subprocess
import sys

import pytest
from code_blocks import ROOT
from scripts_for_tests import load

from structviews.objectives import OBJECTIVES
from structviews.views import VIEWS

pytest.importorskip("material")
pytest.importorskip("mkdocstrings")
pytest.importorskip("latex2mathml")

# What a browser fetches by itself; links that a reader may follow are not among it.
FETCHED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=["']?([^"' >]+)""")
ELSEWHERE = re.compile(r"^(?:[a-z]+:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site; a link or an anchor that leads nowhere, or a page that is not in the navigation, ends the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_nothing_is_fetched_from_elsewhere(site):
    fetched = {
        address for page in site.rglob("*.html") for address in FETCHED.findall(page.read_text(encoding="utf-8"))
    }
    assert any(address.endswith(".js") for address in fetched)
    assert [address for address in fetched if ELSEWHERE.match(address)] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(?:https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet


def test_every_view_and_objective_has_a_page_with_formula_and_drawing(site):
    for name in (*(f"views/{view}" for view in VIEWS), *(f"objectives/{objective}" for objective in OBJECTIVES)):
        page = (site / name / "index.html").read_text(encoding="utf-8")
        assert '<div class="formula"><math' in page, name
        drawings = re.findall(r'src="([^"]+\.svg)"', page)
        assert drawings, name
        for drawing in drawings:
            assert "prefers-color-scheme: dark" in (site / name / drawing).resolve().read_text(encoding="utf-8")


def test_a_formula_that_is_not_understood_ends_the_build(monkeypatch):
    hooks = load("site_hooks", monkeypatch)
    assert "<msub>" in hooks.on_page_content('<span class="arithmatex">\\(x_i\\)</span>')
    for formula in (r"\nosuch{x}", r"\begin{aligned} a &amp;= b \end{aligned}"):
        with pytest.raises(hooks.PluginError, match="not all of this formula"):
            hooks.on_page_content(f'<span class="arithmatex">\\({formula}\\)</span>')


def test_a_screen_reader_finds_names_where_the_theme_has_none(site):
    """As axe-core asks; no table has an empty heading, and the search has a name."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<th[^>]*></th>", text), page
        assert re.search(r'<div[^>]*\baria-label="Search"[^>]*\brole="dialog"', text), page
        assert "arithmatex" not in text, f"{page}: a formula is left as it was typed"
