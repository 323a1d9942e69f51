"""The page in headless Chromium: type, switch the run, see trees; nothing goes wrong, nothing comes from elsewhere."""

import json

import pytest
from browser import PATH, Browser

pytest.importorskip("fastapi", reason="needs structviews[serve]")
if not PATH:
    pytest.skip("there is no Chromium here", allow_module_level=True)

from structviews.serving.endpoints import create_app
from structviews.serving.served import ServedRun

SHOWN = "document.querySelector('#results').getAttribute('aria-busy') === 'false'"
HEADINGS = "[...document.querySelectorAll('#trees h3')].map(h => h.textContent)"
CAPTIONS = "[...document.querySelectorAll('#trees figcaption')].map(c => c.textContent)"
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
    assert tab.evaluate(VIEWS) == ["dep", "const", "dep + const"]
    tab.type("#first", "One bird sings <b>.")
    tab.type("#second", "One bird sings <b>.")
    tab.wait(f"{HEADINGS}.every(words => words.startsWith('One bird'))")
    tab.wait(SHOWN)
    assert tab.evaluate(COSINES) == ["1.000"] * 3
    tab.wait(DRAWN)
    trees = ["Dependency tree, attention of dep", "Constituency tree", "Binarised, level by level"]
    assert tab.evaluate(CAPTIONS) == trees * 2
    switch(tab, "seq-avg")
    tab.wait(f"{VIEWS}.includes('seq') && {SHOWN}")
    tab.wait(DRAWN)
    assert tab.evaluate(CAPTIONS) == ["Dependency tree", *trees[1:]] * 2
    assert tab.evaluate("document.querySelector('#attention').hidden")
    assert "seq, avg · 16 dimensions" in tab.evaluate("document.querySelector('#about').textContent")
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
    tab.wait(f"{SHOWN} && !document.querySelector('#status.wrong') && {HEADINGS}[0] === 'go on'")
    tab.type("#second", " ")
    tab.wait("document.querySelector('#status').textContent === 'Enter two sentences.'")


def test_the_last_that_was_typed_is_shown(tab, url):
    tab.open(url)
    tab.wait(SHOWN)
    for number in range(20):
        tab.type("#first", f"bird {number}")
        tab.evaluate("document.querySelector('#ask').requestSubmit()")
    tab.wait(f"{SHOWN} && {HEADINGS}[0] === 'bird 19'")
    assert tab.errors == []


def test_without_a_corpus_neighbours_are_left_out(tab, served, listening):
    run = served[0]
    tab.open("http://{}:{}/".format(*listening(create_app([ServedRun(run.name, run.embedder)]))))
    tab.wait(SHOWN)
    assert tab.evaluate("document.querySelector('#neighbours').hidden")
    assert tab.errors == []


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


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 390])
def test_nothing_sticks_out_of_the_page(tab, url, width, dark):
    tab.look(width, dark)
    tab.open(url)
    tab.wait(SHOWN)
    tab.wait(DRAWN)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    assert tab.errors == []
