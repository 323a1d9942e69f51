"""The English documentation in every Python installation, as a corpus.

The reference topics of ``pydoc`` and the docstrings of the standard library are edited prose that needs no network. All
sources are read with ``ast``; importing them would open windows, start servers and depend on the platform.
"""

import ast
import inspect
import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from structviews.errors import InputError
from structviews.runtime.files import write_whole

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

MIN_WORDS, MAX_WORDS = 3, 60
MIN_SENTENCES = 2_000
"""With fewer, the installation has been stripped of its documentation."""

# pydoc_data is read on its own, as topics.
LEFT_OUT = {
    *("site-packages", "dist-packages", "__pycache__", "lib-dynload", "test", "tests", "idle_test", "idlelib"),
    *("lib2to3", "turtledemo", "pydoc_data"),
}


def write_corpus(path: Path, stdlib: Path | None = None) -> None:
    """Write the documentation of a Python installation, by default the running one, one sentence per line.

    A document is a ``pydoc`` topic or a module; a blank line ends it. The text depends only on the installation. Raises
    InputError if its folder ``stdlib`` of the standard library's sources holds hardly any documentation.
    """
    stdlib = stdlib or Path(sysconfig.get_path("stdlib"))
    texts = without_repeats({name: sentences(text) for name, text in raw_documents(stdlib)})
    if (size := sum(map(len, texts.values()))) < MIN_SENTENCES:
        raise InputError(
            f"{stdlib}: has only {size} sentences of documentation, fewer than {MIN_SENTENCES}: use a Python "
            "whose standard library has its .py files with docstrings (python.org, Debian, conda), "
            "or run `structviews parse` on your own text"
        )
    write_whole(path, "".join("\n".join(lines) + "\n\n" for lines in texts.values()).encode())


def raw_documents(stdlib: Path) -> Iterator[tuple[str, str]]:
    """Yield ``(name, text)`` of each ``pydoc`` topic, then of each module, in alphabetical order."""
    topics = stdlib / "pydoc_data" / "topics.py"
    if topics.is_file():
        assignment = next(node for node in ast.parse(topics.read_bytes()).body if isinstance(node, ast.Assign))
        for name, text in sorted(ast.literal_eval(assignment.value).items()):
            yield f"topic {name}", text
    for path in sorted(stdlib.rglob("*.py")):
        module_path = path.relative_to(stdlib)
        if LEFT_OUT.isdisjoint(module_path.parts) and not module_path.name.startswith(("test", "_test")):
            # From bytes, as a file may declare an encoding other than UTF-8.
            module = ast.parse(path.read_bytes(), filename=str(path))
            yield module_path.as_posix(), "\n\n".join(docstrings(module))


