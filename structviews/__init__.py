"""Syntax-aware, multi-view sentence embeddings."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structviews.embedder import Embedder

__version__ = "0.1.0"
__all__ = ["Embedder"]


def __getattr__(name: str) -> Any:
    """Import ``Embedder`` when it is asked for: PyTorch takes a second that ``--help`` does not need."""
    if name == "Embedder":
        from structviews.embedder import Embedder  # noqa: PLC0415

        return Embedder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
