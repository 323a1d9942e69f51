"""What is written for people: control characters in it are shown, never obeyed."""

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

# Control characters but tab and newline, controls of the writing direction, and halves of surrogate pairs.
UNSHOWN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""A text with escapes such as ``\x1b`` and ``\u202e`` for what a terminal would obey instead of showing."""
    return UNSHOWN.sub(lambda found: ascii(found[0])[1:-1], text)


class Terminal(Console):
    """A console that shows text as it is: nothing in a name or a sentence is an escape, markup or an emoji's name.

    What users see goes through one, also where it goes to a file. Control sequences of rich itself, as for a bar that
    moves, are kept.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Turn a string into text; rich would drop some of its control characters."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render to segments, of which only rich's own may control the terminal."""
        for each in super().render(renderable, options):
            yield each if each.control else each._replace(text=visible(each.text))