def docstrings(node: ast.AST) -> Iterator[str]:
    """Yield the docstrings of a module and of everything defined in it, in source order."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield ast.get_docstring(node) or ""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield from docstrings(child)


def sentences(text: str) -> list[str]:
    """Extract the plausible English sentences of a documentation text, in order."""
    found = (sentence for paragraph in paragraphs(text) for sentence in splitter().tokenize(plain(paragraph)))
    return [sentence for sentence in found if is_prose(sentence)]


BULLET = re.compile(r"\s*(?:[*+•-]|--|\(?(?:\d{1,2}|[a-zA-Z])[.)])\s+(?=\S)")
UNDERLINE = re.compile(r"\s*([=*~^#\"'+-])\1{2,}\s*")
TABLE = re.compile(r"\s*(?:\||\+-|=+ =+|-+ -+)")


def paragraphs(text: str) -> Iterator[str]:
    """Rejoin the wrapped lines of a text, skipping headings, tables, doctests and literal blocks.

    A line continues the paragraph above it if it has the same indentation: in a list, that of the text after a bullet.
    """
    lines: list[str] = []
    indent = 0
    literal: int | None = None  # indentation of the line that ended in "::"
    for line in [*inspect.cleandoc(text).expandtabs().splitlines(), ""]:
        depth = len(line) - len(line.lstrip())
        if literal is not None and line.strip():
            if depth > literal:
                continue
            literal = None
        if UNDERLINE.fullmatch(line):
            lines = []
            continue
        bullet = BULLET.match(line)
        if lines and (not line.strip() or bullet or depth != indent):
            if not any(TABLE.match(line) or line.startswith((">>>", "$ ", "% ")) for line in lines):
                # Rejoin a word broken at its hyphen ("built-" / "in"), but keep dashes.
                yield re.sub(r"(?<=\w)- (?=[a-z])", "-", " ".join(lines))
            lines = []
        if line.strip():
            lines.append(line[bullet.end() :] if bullet else line.strip())
            indent = bullet.end() if bullet else depth
            if line.rstrip().endswith("::"):
                literal = depth


MARKUP = [
    (re.compile(r":[a-z:]+:`~[\w.]*?(\w+)`"), r"\1"),  # :class:`~queue.Queue`
    (re.compile(r":[a-z:]+:`([^`<]*?)(?: <[^`]*>)?`"), r"\1"),  # :class:`Queue`
    (re.compile(r"``([^`]+)``|`([^`']+)['`]_{0,2}"), r"\1\2"),  # ``x``, `x`, `x'
    (re.compile(r"(?<![\w*])\*{1,2}(\w[^*]*?)\*{1,2}(?![\w*])"), r"\1"),  # *x*, **x**
    (re.compile(r"(?<!\w)([\"'])([\w./-]+)(?:\(\))?\1(?!\w)"), r"\2"),  # "x" and 'x', as Sphinx writes ``x``
    (re.compile(r"(?<=\w)\(\)"), ""),  # f()
    (re.compile(r"^(?:Changed|New|Deprecated|Removed)[\w ,-]* (?:in|since) version [\d., and]+(?:[:.]\s*|$)"), ""),
    (re.compile(r"^\w[\w ]{,40}:+ +(?=[A-Z])"), ""),  # Note: The ...
    (re.compile(r"\s*\[\d+\]"), ""),  # footnotes
    (re.compile(r"\s+-{2,3}\s+|\s*[—–]\s*"), " -- "),
    (re.compile(r"[“”]"), '"'),
    (re.compile(r"[‘’]"), "'"),
    (re.compile(r"\s+"), " "),
]


def plain(paragraph: str) -> str:
    """Strip reStructuredText and Sphinx markup."""
    for pattern, replacement in MARKUP:
        paragraph = pattern.sub(replacement, paragraph)
    return paragraph.strip()


@cache
def splitter() -> "PunktSentenceTokenizer":
    """NLTK's rule-based sentence splitter, untrained. Unlike spaCy's, it never splits inside ``os.path``."""
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer  # noqa: PLC0415  slow to import

    rules = PunktParameters()
    rules.abbrev_types = {"e.g", "i.e", "eg", "ie", "cf", "vs", "etc", "resp", "approx", "incl", "al", "dr", "mr"}
    return PunktSentenceTokenizer(rules)


WORD = r"[A-Za-z]+(?:['’/-][A-Za-z]+)*"
NAME = r"_*[A-Za-z]\w*(?:[./-]\w+)*"
NUMBER = r"[+-]?\d+(?:[.,:-]\d+)*(?:%|st|nd|rd|th|s)?"
TOKEN = re.compile(rf"[(\"']*(?:{WORD}|{NAME}|{NUMBER}|[ei]\.[eg]\.)(?:'s?)?[)\"']*[.,;:!?]*[)\"']*|--")
IDENTIFIER = re.compile(r"\w*[\d_]\w*|\w+\.\w.*|\w+[a-z][A-Z]\w*|[A-Z]{2,}\w*")
FUNCTION_WORD = re.compile(
    r"\b(?:an?|the|th(?:is|at|ese|ose)|its?|is|are|was|be|been|has|have|can|may|must|should|will|would|of|to|in|on|at"
    r"|by|for|from|with|without|as|if|when|and|or|not?|any|all|each|you|which|whether)\b",
    re.IGNORECASE,
)


def is_prose(sentence: str) -> bool:
    """Whether this reads as an English sentence rather than code, a title or a fragment."""
    words = sentence.split()
    return (
        MIN_WORDS <= len(words) <= MAX_WORDS
        and re.match(r"[\"']?[A-Z]", sentence) is not None
        and re.search(r"[\w)\"'][.!?][\"')]?$", sentence) is not None
        and all(map(TOKEN.fullmatch, words))
        and sum(IDENTIFIER.match(word.strip("()\"'.,;:")) is not None for word in words) <= len(words) / 4
        and FUNCTION_WORD.search(sentence) is not None
        and sentence.count("(") == sentence.count(")")
        and sentence.count('"') % 2 == 0
    )


def without_repeats(texts: dict[str, list[str]]) -> dict[str, list[str]]:
    """Keep each sentence once, in the longest text that has it, and drop texts of one sentence.

    Several topics are excerpts of longer ones, which would have gaps if the first text had all repeats.
    """
    seen: set[str] = set()
    distinct = {}
    for name in sorted(texts, key=lambda name: (-len(texts[name]), name)):
        # dict.fromkeys drops repeats inside the text, in order.
        distinct[name] = [sentence for sentence in dict.fromkeys(texts[name]) if sentence not in seen]
        seen.update(distinct[name])
    return {name: distinct[name] for name in texts if len(distinct[name]) > 1}
