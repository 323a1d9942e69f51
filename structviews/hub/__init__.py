"""Push runs to the Hugging Face Hub and pull them from it."""

from structviews.hub.transfer import pull, push

__all__ = ["pull", "push"]
