"""Whatever a text contains, a Markdown renderer shows it as it is."""

from html import unescape

import pytest
from markdown_it import MarkdownIt

from structviews.runtime.wording import as_block, as_code, as_text

TEXTS = [
    "plain text, 1.5",
    "x](javascript:alert(1))",
    "[x](y) ![x](y) <b>bold</b> <!-- --> <http://x>",
    "| a | b | ~~c~~",
    "*a* **b** _c_ __d__ `e` ``f`` $g$",
    "&amp; \\* \\",
    "`",
    "``` a",
    " `a` ",
]
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
