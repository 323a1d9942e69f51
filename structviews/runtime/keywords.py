"""Keyword arguments that a function does not know."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
# How alike two names must be, from 0 to 1: "normalise" and "normalize_embeddings" are to 0.55.
ALIKE = 0.5


def names_checked(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: an unknown keyword argument is a TypeError that names the nearest known one."""
    known = [name for name in signature(function).parameters if name not in ("self", "cls")]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        check_names(function.__qualname__, kwargs, known)
        return function(*args, **kwargs)

    return checked


def check_names(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError for the first name that is not known; it names the nearest one, or all."""
    known = list(known)
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1, ALIKE)
            remedy = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}: {remedy}")
