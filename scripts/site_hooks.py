"""MkDocs hooks for the documentation's site (mkdocs.yml).

Formulas are converted to MathML at build time, which browsers render natively: no script, font or network.
The project's README is the home page. What axe-core finds in the theme's own pages is mended.
"""

import re
from html import unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

# How arithmatex marks $...$ and $$...$$.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAYED = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
# The heading of a column of labels.
CORNER = re.compile(r"<th([^>]*)></th>")

# Files at the project's root that pages link to, and their names in the site.
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "data/README.md": "data.md",
    "examples/README.md": "examples/index.md",
}
ROOT_FILES = {
    "LICENSE": "LICENSE.txt",
    "CITATION.cff": "CITATION.cff",
    "parsing/models/english/LICENSE": "LICENSE-spacy.txt",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and files at the project's root that the README links to."""
    root = Path(config.config_file_path).parent
    programs = {f"{path.relative_to(root)}": f"{path.relative_to(root)}" for path in root.glob("examples/*.py")}
    for name, page in ROOT_PAGES.items():
        text = (root / name).read_text(encoding="utf-8")
        for up in ("", "../"):
            text = text.replace(f"]({up}docs/", f"]({up}")
            for linked, place in (ROOT_PAGES | ROOT_FILES).items():
                text = text.replace(f"]({up}{linked})", f"]({up}{place})")
        files.append(File.generated(config, page, content=text))
    for name, place in (ROOT_FILES | programs).items():
        files.append(File.generated(config, place, abs_src_path=str(root / name)))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Replace a page's formulas by MathML, and the empty corners of its tables by cells that head nothing."""
    html = CORNER.sub(r"<td\1></td>", html)
    html = INLINE.sub(lambda found: mathml(found[1], "inline"), html)
    # A wide formula scrolls by itself on a narrow screen.
    return DISPLAYED.sub(lambda found: f'<div class="formula">{mathml(found[1], "block")}</div>', html)


def on_post_page(output: str, **_: Any) -> str:
    """Name the theme's search dialog for screen readers."""
    return output.replace('class="md-search" data-md', 'class="md-search" aria-label="Search" data-md')


def on_post_template(output_content: str, **_: Any) -> str:
    """The same for pages that are not among ours, such as 404.html."""
    return on_post_page(output_content)


def mathml(formula: str, display: str) -> str:
    """Convert a page's formula to MathML.

    Raises:
        PluginError: for LaTeX that the converter leaves as it is.
    """
    latex = unescape(formula).strip()
    converted = convert(latex, display=display)
    if "\\" in converted or "<mi>&</mi>" in converted:
        raise PluginError(f"not all of this formula is understood: {latex}")
    return converted
