"""View encoders, one kind per file: each encodes a sentence into one vector.

Each module registers its subclasses of ``View`` under the names that ``--views`` accepts.
"""

from typing import TYPE_CHECKING

from structviews.registry import Registry

if TYPE_CHECKING:
    from structviews.views.view import View

VIEWS: "Registry[type[View]]" = Registry("view", __name__, "structviews.views")
