"""Every page says at its top what it is for."""

import re

import pytest
from code_blocks import ROOT, pages

PAGES = [*pages(), "CONTRIBUTING.md", "CHANGELOG.md", "data/README.md"]
# A page says what it does; those of views and objectives, what these are.
PURPOSE = re.compile(r"This (?:page|folder) |The `[a-z-]+` (?:view|objective)\b|Sentence embeddings")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_begins_with_a_heading_and_what_it_is_for(page):
    heading, first, *_ = (ROOT / page).read_text("utf-8").split("\n\n")
    assert re.fullmatch(r"# \S.*", heading)
    assert PURPOSE.match(first), first
    assert first.rstrip().endswith((".", ":")), first
