"""The page in headless Chromium: type, switch the run, see trees; nothing goes wrong, nothing comes from elsewhere."""

import json
import re

import pytest
from browser import PATH, Browser

pytest.importorskip("fastapi", reason="needs structviews[serve]")
if not PATH:
    pytest.skip("there is no Chromium here", allow_module_level=True)

from structviews.serving.endpoints import create_app

SHOWN = "document.querySelector('#results').getAttribute('aria-busy') === 'false'"
TITLES = "[...document.querySelectorAll('#trees h3, #trees summary')].map(h => h.textContent)"
# The sentences of the first row of trees.
SENTENCES = (
    "[...document.querySelector('#trees .beside')?.querySelectorAll('figcaption') ?? []].map(c => c.textContent)"
)
SECTIONS = "[...document.querySelectorAll('#results > section')].filter(s => !s.hidden).map(s => s.id)"
DRAWN = "[...document.querySelectorAll('#trees img')].every(image => image.complete && image.naturalWidth > 50)"
VIEWS = "[...document.querySelectorAll('#similarity th')].map(h => h.textContent)"
COSINES = "[...document.querySelectorAll('#similarity td.number')].map(c => c.textContent)"
NEIGHBOURS = "[...document.querySelectorAll('#neighbours .text')].map(t => t.textContent)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture
def tab(browser):
    browser.errors.clear()
    browser.loaded.clear()
    browser.look(1200)
    return browser


@pytest.fixture
def url(served, listening):
    return "http://{}:{}/".format(*listening(create_app(served)))


@pytest.fixture
def page(tab, url):
    """A tab that shows the page."""
    tab.open(url)
    tab.wait(SHOWN)
    return tab


def test_type_switch_the_run_and_see_trees(page, url, served):
    assert page.evaluate("document.querySelector('#run').value") == "dep-const"
    assert page.evaluate(VIEWS) == ["dep", "const", "dep + const, joined"]
    page.type("#first", "One bird sings <b>.")
    page.type("#second", "One bird sings <b>.")
    page.wait(f"{SENTENCES}.every(words => words === 'One bird sings <b>.')")
    page.wait(SHOWN)
    assert page.evaluate(COSINES) == ["1.000"] * 3
    closer = page.evaluate("[...document.querySelectorAll('#similarity .closer')].map(c => c.textContent)")
    assert [re.fullmatch(r"closer than .* random pairs?", each) is None for each in closer] == [False] * 3
    page.wait(DRAWN)
    trees = ["Dependency tree, attention of dep", "Constituency tree", "Binarised, level by level"]
    assert page.evaluate(TITLES) == trees
    assert len(page.evaluate(SENTENCES)) == 2
    change = "run.value = 'seq-avg'; run.dispatchEvent(new Event('change', {bubbles: true}))"
    page.evaluate(f"(() => {{const run = document.querySelector('#run'); {change}}})()")
    page.wait(f"{VIEWS}.includes('seq') && {SHOWN}")
    page.wait(DRAWN)
    assert page.evaluate(TITLES) == ["Dependency tree", *trees[1:]]
    assert page.evaluate("document.querySelector('#attention').hidden")
    assert "16 dimensions, by the views seq, avg" in page.evaluate("document.querySelector('#about').textContent")
    page.type("#second", "two birds sing")
    page.wait(f"{COSINES}.every(cosine => cosine !== '1.000') && {SHOWN}")
    a, b = (each.joined for each in served[1].encode(["One bird sings <b>.", "two birds sing"]))
    expected = a @ b / (a @ a * (b @ b)) ** 0.5
    assert float(page.evaluate(COSINES)[2]) == pytest.approx(expected, abs=6e-4)
    assert len(page.evaluate(NEIGHBOURS)) == 4 + 3
    assert page.errors == []
    assert all(loaded.startswith((url, "data:image/svg+xml")) for loaded in page.loaded)


