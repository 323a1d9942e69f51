"""View encoders: each encodes a sentence into one vector.

Each module registers its subclasses of ``View`` under the names that ``--views`` accepts.
"""

from typing import Any

from structviews.registry import Registry

# Of classes; typed so, as the base class imports this.
VIEWS: Registry[Any] = Registry("view", __name__, "structviews.views")
