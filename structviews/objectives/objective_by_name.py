"""Creating an objective by name."""

from structviews.errors import InputError
from structviews.objectives import OBJECTIVES
from structviews.objectives.objective import Inputs, Objective
from structviews.settings import Settings


def create(name: str, inputs: Inputs, config: Settings | None = None) -> Objective:
    """Create an objective.

    Args:
        name: registered name.
        inputs: its inputs.
        config: an instance of the objective's ``Config``; None for its defaults.

    Raises:
        InputError: if there is no objective of this name, or it cannot use these views.
    """
    cls, n_views = OBJECTIVES[name], len(inputs.views)
    if n_views < cls.min_views or (cls.max_views is not None and n_views > cls.max_views):
        raise InputError(f"{n_views} view{'s' * (n_views != 1)} for the objective {name!r}: it needs {_wanted(cls)}")
    if len(set(inputs.dims)) > 1:
        raise InputError(
            f"views of different dimensions {', '.join(map(str, inputs.dims))}: use the same --hidden for all"
        )
    return cls(inputs, config or cls.Config())


def _wanted(cls: type[Objective]) -> str:
    least, most = cls.min_views, cls.max_views
    number = f"at least {least}" if most is None else f"{least}" if least == most else f"{least} to {most}"
    return f"{number}, for example --views {cls.example}"