def test_an_error_is_shown_and_goes_away_when_it_is_fixed(page):
    page.type("#first", "stop")
    page.wait("document.querySelector('#status.wrong')?.textContent.includes('not parsed: says stop')")
    page.type("#first", "go on")
    page.wait(f"{SHOWN} && !document.querySelector('#status.wrong') && {SENTENCES}[0] === 'go on'")


def test_one_sentence_shows_its_trees_and_none_shows_nothing(page):
    assert page.evaluate(SECTIONS) == ["similarity", "neighbours", "trees"]
    page.type("#second", " ")
    assert page.evaluate(SECTIONS) == []  # at once: what was there was about two sentences
    page.wait(f"{SHOWN} && {SENTENCES}.length === 1")
    assert page.evaluate(SECTIONS) == ["neighbours", "trees"]
    page.wait(DRAWN)
    page.type("#first", " ")
    assert page.evaluate(SECTIONS) == []
    page.wait("document.querySelector('#status').textContent.startsWith('Type a sentence')")
    page.type("#second", "a bird")
    page.wait(f"{SHOWN} && {SENTENCES}[0] === 'a bird'")
    assert page.errors == []


LONG = " ".join(["The bird that sings on the tree sees the cat that sleeps"] * 4)
BOX = "document.querySelector('#trees .scroll')"


def test_a_wide_tree_on_a_narrow_screen_fades_where_it_goes_on_and_is_zoomed(tab, url):
    tab.look(390)
    tab.open(url)
    tab.wait(SHOWN)
    tab.type("#first", LONG)
    tab.wait(f"{SENTENCES}[0]?.length === {len(LONG)} && {SHOWN}")
    tab.wait(f"{BOX}.classList.contains('more-right')")
    assert not tab.evaluate(f"{BOX}.classList.contains('more-left')")
    assert tab.evaluate(f"{BOX}.tabIndex") == 0
    tab.evaluate(f"{BOX}.scrollLeft = 1e6")
    tab.wait(f"{BOX}.classList.contains('more-left') && !{BOX}.classList.contains('more-right')")
    drawn = f"{BOX}.querySelector('img').width"
    fitting = tab.evaluate(drawn)
    for button, larger in (("Larger", True), ("Fit", False), ("Smaller", False)):
        tab.evaluate(f"document.querySelector('#trees button[title={button}]').click()")
        assert (tab.evaluate(drawn) > fitting) == larger
    assert tab.evaluate(drawn) < fitting
    for key in "0+":
        tab.evaluate(f"{BOX}.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))")
    assert tab.evaluate(drawn) > fitting
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.errors == []


def test_a_warning_is_a_sentence_for_visitors_and_goes_away(page, served, monkeypatch):
    def warning(sentences):
        return "that is <i>not</i> English: train a run" if "le chat" in sentences else None

    monkeypatch.setattr(served[0], "warning", warning)
    shown = "[...document.querySelectorAll('#warning')].filter(w => !w.hidden).map(w => w.textContent)"
    assert page.evaluate(shown) == []
    for sentence, warnings in (("le chat", ["That is <i>not</i> English."]), ("the cat", [])):
        page.type("#first", sentence)
        page.wait(f"{SENTENCES}[0] === {sentence!r} && {SHOWN}")
        assert page.evaluate(shown) == warnings


def test_the_token_is_asked_for_once(tab, served, listening):
    url = "http://{}:{}/".format(*listening(create_app(served, token="sesame")))
    tab.open(url)
    tab.wait("!document.querySelector('#entry').hidden")
    for token in ("wrong", "sesame"):
        tab.type("#token", token)
        tab.evaluate("document.querySelector('#entry').requestSubmit()")
        tab.wait(f"document.querySelector('#entry').hidden === {json.dumps(token == 'sesame')}")
    tab.wait(SHOWN)
    tab.open(url + "?again")
    tab.wait(SHOWN)
    assert tab.evaluate("document.querySelector('#entry').hidden")
