"""Keyword arguments that a function does not know."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from structviews.errors import nearest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound="DataclassInstance")
# Names of other libraries are less alike than misspelt ones: "normalise" is to 0.55 "normalize_embeddings".
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
            near = nearest(name, known, ALIKE)
            remedy = f"did you mean {near!r}?" if near else f"it takes {', '.join(known)}"
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}: {remedy}")


def replaced(function: str, settings: D, changes: Mapping[str, Any]) -> D:
    """A dataclass with some fields changed, which are keyword arguments of a function; see ``check_names``."""
    check_names(function, changes, [field.name for field in fields(settings)])
    return replace(settings, **changes)
