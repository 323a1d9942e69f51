"""Errors that the user can fix."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound="DataclassInstance")
# Names of other libraries are less alike than misspelt ones: "normalise" is to 0.55 "normalize_embeddings".
ALIKE = 0.5


class InputError(ValueError):
    """Invalid input from the user.

    The message is one line that names the value, the place (``file:line`` where known) and the remedy.
    The command line prints it without a traceback and exits with code 2.
    """

    def __str__(self) -> str:
        """The message; line feeds, which only names and values can bring, are shown as such."""
        return super().__str__().replace("\n", "\\n")


class DivergedError(InputError):
    """Training came to a loss or a weight that is NaN or infinite."""


def unknown(kind: str, name: str, known: Iterable[str], remedy: str = "") -> InputError:
    """The error for a name that there is none of, with the nearest known one, if any is near, and all or a remedy."""
    known = list(known)
    asked = f" (did you mean {near}?)" if (near := nearest(name, known)) else ""
    return InputError(f"unknown {kind} {name!r}{asked}: {remedy or 'choose one of ' + ', '.join(known)}")


def nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str:
    """The known name that another is nearest to, in any case; empty if none is ``alike``, from 0 to 1, or more."""
    spelt = {each.lower(): each for each in known}
    return next((spelt[each] for each in get_close_matches(name.lower(), spelt, 1, alike)), "")


def interrupted(error: BaseException | None) -> bool:
    """Whether an error is an interrupt, or what a library made of one, such as an ImportError."""
    while error and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def names_checked(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: an unknown keyword argument is a TypeError that names the nearest known one."""
    known = [name for name in signature(function).parameters if name not in ("self", "cls")]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs.keys() <= set(known):
            raise unexpected(function.__qualname__, kwargs, known)
        return function(*args, **kwargs)

    return checked


def unexpected(function: str, names: Iterable[str], known: Collection[str]) -> TypeError:
    """The error for the first of some names that is not known; it names the nearest one, or all."""
    name = next(each for each in names if each not in known)
    near = nearest(name, known, ALIKE)
    remedy = f"did you mean {near!r}?" if near else f"it takes {', '.join(known)}"
    return TypeError(f"{function}() got an unexpected keyword argument {name!r}: {remedy}")


def replaced(function: str, settings: D, changes: Mapping[str, Any]) -> D:
    """A dataclass with some fields changed, which are keyword arguments of a function; see ``names_checked``."""
    known = [field.name for field in fields(settings)]
    if not changes.keys() <= set(known):
        raise unexpected(function, changes, known)
    return replace(settings, **changes)
