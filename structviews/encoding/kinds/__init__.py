"""The kinds of run, one per file.

Each module registers a class under the ``kind`` that a run's ``config.toml`` names. Its ``open(run, parser)`` loads a
run's folder as an ``Embedder``.
"""

from pathlib import Path
from typing import Any, Protocol

from structviews.parsing.parser import Parser
from structviews.registry import Registry


class Opener(Protocol):
    """Opens runs of one kind."""

    def open(self, run: Path, parser: Parser | None = None) -> Any:
        """Load a run's folder as an ``Embedder``; ``parser`` parses sentences that have no trees."""
        ...


KINDS: Registry[Opener] = Registry("kind of run", __name__, "structviews.kinds")
