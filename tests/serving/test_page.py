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


def switch(tab, run):
    change = "run.dispatchEvent(new Event('change', {bubbles: true}))"
    tab.evaluate(f"(() => {{const run = document.querySelector('#run'); run.value = {run!r}; {change}}})()")


def test_type_switch_the_run_and_see_trees(tab, url, embedders, served):
    tab.open(url)
    tab.wait(SHOWN)
    assert tab.evaluate("document.querySelector('#run').value") == "dep-const"
    assert tab.evaluate(VIEWS) == ["dep", "const", "dep + const, joined"]
    tab.type("#first", "One bird sings <b>.")
    tab.type("#second", "One bird sings <b>.")
    tab.wait(f"{SENTENCES}.every(words => words === 'One bird sings <b>.')")
    tab.wait(SHOWN)
    assert tab.evaluate(COSINES) == ["1.000"] * 3
    tab.wait(DRAWN)
    trees = ["Dependency tree, attention of dep", "Constituency tree", "Binarised, level by level"]
    assert tab.evaluate(TITLES) == trees
    assert len(tab.evaluate(SENTENCES)) == 2
    switch(tab, "seq-avg")
    tab.wait(f"{VIEWS}.includes('seq') && {SHOWN}")
    tab.wait(DRAWN)
    assert tab.evaluate(TITLES) == ["Dependency tree", *trees[1:]]
    assert tab.evaluate("document.querySelector('#attention').hidden")
    assert "16 numbers, by the views seq, avg" in tab.evaluate("document.querySelector('#about').textContent")
    tab.type("#second", "two birds sing")
    tab.wait(f"{COSINES}.every(cosine => cosine !== '1.000') && {SHOWN}")
    found = served[1].encode(["One bird sings <b>.", "two birds sing"])
    a, b = (each.joined for each in found)
    expected = a @ b / (a @ a * (b @ b)) ** 0.5
    assert float(tab.evaluate(COSINES)[2]) == pytest.approx(expected, abs=6e-4)
    assert len(tab.evaluate(NEIGHBOURS)) == 4 + 3
    assert tab.errors == []
    assert all(loaded.startswith((url, "data:image/svg+xml")) for loaded in tab.loaded)


def test_an_error_is_shown_and_goes_away_when_it_is_fixed(tab, url):
    tab.open(url)
    tab.wait(SHOWN)
    tab.type("#first", "stop")
    tab.wait("document.querySelector('#status.wrong')?.textContent.includes('not parsed: says stop')")
    tab.type("#first", "go on")
    tab.wait(f"{SHOWN} && !document.querySelector('#status.wrong') && {SENTENCES}[0] === 'go on'")


def test_one_sentence_shows_its_trees_and_none_shows_nothing(tab, url):
    tab.open(url)
    tab.wait(SHOWN)
    assert tab.evaluate(SECTIONS) == ["similarity", "neighbours", "trees"]
    tab.type("#second", " ")
    assert tab.evaluate(SECTIONS) == []  # at once: what was there was about two sentences
    tab.wait(f"{SHOWN} && {SENTENCES}.length === 1")
    assert tab.evaluate(SECTIONS) == ["neighbours", "trees"]
    tab.wait(DRAWN)
    tab.type("#first", " ")
    assert tab.evaluate(SECTIONS) == []
    tab.wait("document.querySelector('#status').textContent.startsWith('Type a sentence')")
    tab.type("#second", "a bird")
    tab.wait(f"{SHOWN} && {SENTENCES}[0] === 'a bird'")
    assert tab.errors == []


def test_a_cosine_is_compared_with_random_pairs(tab, url):
    tab.open(url)
    tab.wait(SHOWN)
    shown = tab.evaluate("[...document.querySelectorAll('#similarity .closer')].map(c => c.textContent)")
    assert len(shown) == 3
    assert all(re.fullmatch(r"closer than .* random pairs?", each) for each in shown)
    assert [tab.evaluate(f"closer({share})") for share in (0, 0.001, 0.334, 0.999, 1)] == [
        "closer than no random pair",
        "closer than hardly any random pair",
        "closer than 33 % of random pairs",
        "closer than nearly all random pairs",
        "closer than all random pairs",
    ]


LONG = " ".join(["The bird that sings on the tree sees the cat that sleeps"] * 4)
BOX = "document.querySelector('#trees .scroll')"


@pytest.mark.parametrize("width", [1200, 390])
def test_a_wide_tree_fades_where_it_goes_on_and_is_zoomed(tab, url, width):
    tab.look(width)
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
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.errors == []


def test_a_warning_is_a_sentence_for_visitors_and_goes_away(tab, url, served, monkeypatch):
    def warning(sentences):
        return "that is <i>not</i> English: train a run" if "le chat" in sentences else None

    monkeypatch.setattr(served[0], "warning", warning)
    tab.open(url)
    tab.wait(SHOWN)
    shown = "[...document.querySelectorAll('#warning')].filter(w => !w.hidden).map(w => w.textContent)"
    assert tab.evaluate(shown) == []
    tab.type("#first", "le chat")
    tab.wait(f"{SENTENCES}[0] === 'le chat' && {SHOWN}")
    assert tab.evaluate(shown) == ["That is <i>not</i> English."]
    tab.type("#first", "the cat")
    tab.wait(f"{SENTENCES}[0] === 'the cat' && {SHOWN}")
    assert tab.evaluate(shown) == []


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
