"""Every page says at its top what it is for, the front page begins with code that is true, and pictures are small."""

import hashlib
import re
import runpy

from code_blocks import ROOT, blocks_of, pages

PAGES = [*pages(), "CONTRIBUTING.md", "CHANGELOG.md", "data/README.md"]
# A page says what it does; those of views and objectives, what these are.
PURPOSE = re.compile(r"This (?:page|folder) |The `[a-z-]+` (?:view|objective)\b|Sentence embeddings")


def test_a_page_begins_with_a_heading_and_what_it_is_for():
    for page in PAGES:
        heading, first, *_ = (ROOT / page).read_text("utf-8").split("\n\n")
        assert re.fullmatch(r"# \S.*", heading), page
        assert PURPOSE.match(first), f"{page}: {first}"
        assert first.rstrip().endswith((".", ":")), f"{page}: {first}"


def test_the_front_page_begins_with_a_search_and_what_it_finds(capsys, monkeypatch):
    code = blocks_of("README.md")[0]
    assert code.python
    assert len([line for line in code.text.splitlines() if line]) == 5
    before, after = (ROOT / "README.md").read_text("utf-8").split(f"```python\n{code.text}```\n\n")
    assert len(before.splitlines()) < 8
    monkeypatch.chdir(ROOT)
    exec(compile(code.text, "README.md", "exec"), {})
    shown = "\n".join(line.removeprefix("    ") for line in after.split("\n\n")[0].splitlines())
    assert capsys.readouterr().out.strip() == shown


def test_pictures_are_small_ask_for_nothing_and_are_shown():
    texts = [(ROOT / page).read_text("utf-8") for page in pages()]
    for picture in sorted((ROOT / "docs/images").iterdir()):
        assert picture.stat().st_size < 150_000, picture
        assert any(f"images/{picture.name})" in text for text in texts), picture
        if picture.suffix == ".svg":
            assert not re.search(r"@import|(?:url\(|href=)[\"']?(?![\"'#])", picture.read_text("utf-8")), picture


def test_pictures_show_the_bundled_model():
    weights = hashlib.sha256((ROOT / "structviews/models/default/model.safetensors").read_bytes()).hexdigest()
    for picture in (ROOT / "docs/images").glob("terminal-*.svg"):
        assert f'data-model="{weights}"' in picture.read_text("utf-8"), f"{picture}: run scripts/docs_pictures.py"


def test_settings_are_described_as_they_are_declared():
    made = runpy.run_path(str(ROOT / "scripts/settings_page.py"))["page"]()
    assert (ROOT / "docs/settings.md").read_text("utf-8") == made, "run python scripts/settings_page.py"
