"""Readers for SentEval's tasks and similar ones, one function for each; a module may hold several.

Each module registers a function for each task name. It is called as ``read(name, folder) -> Task``, where ``folder``
is a ``TaskFolder`` for the ``--senteval`` directory.
"""

from collections.abc import Callable
from typing import Any

from structviews.registry import Registry

TASKS: Registry[Callable[..., Any]] = Registry("task", __name__, "structviews.tasks")
