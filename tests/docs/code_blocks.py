"""The commands and programs that the README and the pages of docs/ show.

A comment before a block says what a test cannot see by itself:

    <!-- not run: WHY -->             none of its commands can be run here
    <!-- not run COMMAND: WHY -->     those of one command cannot, or of several, as in eval,retrieve
    <!-- not commands: WHY -->        it only looks like commands
    <!-- file: NAME -->               it is a file, which commands after it use
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = {"structviews", "python", "pip", "bash", "torchrun", "ray", "pytest"}
COMMENT = re.compile(r"<!-- (not run|not commands|file)(?: ([\w,]+))?: (.+?) -->")


@dataclass(frozen=True)
class Block:
    """A block of code, and what the comment before it says."""

    page: str
    line: int
    text: str
    python: bool
    mark: str = ""
    of: str = ""

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command; of a dialogue, of what was typed."""
        lines = self.text.replace("\\\n", " ").splitlines()
        typed = [line[2:] for line in lines if line.startswith("$ ")]
        return [words for line in typed or lines if (words := shlex.split(line, comments=True))]

    def runs(self, words: list[str]) -> bool:
        """Whether a command of this block is to be run."""
        return self.mark != "not run" or (bool(self.of) and set(self.of.split(",")).isdisjoint(words))


def pages() -> list[str]:
    """The README and all pages, as paths from the project's folder."""
    return ["README.md", *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))]


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page that are programs or commands, in order."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    found, mark, n = [], ("", "", ""), 0
    while n < len(lines):
        start, line = n, lines[n]
        if line.startswith("```"):
            end = lines.index("```", n + 1)
            body, n = lines[n + 1 : end], end + 1
        elif line.startswith("    ") and (n == 0 or not lines[n - 1].strip()):
            while n < len(lines) and (lines[n].startswith("    ") or not lines[n].strip()):
                n += 1
            body = [line[4:] for line in lines[start:n]]
        else:
            comment = COMMENT.fullmatch(line.strip())
            if comment:
                mark = (comment[1], comment[2] or "", comment[3])
            elif line.strip():
                mark = ("", "", "")
            n += 1
            continue
        python = line == "```python"
        if python or is_commands(body):
            name = mark[2] if mark[0] == "file" else mark[1]
            found.append(Block(page, start + 1, "\n".join(body).rstrip() + "\n", python, mark[0], name))
        mark = ("", "", "")
    return [block for block in found if block.mark != "not commands"]


def is_commands(body: list[str]) -> bool:
    """Whether a block's first line is a command."""
    words = body[0].removeprefix("$ ").split()
    while words and re.fullmatch(r"[A-Z_]+=\S+", words[0]):
        words = words[1:]
    return bool(words) and words[0] in PROGRAMS
