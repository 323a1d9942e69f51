"""Parser backends, one per file.

Each module registers a factory under the name used with ``--parser``. It is called as
``factory(argument, options) -> Parser``, where ``argument`` is the text after the colon in ``NAME[:ARGUMENT]``, or
empty. It raises InputError for an argument, a language or a model that it does not support.
"""

from collections.abc import Callable
from typing import Any

from structviews.registry import Registry

# Named like a parser, but its files have their trees: see sources.py.
TREEBANK = "treebank"
PARSERS: Registry[Callable[..., Any]] = Registry("parser", __name__, "structviews.parsers", (TREEBANK,))
