"""Failed requests say why in a few words, whatever a library wraps the reason in."""

import socket

import pytest

from structviews.runtime.wording import network_reason

NO_NAME = "no network connection"


class RetriesError(Exception):
    """As urllib3 keeps it."""

    def __init__(self, reason):
        super().__init__("Max retries exceeded with url: /x")
        self.reason = reason


def caused(outer, inner):
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (socket.gaierror(-2, "Name or service not known"), NO_NAME),
        (OSError(RetriesError(caused(Exception("x"), socket.gaierror(-3, "try again")))), NO_NAME),
        (caused(ValueError("x"), ConnectionRefusedError(111, "refused")), "the connection was refused"),
        (caused(ValueError("x"), caused(TimeoutError(), socket.gaierror())), NO_NAME),
        (TimeoutError(), "no answer"),
        (ValueError("404"), ""),
    ],
)
def test_the_innermost_reason_is_said(error, reason):
    assert network_reason(error) == reason


def test_errors_that_wrap_one_another_end():
    error = ValueError("x")
    error.reason = RetriesError(error)
    assert network_reason(error) == ""
