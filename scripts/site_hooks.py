"""Hooks of mkdocs for the documentation's site (mkdocs.yml).

Formulas become MathML when the site is built, which browsers draw by themselves: no script, no font, no network.
The project's README is the first page.
"""

import re
from html import unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

# What arithmatex leaves of $...$ and $$...$$.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAYED = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Add the README as index.md, and the licence that it links to."""
    root = Path(config.config_file_path).parent
    readme = (root / "README.md").read_text(encoding="utf-8")
    text = readme.replace("](docs/", "](").replace("](LICENSE)", "](LICENSE.txt)")
    files.append(File.generated(config, "index.md", content=text))
    files.append(File.generated(config, "LICENSE.txt", abs_src_path=str(root / "LICENSE")))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Put MathML in the place of a page's formulas."""
    html = INLINE.sub(lambda found: mathml(found[1], "inline"), html)
    # A wide formula scrolls by itself on a narrow screen.
    return DISPLAYED.sub(lambda found: f'<div class="formula">{mathml(found[1], "block")}</div>', html)


def mathml(formula: str, display: str) -> str:
    """A formula as it stands in a page, as MathML.

    Raises:
        PluginError: for LaTeX that the converter leaves as it is.
    """
    latex = unescape(formula).strip()
    converted = convert(latex, display=display)
    if "\\" in converted or "<mi>&</mi>" in converted:
        raise PluginError(f"not all of this formula is understood: {latex}")
    return converted
