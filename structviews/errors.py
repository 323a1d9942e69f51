"""Errors that the user can fix."""

from collections.abc import Iterable
from difflib import get_close_matches


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
