"""View encoders: each sees a sentence in its own way and gives one vector."""

from structviews.views import bag, dependency, constituency, sequence  # noqa: F401, I001 - they register themselves
from structviews.views.attention import attention_weights
from structviews.views.base import Encoded, View, create, names

__all__ = ["Encoded", "View", "attention_weights", "create", "names"]
