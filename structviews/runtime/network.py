"""Why something could not be fetched from the network, in words for people."""

import socket
from collections.abc import Iterator

# What went wrong, by the innermost error; most exact first.
REASONS: tuple[tuple[type[OSError], str], ...] = (
    (socket.gaierror, "no network connection"),
    (ConnectionRefusedError, "the connection was refused"),
    (TimeoutError, "no answer"),
)


def network_reason(error: BaseException) -> str:
    """The reason for a failed request; empty if REASONS does not have it.

    Libraries wrap the system's error several times, as a cause, a context, an argument or a ``reason``.
    """
    chain = list(causes(error, set()))
    return next((said for kind, said in REASONS if any(isinstance(each, kind) for each in chain)), "")


def causes(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    """An error and all that it wraps."""
    if id(error) in seen:
        return
    seen.add(id(error))
    yield error
    for each in (error.__cause__, error.__context__, getattr(error, "reason", None), *error.args):
        if isinstance(each, BaseException):
            yield from causes(each, seen)
