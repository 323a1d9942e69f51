"""Parser backends, one per file.

Each module registers a factory under the name used with ``--parser``. It is called as
``factory(argument, options) -> Parser``, where ``argument`` is the text after the colon in ``NAME[:ARGUMENT]``, or
empty. It raises InputError for an argument, a language or a model that it does not support.
"""

from collections.abc import Callable
from typing import Any

from structviews.registry import Registry

BUNDLED = "builtin"
# Named like parsers: files that have their trees, see sources.py, and constituents made from dependencies, see
# ``specification.Headed``.
TREEBANK, HEADS = "treebank", "heads"
PARSERS: Registry[Callable[..., Any]] = Registry("parser", __name__, "structviews.parsers", (TREEBANK,))


def for_text(name: str) -> str:
    """The parser for a text that is to have trees like those of a corpus, whose parser has this ``name``.

    A treebank has no parser of its own.
    """
    return f"{BUNDLED}{name.removeprefix(TREEBANK)}" if name.partition("+")[0] == TREEBANK else name
