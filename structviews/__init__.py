"""Syntax-aware, multi-view sentence embeddings."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structviews.embedder import Embedder
    from structviews.sentence_encoder import SentenceEncoder

__version__ = "0.1.0"
__all__ = ["Embedder", "SentenceEncoder"]


def __getattr__(name: str) -> Any:
    """Import a class when it is asked for: PyTorch takes a second that ``--help`` does not need."""
    if name == "Embedder":
        from structviews.embedder import Embedder  # noqa: PLC0415

        return Embedder
    if name == "SentenceEncoder":
        from structviews.sentence_encoder import SentenceEncoder  # noqa: PLC0415

        return SentenceEncoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
