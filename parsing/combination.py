"""Combine two parsers: the dependencies of the first and the constituents of the second, over the same words."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing.guard import Guarded
from structviews.parsing.parser import CONSTITUENCY, DEPENDENCY, KINDS, Unparsed
from structviews.runtime.processes import reporting


class Combination:
    """Dependencies and tags from one backend, constituents from another.

    The second gets the first one's tokens, and only the sentences that the first could parse. All other
    results of either are dropped.

    Args:
        dependency: gives dependencies, and tokenises texts if it can.
        constituency: gives constituents.

    Raises:
        InputError: if one of them does not give its kind of tree.
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
        """Both descriptions, with the name and language that load the combination again."""
        return {
            "name": f"{self.dependency.name}+{self.constituency.name}",
            "language": self.dependency.language,
            DEPENDENCY: self.dependency.describe(),
            CONSTITUENCY: self.constituency.describe(),
        }

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        """Parse sentences in order; if a backend fails on one, the result is the reason of the first that does."""
        with reporting(len(sentences), share=0.5):
            first = self.dependency.parse(sentences)
        with reporting(len(sentences), share=0.5):
            second = iter(self.constituency.parse([each.tokens for each in first if isinstance(each, ParsedSentence)]))
        return [joined(each, next(second)) if isinstance(each, ParsedSentence) else each for each in first]


def joined(dependencies: ParsedSentence, constituents: ParsedSentence | Unparsed) -> ParsedSentence | Unparsed:
    """Tokens, tags and dependencies of one sentence with the constituents of another."""
    if isinstance(constituents, Unparsed):
        return constituents
    return replace(dependencies, left=constituents.left, right=constituents.right, labels=constituents.labels)
