"""docs/settings.md says what the declarations say."""

import runpy

from code_blocks import ROOT


def test_the_page_is_what_the_declarations_make():
    made = runpy.run_path(str(ROOT / "scripts/settings_page.py"))["page"]()
    assert (ROOT / "docs/settings.md").read_text("utf-8") == made, "run python scripts/settings_page.py"
