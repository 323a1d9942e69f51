"""Tables, paragraphs and numbers in Markdown."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from pairs.draws import Estimate

WIDTH = 124


def table(head: Sequence[str], lines: Iterable[Sequence[str]], texts: int = 1) -> Iterator[str]:
    """A table; its first ``texts`` columns are text, the others figures."""
    yield f"| {' | '.join(head)} |"
    yield "|---" * texts + "|--:" * (len(head) - texts) + "|"
    for line in lines:
        yield f"| {' | '.join(line)} |"


def paragraph(text: str) -> Iterator[str]:
    """A paragraph and the empty line after it."""
    yield textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    yield ""


def spread(estimate: Estimate, *, brief: bool = False) -> str:
    """A difference such as ``+1.2 [0.3, 2.1]``; a score in brief such as ``66.1 ± 0.9``."""
    if brief:
        return f"{estimate.value:.1f} ± {(estimate.high - estimate.low) / 2:.1f}"
    return f"{estimate.value:+.1f} [{estimate.low:+.1f}, {estimate.high:+.1f}]"
