"""Training objectives, one per file.

Each module registers its subclass of ``Objective`` under the name that ``--objective`` accepts.
"""

from typing import TYPE_CHECKING

from structviews.registry import Registry

if TYPE_CHECKING:
    from structviews.objectives.objective import Objective

OBJECTIVES: "Registry[type[Objective]]" = Registry("objective", __name__, "structviews.objectives")
