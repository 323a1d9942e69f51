"""Runs to and from the Hugging Face Hub."""

from structviews.hub.transfer import pull, push

__all__ = ["pull", "push"]
