"""Two parsers as one: the dependencies of the first, the constituents of the second, over the same words."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from structviews.errors import InputError
from structviews.sentence import ParsedSentence

from . import CONSTITUENCY, DEPENDENCY, KINDS, Unparsed
from .guard import Guarded


class Combination:
    """Dependencies and tags of one backend, constituents of another.

    The second is given the first one's tokens, and only the sentences that the first could parse. What else
    either of them gives is left out.

    Args:
        dependency: gives dependencies, and the words of a text if it is a tokeniser.
        constituency: gives constituents.

    Raises:
        InputError: if one does not give its kind of tree.
    """

    kinds = frozenset(KINDS)

    def __init__(self, dependency: Guarded, constituency: Guarded) -> None:
        for parser, kind in ((dependency, DEPENDENCY), (constituency, CONSTITUENCY)):
            if kind not in parser.kinds:
                raise InputError(
                    f"--parser {dependency.name}+{constituency.name}: {parser.name} gives no {kind} trees: "
                    "the first gives dependencies, the second constituents"
                )
        self.dependency = dependency
        self.constituency = constituency
        self.batch_tokens = min(dependency.batch_tokens, constituency.batch_tokens)
        self.tokenise = dependency.tokenise

    def describe(self) -> dict[str, Any]:
        """Both descriptions, and the name and language that load the combination again."""
        return {
            "name": f"{self.dependency.name}+{self.constituency.name}",
            "language": self.dependency.language,
            DEPENDENCY: self.dependency.describe(),
            CONSTITUENCY: self.constituency.describe(),
        }

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        """Parse sentences; the result has their order, with the reason of the first that could not parse one."""
        first = self.dependency.parse(sentences)
        second = iter(self.constituency.parse([each.tokens for each in first if isinstance(each, ParsedSentence)]))
        return [joined(each, next(second)) if isinstance(each, ParsedSentence) else each for each in first]


def joined(dependencies: ParsedSentence, constituents: ParsedSentence | Unparsed) -> ParsedSentence | Unparsed:
    """Tokens, tags and dependencies of one sentence with the constituents of another."""
    if isinstance(constituents, Unparsed):
        return constituents
    return replace(dependencies, left=constituents.left, right=constituents.right, labels=constituents.labels)
