"""The kinds of run.

Each registers a class under the ``kind`` that a run's ``config.toml`` names. Its ``open(run, settings, parser)`` loads
a run's folder, with the settings of its ``config.toml``, as an ``Embedder``.
"""

from pathlib import Path
from typing import Any

from structviews.encoding.representation import load_components
from structviews.errors import InputError
from structviews.parsing.parser import Parser
from structviews.registry import Registry
from structviews.runs.folder import CONFIG
from structviews.runs.settings_file import KIND, corpus_of, read_settings

KINDS: Registry[Any] = Registry("kind of run", __name__, "structviews.kinds")


def open_run(run: Path, parser: Parser | None = None) -> Any:
    """Load a run of any kind from its folder as an ``Embedder``; see ``Embedder.load``."""
    settings = read_settings(run)
    kind = str(settings.get(KIND, "trained"))
    if kind not in KINDS:
        raise InputError(f"{run / CONFIG}: unknown kind of run {kind!r}: update structviews or recreate the run")
    embedder = KINDS[kind].open(run, settings, parser)
    if not embedder.members:
        encoders = [encoder for view in embedder.encoders for encoder in view]
        widths = {each.key(pooling): each.width(pooling) for each in encoders for pooling in embedder.poolings}
        embedder.components = load_components(run, widths)
    embedder.run, embedder.stored = run, embedder.choice
    embedder.corpora = [corpus] if (corpus := corpus_of(settings)) else embedder.corpora
    return embedder
