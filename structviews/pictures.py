"""Pictures of matplotlib: written to files, and put into pages in the page's own colours."""

import re
from collections.abc import Callable
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from structviews.cache import write_whole
from structviews.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".png", ".svg", ".pdf")
# Told apart by the colour-blind (Okabe and Ito, 2008), without those that are too near to white or black paper.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7")
# What is drawn in these colours gets those that a page names so.
INK, FAINT, PAPER = "#010203", "#040506", "#070809"
NAMED = {INK: "--ink", FAINT: "--faint", PAPER: "--paper"} | {colour: f"--c{i}" for i, colour in enumerate(COLOURS)}
# Groups whose names begin so have them as classes in a page.
MARKED = ("points", "series")


def require_matplotlib(what: str, extra: str = "plots") -> None:
    """Raise InputError unless matplotlib is installed, as by ``extra``; ``what`` needs it."""
    try:
        import matplotlib  # noqa: F401, PLC0415  an extra
    except ImportError:
        raise InputError(f"{what} needs matplotlib; pip install 'structviews[{extra}]'") from None


def check_file(path: Path, kinds: tuple[str, ...] = KINDS, what: str = "pictures") -> None:
    """Raise InputError unless a file of this name can be written, and ends as one of the ``kinds`` of ``what``."""
    if path.suffix.lower() not in kinds:
        raise InputError(f"{path}: {what} are {', '.join(kinds)}; give the file one of these endings")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise InputError(f"{path}: no folder {path.parent}; make it first")


def write_picture(path: Path, make: Callable[[], "Figure"]) -> None:
    """Write what ``make`` draws, whole or not at all; equal pictures give equal bytes.

    Raises:
        InputError: for an ending that is not one of ``KINDS``, a folder that is not there, or without matplotlib.
    """
    check_file(path)
    require_matplotlib("a picture")
    from matplotlib import rc_context  # noqa: PLC0415  only here

    kind = path.suffix.lower()[1:]
    buffer = BytesIO()
    # No date and no random names in the file.
    metadata = {"png": None, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with rc_context({"svg.hashsalt": "structviews"}):
        make().savefig(buffer, format=kind, dpi=200, metadata=metadata)
    write_whole(path, lambda file: file.write(buffer.getbuffer()))


def inline_svg(make: Callable[[], "Figure"], name: str) -> str:
    """What ``make`` draws, as an element for a page that has the colours of ``NAMED`` as variables.

    Args:
        make: draws; what it gives no colour gets the page's.
        name: of the picture, which no other in the page has; said to those who cannot see it.
    """
    from matplotlib import rc_context  # noqa: PLC0415  only here

    buffer = BytesIO()
    colours = rc_context(
        {
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.titlecolor": INK,
            "xtick.labelcolor": INK,
            "ytick.labelcolor": INK,
            "axes.edgecolor": FAINT,
            "xtick.color": FAINT,
            "ytick.color": FAINT,
            "grid.color": FAINT,
            "figure.facecolor": PAPER,
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
            "svg.fonttype": "none",
            # Names of parts are made from this, and must not be those of another picture's parts.
            "svg.hashsalt": name,
        }
    )
    with colours:
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
