"""Text for people: numbers as they say them, reasons of failed requests, and Markdown that shows a text as it is."""

import socket
from html import unescape

import pytest
from markdown_it import MarkdownIt

from structviews.runtime.wording import as_block, as_code, as_text, duration, network_reason

NO_NETWORK = "no network connection"
TEXTS = ["plain text, 1.5", "x](javascript:alert(1))", "[x](y) ![x](y) <b>bold</b> <!-- --> <http://x>"]
TEXTS += ["| a | b | ~~c~~", "*a* **b** _c_ __d__ `e` ``f`` $g$", "&amp; \\* \\", "`", "``` a", " `a` "]
UNSEEN = [("a\n\n# b", "a\\n\\n# b"), ("a\u202eb\x1b[2J", "a\\u202eb\\x1b[2J"), ("\ud800", "\\ud800")]


def rendered(markdown):
    return MarkdownIt("commonmark").enable("table").enable("strikethrough").render(markdown)


@pytest.mark.parametrize(("text", "shown"), [*((text, text) for text in TEXTS), *UNSEEN])
def test_texts_are_shown_as_they_are(text, shown):
    paragraph = rendered(f"corpus {as_text(text)}.")
    assert unescape(paragraph) == f"<p>corpus {shown}.</p>\n"
    assert "<" not in paragraph.removeprefix("<p>").removesuffix("</p>\n")
    cell = rendered(f"| a | b |\n| --- | --- |\n| {as_text(text)} | c |\n").partition("<tbody>")[2]
    assert unescape(cell).splitlines()[2:4] == [f"<td>{shown.strip()}</td>", "<td>c</td>"]
    code = rendered(f"corpus {as_code(text)}.")
    assert unescape(code) == f"<p>corpus <code>{shown}</code>.</p>\n"


def test_a_block_holds_its_lines():
    text, shown = 'a = "```"\n````\n# <b>\u202e\n', 'a = "```"\n````\n# <b>\\u202e\n'
    block = rendered(as_block(text, "toml") + "\n")
    assert unescape(block) == '<pre><code class="language-toml">' + shown + "</code></pre>\n"


class RetriesError(Exception):
    """As urllib3 keeps it."""

    def __init__(self, reason):
        super().__init__("Max retries exceeded with url: /x")
        self.reason = reason


def caused(outer, inner):
    outer.__cause__ = inner
    return outer


def round_and_round():
    """Errors that wrap one another."""
    error = ValueError("x")
    error.reason = RetriesError(error)
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (socket.gaierror(-2, "Name or service not known"), NO_NETWORK),
        (OSError(RetriesError(caused(Exception("x"), socket.gaierror(-3, "try again")))), NO_NETWORK),
        (caused(ValueError("x"), ConnectionRefusedError(111, "refused")), "the connection was refused"),
        (caused(ValueError("x"), caused(TimeoutError(), socket.gaierror())), NO_NETWORK),
        (TimeoutError(), "no answer"),
        (ValueError("404"), ""),
        (round_and_round(), ""),
    ],
)
def test_the_innermost_reason_is_said(error, reason):
    assert network_reason(error) == reason


def test_times_are_said_as_people_say_them():
    said = {0.4: "less than 1 s", 59.6: "1 min 00 s", 7499: "2 h 05 min", 273600: "3 d 04 h"}
    assert {seconds: duration(seconds) for seconds in said} == said
