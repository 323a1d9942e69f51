"""Pages in a browser: nothing in the console, hover, legends, and what fits on a phone."""

import json
import re
import shutil
import subprocess

import pytest

from structviews.evaluation.retrieval.candidates import Pool
from structviews.report.page import write_report
from structviews.report.projection import draw_run

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
SECONDS = 120


def browse(page, tmp_path, script, size=(1200, 900)):
    """What a script has put into the title of a page, about which the console must say nothing."""
    copy = tmp_path / "copy.html"
    copy.write_text(page.read_text("utf-8").replace("</body>", f"<script>{script}</script></body>"), "utf-8")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--hide-scrollbars"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={size[0]},{size[1]}", "--dump-dom"]
    command = [BROWSER, *flags, "--virtual-time-budget=2000", copy.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert [line for line in ended.stderr.splitlines() if "CONSOLE" in line] == []
    return json.loads(re.search(r"<title>(.*?)</title>", ended.stdout, flags=re.DOTALL)[1])


@pytest.fixture(scope="module")
def pages(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    corpus, runs = trained
    labels = folder / "labels"
    labels.write_text("".join(f"kind {i % 2}\n" for i in range(96)))
    write_report(runs, folder / "report.html", labels=labels)
    draw_run(runs[0], Pool(corpus), folder / "projection.html", labels=labels, most=50)
    return folder


POINT = """
const svg = document.querySelector(".cloud svg"), use = svg.querySelectorAll(".points use")[20];
svg.scrollIntoView();
const at = new DOMPoint(use.x.baseVal.value, use.y.baseVal.value).matrixTransform(svg.getScreenCTM());
svg.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: at.x, clientY: at.y}));
const tip = document.getElementById("tip"), data = JSON.parse(document.getElementById("points").textContent);
const row = data.order[20];
const shown = [...document.querySelectorAll(".ring")].map((ring) => ring.getAttribute("visibility"));
const before = [tip.hidden, tip.textContent, shown];
const box = document.querySelector(".cloud");
box.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));
const after = tip.textContent;
box.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}));
const next = (row + 1) % data.texts.length;
document.title = JSON.stringify([...before, data.labels[row] + data.texts[row], after,
  data.labels[next] + data.texts[next], tip.hidden]);
"""


def test_what_is_pointed_at_is_said_and_shown_in_every_picture(pages, tmp_path):
    found = browse(pages / "report.html", tmp_path, POINT)
    hidden, said, rings, expected, after, next_one, hidden_again = found
    assert (hidden, said, rings) == (False, expected, ["visible"] * 2)
    assert after == next_one
    assert hidden_again


# There are no frames to wait for in a browser that only dumps a page.
PLAY = """
window.requestAnimationFrame = (step) => setTimeout(step);
window.cancelAnimationFrame = clearTimeout;
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const plot = $("plot"), said = () => $("sentence").firstElementChild.textContent;
const key = (key) => plot.dispatchEvent(new KeyboardEvent("keydown", {key}));
const pixels = () => plot.toDataURL();
const after = (steps) => new Promise((done) => setTimeout(() => done(steps()), 100));
(async () => {
  const seen = {empty: said(), options: [...$("colour").options].map((each) => each.text)};
  key("ArrowRight");
  seen.first = said();
  key("ArrowDown");
  seen.second = said();
  const whole = await after(pixels);
  key("+");
  seen.zoomed = await after(() => pixels() !== whole && plot.classList.contains("zoomed"));
  key("0");
  seen.whole = await after(() => pixels() === whole);
  key("Escape");
  seen.left = said();
  $("search").value = data.texts[7].toUpperCase();
  $("search").dispatchEvent(new Event("input"));
  $("tools").requestSubmit();
  seen.found = [$("found").textContent, said(), $("hits").children.length];
  $("search").value = "";
  $("search").dispatchEvent(new Event("input"));
  $("legend").querySelector("button").click();
  seen.pressed = [...$("legend").querySelectorAll("button")].map((each) => each.getAttribute("aria-pressed"));
  $("colour").selectedIndex = 2;
  $("colour").dispatchEvent(new Event("change"));
  seen.scale = $("legend").querySelectorAll(".scale").length;
  const light = await after(pixels);
  dispatchEvent(new Event("beforeprint"));
  seen.printed = document.documentElement.classList.contains("printed");
  dispatchEvent(new Event("afterprint"));
  seen.same = await after(() => pixels() === light);
  seen.seven = data.texts[7];
  seen.texts = data.texts;
  document.title = JSON.stringify(seen);
})();
"""


def test_the_projection_is_played_with_by_keys_search_and_colours(pages, tmp_path):
    found = browse(pages / "projection.html", tmp_path, PLAY)
    assert found["empty"] == found["left"] == "Point at a sentence, tap it, or use the arrow keys."
    assert found["options"] == ["label", "document", "length in words"]
    assert found["first"] != found["second"]
    assert {found["first"], found["second"]} <= set(found["texts"])
    assert (found["zoomed"], found["whole"]) == (True, True)
    assert found["found"] == ["1 of 50 sentences", found["seven"], 1]
    assert found["pressed"] == ["true", "false"]
    assert (found["scale"], found["printed"], found["same"]) == (1, True, True)


LEGEND = """
const button = document.querySelector("#curves .legend button");
button.click();
const dim = [...document.querySelectorAll("#curves .series")].map((each) => [each.classList.contains("s0"),
  each.classList.contains("dim")]);
const pressed = button.getAttribute("aria-pressed");
button.click();
document.title = JSON.stringify([pressed, dim, document.querySelectorAll(".dim").length]);
"""


def test_a_name_in_the_legend_lets_its_curves_stand_out(pages, tmp_path):
    pressed, dim, left = browse(pages / "report.html", tmp_path, LEGEND)
    assert pressed == "true"
    assert {tuple(each) for each in dim} == {(True, False), (False, True)}
    assert left == 0


WIDTH = "document.title = JSON.stringify(document.documentElement.scrollWidth - innerWidth);"


@pytest.mark.parametrize("name", ["report.html", "projection.html"])
def test_a_phone_scrolls_down_but_not_sideways(pages, tmp_path, name):
    assert browse(pages / name, tmp_path, WIDTH, size=(500, 900)) <= 0


SHOWN = """
const shown = (selector) => [...document.querySelectorAll(selector)].every((each) => each.checkVisibility(
  {contentVisibilityAuto: true, visibilityProperty: true}) && each.getBoundingClientRect().height > 0);
document.title = JSON.stringify([shown("#published table"), shown("#scores > .wide table")]);
"""


def test_on_paper_everything_is_unfolded(pages, tmp_path):
    """The rules for print, applied to the screen."""
    paper = tmp_path / "paper.html"
    paper.write_text((pages / "report.html").read_text("utf-8").replace("@media print", "@media screen"), "utf-8")
    assert browse(pages / "report.html", tmp_path, SHOWN) == [False, True]
    assert browse(paper, tmp_path, SHOWN) == [True, True]
