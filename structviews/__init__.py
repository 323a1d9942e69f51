"""Syntax-aware, multi-view sentence embeddings."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structviews.encoding.embedder import Embedder
    from structviews.encoding.sentence_encoder import SentenceEncoder

__version__ = "0.1.0"
__all__ = ["Embedder", "SentenceEncoder"]


def __getattr__(name: str) -> Any:
    """Import a class on first use: importing PyTorch takes a second, which ``--help`` can do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "embedder" if name == "Embedder" else "sentence_encoder"
    return getattr(import_module(f"structviews.encoding.{module}"), name)
