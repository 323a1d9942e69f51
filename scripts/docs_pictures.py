"""Write the pictures of terminals and pages in docs/images/, of commands that are run on the samples in data/.

Needs Chromium and the extras 'report' and 'serve'. The pictures of terminals have the digest of the bundled weights,
which a test compares with today's.
"""

import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from structviews.runs.bundled import MODELS
from structviews.runtime.files import write_output

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
COLUMNS = 88
WINDOW = "1200,900"
BROWSER = shutil.which("chromium") or "chromium-browser"
LONGER = "--hidden 64 --word-dim 100 --batch-size 100 --lr 0.002 --epochs 8 --held-out 0.1"
RUNS = "runs/bow-seq runs/dep-const runs/dep-seq runs/seq-seq"
QUICKSTART = [
    "parse data/corpus.txt",
    "train --views dep,const --hidden 64",
    'nearest default --similarity --corpus corpus.parsed --query "We need clean energy." -k 3',
]
# What the other pictures need.
BEFORE = [
    "parse data/corpus.txt",
    "tasks make-probing corpus.parsed -o probing",
    *(f"train --views {views} {LONGER}" for views in ("bow,seq", "dep,const", "dep,seq")),
    f"train --views seq,seq --objective quick-thoughts {LONGER}",
    "eval runs/bow-seq runs/dep-seq --probing probing",
]
EVAL = ["eval runs/dep-const runs/seq-seq --probing probing"]
PAGES = {
    "page-report": f"report {RUNS} --corpus corpus.parsed",
    "page-projection": "runs project default --corpus corpus.parsed",
}
SERVED = "serve default --similarity --corpus corpus.parsed --port 0"
MODEL = hashlib.sha256((MODELS / "default/model.safetensors").read_bytes()).hexdigest()
# rich's own, without the web font that it asks for.
SVG = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
SVG = SVG.replace("Fira Code,", 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas,').replace(
    "<svg ", f'<svg role="img" data-model="{MODEL}" '
)
PAPER, INK = (21, 24, 29), (228, 231, 236)
RED, GREEN, YELLOW, BLUE = (255, 123, 114), (63, 185, 80), (210, 153, 34), (88, 166, 255)
MAGENTA, CYAN, GREY = (188, 140, 255), (57, 197, 207), (154, 163, 178)
COLOURS = [RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN]
THEME = TerminalTheme(PAPER, INK, [PAPER, *COLOURS, INK], [GREY, *COLOURS, (255, 255, 255)])


def draw_terminal(name: str, commands: list[str], folder: Path) -> None:
    """Run commands in a folder and draw what they print.

    Raises:
        CalledProcessError: if one of them fails.
    """
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for command in commands:
        console.print(Text(f"$ structviews {command}", style="bold"))
        console.print(Text.from_ansi(printed(command, folder)))
    svg = console.export_svg(title="", theme=THEME, code_format=SVG, unique_id=name)
    write_output(IMAGES / f"{name}.svg", svg.encode())


def printed(command: str, folder: Path) -> str:
    """What a command prints to a terminal at its end, with its colours; of a progress bar, the last state."""
    terminal = {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "0", "COLUMNS": str(COLUMNS)}
    words = [sys.executable, "-m", "structviews", *shlex.split(command)]
    ended = subprocess.run(
        words, cwd=folder, env=os.environ | terminal, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    return ended.stdout.decode().rstrip()


def served(folder: Path) -> None:
    """Photograph the page of ``structviews serve``."""
    words = [sys.executable, "-m", "structviews", *SERVED.split()]
    aloud = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, cwd=folder, env=aloud, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            addresses = (re.search(r"http://\S+", line) for line in server.stdout)
            photograph("page-serve", next(filter(None, addresses))[0])
        finally:
            server.terminate()


def photograph(name: str, address: str) -> None:
    """Photograph the top of a page, as a browser shows it."""
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=2000"]
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        flags += [f"--user-data-dir={folder}/profile", f"--window-size={WINDOW}", f"--screenshot={shot}"]
        subprocess.run([BROWSER, *flags, address], check=True, capture_output=True)
        picture = Image.open(shot).convert("RGB").quantize(256)
    write_output(IMAGES / f"{name}.png", lambda file: picture.save(file, "png", optimize=True))


@contextmanager
def empty_folder() -> Iterator[Path]:
    """A folder with nothing in it but the samples."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "data").symlink_to(ROOT / "data")
        yield Path(name)


def main() -> None:
    """Make all pictures."""
    with empty_folder() as folder:
        draw_terminal("terminal-quickstart", QUICKSTART, folder)
    with empty_folder() as folder:
        for command in BEFORE:
            printed(command, folder)
        draw_terminal("terminal-eval", EVAL, folder)
        for name, command in PAGES.items():
            printed(f"{command} -o {name}.html", folder)
            photograph(name, (folder / f"{name}.html").as_uri())
        served(folder)


if __name__ == "__main__":
    main()
