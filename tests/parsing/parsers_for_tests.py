"""The backends that the contract test goes over, and the tiny models that they need; each new one joins by a line."""

import tiny_parsers

from structviews.parsing.backends.trivial import SHAPES

# What ``--parser`` is given -> the kind of models, if any.
CASES = {
    "builtin": None,
    **{f"trivial:{shape}": None for shape in SHAPES},
    **{specification: kind for kind, specification in tiny_parsers.SPECIFICATIONS.items()},
}
