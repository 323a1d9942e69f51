"""Pages in a browser: nothing in the console, what is pointed at, keys and search, print."""

import json
import re
import shutil
import subprocess

import pytest

from structviews.evaluation.retrieval.candidates import Pool
from structviews.report.projection import draw_run

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
SECONDS = 120


def browse(page, tmp_path, script):
    """What a script has put into the title of a page, about which the console must say nothing."""
    copy = tmp_path / "copy.html"
    copy.write_text(page.read_text("utf-8").replace("</body>", f"<script>{script}</script></body>"), "utf-8")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--hide-scrollbars"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,900", "--dump-dom"]
    command = [BROWSER, *flags, "--virtual-time-budget=2000", copy.as_uri()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert [line for line in ended.stderr.splitlines() if "CONSOLE" in line] == []
    return json.loads(re.search(r"<title>(.*?)</title>", ended.stdout, flags=re.DOTALL)[1])


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


def test_what_is_pointed_at_is_said_and_shown_in_every_picture(page, tmp_path):
    hidden, said, rings, expected, after, next_one, hidden_again = browse(page, tmp_path, POINT)
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
  seen.texts = data.texts;
  document.title = JSON.stringify(seen);
})();
"""


def test_the_projection_is_played_with_by_keys_search_and_colours(trained, labels, tmp_path):
    out = tmp_path / "projection.html"
    draw_run(trained[1][0], Pool(trained[0]), out, labels=labels, most=50)
    found = browse(out, tmp_path, PLAY)
    assert found["empty"] == found["left"] == "Point at a sentence, tap it, or use the arrow keys."
    assert found["options"] == ["label", "document", "length in words"]
    assert found["first"] != found["second"]
    assert {found["first"], found["second"]} <= set(found["texts"])
    assert (found["zoomed"], found["whole"]) == (True, True)
    assert found["found"] == ["1 of 50 sentences", found["texts"][7], 1]
    assert found["pressed"] == ["true", "false", "false"]
    assert (found["scale"], found["printed"], found["same"]) == (1, True, True)


SHOWN = """
const shown = (selector) => [...document.querySelectorAll(selector)].every((each) => each.checkVisibility(
  {contentVisibilityAuto: true, visibilityProperty: true}) && each.getBoundingClientRect().height > 0);
document.title = JSON.stringify([shown("#published table"), shown("#scores > .wide table")]);
"""


def test_on_paper_everything_is_unfolded(page, tmp_path):
    """The rules for print, applied to the screen."""
    paper = tmp_path / "paper.html"
    paper.write_text(page.read_text("utf-8").replace("@media print", "@media screen"), "utf-8")
    assert browse(page, tmp_path, SHOWN) == [False, True]
    assert browse(paper, tmp_path, SHOWN) == [True, True]
