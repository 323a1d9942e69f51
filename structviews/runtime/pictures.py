"""matplotlib figures, saved to files or embedded in HTML pages in the page's colours."""

import re
from collections.abc import Callable
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from structviews.errors import InputError
from structviews.runtime.files import write_output
from structviews.runtime.machine import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".png", ".svg", ".pdf")
# The colour-blind-safe palette of Okabe and Ito (2008), without the colours too close to a white or black background.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7")
# Placeholder colours, replaced in a page by its CSS variables.
INK, FAINT, PAPER = "#010203", "#040506", "#070809"
NAMED = {INK: "--ink", FAINT: "--faint", PAPER: "--paper"} | {colour: f"--c{i}" for i, colour in enumerate(COLOURS)}
# SVG groups whose ids begin with these words get them as classes in a page.
MARKED = ("points", "series")


def check_file(path: Path, kinds: tuple[str, ...] = KINDS, what: str = "pictures") -> None:
    """Raise InputError unless ``path`` can be written and has one of the suffixes ``kinds``."""
    if path.suffix.lower() not in kinds:
        raise InputError(f"{path}: {what} must end in {', '.join(kinds)}: rename the file")
    if path.is_dir():
        raise InputError(f"{path}: is a folder: give the name of a file")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist: create it first")


def write_picture(path: Path, make: Callable[[], "Figure"]) -> None:
    """Save the figure that ``make`` returns, atomically, see ``check_file``; equal figures give equal bytes."""
    check_file(path)
    require("matplotlib", "a picture", "plots")
    from matplotlib import rc_context  # noqa: PLC0415  only here

    kind = path.suffix.lower()[1:]
    buffer = BytesIO()
    # No date and no random ids in the file.
    metadata = {"png": None, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with rc_context({"svg.hashsalt": "structviews"}):
        make().savefig(buffer, format=kind, dpi=200, metadata=metadata)
    write_output(path, buffer.getvalue())


def inline_svg(make: Callable[[], "Figure"], name: str) -> str:
    """The figure that ``make`` returns, as an SVG element for a page that defines the CSS variables of ``NAMED``.

    Parts without a colour of their own get the page's. The name is unique in the page, and a label for screen readers.
    """
    from matplotlib import rc_context  # noqa: PLC0415  only here

    buffer = BytesIO()
    inked = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor")
    faint = ("axes.edgecolor", "xtick.color", "ytick.color", "grid.color")
    settings: Any = dict.fromkeys(inked, INK) | dict.fromkeys(faint, FAINT) | {"figure.facecolor": PAPER}
    settings |= dict.fromkeys(("axes.facecolor", "savefig.facecolor", "svg.fonttype"), "none")
    # Element ids are derived from the salt and must be unique in the page.
    with rc_context(settings | {"svg.hashsalt": name}):
        make().savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue().decode()
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text[text.index("<svg") :], flags=re.S)
    for colour, variable in NAMED.items():
        text = text.replace(colour, f"var({variable})")
    text = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", text)
    text = re.sub(r'font-family: [^;"]*(; )?', "", text)
    text = re.sub(rf'id="((?:{"|".join(MARKED)}) [^"]*)"', r'class="\1"', text)
    # The page colours the many points by the class of their group.
    text = re.sub(r'(<use [^>]*) style="fill: [^;]*; fill-opacity: [\d.]+"/>', r"\1/>", text)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    return re.sub(r"\s*\n\s*", "\n", text).replace("<svg", f'<svg role="img" aria-label="{escape(name)}"', 1)
