"""Which view suits which sentence: a gate's weights, by properties of the sentences.

Shapes: n sentences, k views.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from structviews.corpus.sentence import ParsedSentence
from structviews.runtime.arrays import Array

# Relations of Universal Dependencies, and the label of the Penn Treebank, of subordinate clauses.
SUBORDINATE = frozenset({"advcl", "ccomp", "csubj", "acl:relcl"})
CLAUSE = "SBAR"
QUESTION_MARKS = frozenset("?？؟")
EXAMPLES = 3


@dataclass(frozen=True)
class Trust:
    """The weights in a group of sentences.

    Attributes:
        group: what the sentences have in common.
        count: number of sentences.
        means, deviations: ``(k,)`` mean weight of each view, and its standard deviation over the sentences.
    """

    group: str
    count: int
    means: Array
    deviations: Array


def trust_by_group(sentences: Sequence[ParsedSentence], weights: Array) -> list[Trust]:
    """The weights ``(n, k)`` of all sentences, and of each group that has any."""
    return [
        Trust(name, int(mask.sum()), weights[mask].mean(axis=0), weights[mask].std(axis=0))
        for name, mask in groups(sentences)
        if mask.any()
    ]


def groups(sentences: Sequence[ParsedSentence]) -> Iterator[tuple[str, Array]]:
    """Masks ``(n,)`` of sentences by length, depth of their trees, and whether they have a clause or ask a question."""
    yield "all", np.ones(len(sentences), dtype=bool)
    yield from thirds("words", [len(sentence.tokens) for sentence in sentences])
    if all(sentence.has_dependencies for sentence in sentences):
        yield from thirds("dependency height", [max(sentence.dependency_heights) for sentence in sentences])
    if all(sentence.has_constituents for sentence in sentences):
        yield from thirds("constituency height", [max(sentence.constituency_heights) for sentence in sentences])
    if all(sentence.has_dependencies or sentence.has_constituents for sentence in sentences):
        yield from either("subordinate clause", [has_clause(sentence) for sentence in sentences])
    yield from either("question", [not QUESTION_MARKS.isdisjoint(sentence.tokens) for sentence in sentences])


def thirds(what: str, values: Sequence[int]) -> Iterator[tuple[str, Array]]:
    """Masks of about equal size by a number, from low to high; equal numbers stay together."""
    numbers = np.array(values)
    place = np.searchsorted(np.quantile(numbers, (1 / 3, 2 / 3)), numbers)
    for part in np.unique(place):
        low, high = (int(end) for end in (numbers[place == part].min(), numbers[place == part].max()))
        yield f"{what} {low}" + (f"-{high}" if high > low else ""), place == part


def either(what: str, values: Sequence[bool]) -> Iterator[tuple[str, Array]]:
    """Masks of the sentences with a property, and without it."""
    mask = np.array(values, dtype=bool)
    yield f"with a {what}", mask
    yield f"without a {what}", ~mask


def has_clause(sentence: ParsedSentence) -> bool:
    """Whether a sentence has a finite subordinate clause, by its dependencies, or else by its constituents."""
    if sentence.has_dependencies:
        found = {*sentence.relations, *(relation.partition(":")[0] for relation in sentence.relations)}
        return not SUBORDINATE.isdisjoint(found)
    return any(CLAUSE in label.split("+") for label in sentence.labels)


def most_trusting(sentences: Sequence[ParsedSentence], weights: Array) -> list[tuple[float, str]]:
    """The distinct sentences with the highest of some weights ``(n,)``, each after its weight."""
    found: dict[str, float] = {}
    for row in np.argsort(-weights, kind="stable").tolist():
        found.setdefault(" ".join(sentences[row].tokens), float(weights[row]))
        if len(found) == EXAMPLES:
            break
    return [(weight, text) for text, weight in found.items()]
