"""Which sentences are looked at, and which of their trees."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from structviews.cache import ParsedCorpus
from structviews.errors import InputError
from structviews.sentence import ParsedSentence

# Of the sentences that hold a text, unless some of them are drawn at random.
FIRST = 10


class Chosen(NamedTuple):
    """A sentence to draw.

    Attributes:
        name: what to call it.
        place: where it stands in a corpus and its source; may be empty.
        sentence: the words and their trees.
        kinds: which trees to draw, ``constituency`` and ``dependency``.
    """

    name: str
    place: str
    sentence: ParsedSentence
    kinds: list[str]

    @property
    def heading(self) -> str:
        """Name and place; empty if there is no place."""
        return f"{self.name}: {self.place}" if self.place else ""


def given(text: str, sentence: ParsedSentence, tree: str | None) -> Chosen:
    """A sentence that comes from no corpus, to be drawn; ``tree`` as for ``kinds_of``."""
    return Chosen("sentence", "", sentence, kinds_of(sentence, tree, repr(text[:60])))


def choose(
    corpus: ParsedCorpus, sentence: int | None, grep: str | None, random: int | None, *, seed: int, tree: str | None
) -> tuple[list[Chosen], str]:
    """Sentences of a corpus, and what to tell about the choice, if anything.

    Args:
        corpus: where they are.
        sentence: the number of one.
        grep: a text that they hold.
        random: how many are drawn at random, of all or of those.
        seed: of the draw.
        tree: the kind that they are looked at for; all that there are if None.

    Raises:
        InputError: if there is no such sentence or tree.
    """
    if sentence is not None:
        if grep is not None or random is not None:
            raise InputError(f"--sentence {sentence} is one sentence: leave --grep and --random out")
        numbers, note = [sentence], ""
    else:
        found = np.arange(len(corpus)) if grep is None else find(corpus, grep)
        numbers = found[:FIRST].tolist() if random is None else drawn_at_random(found, random, seed)
        left_out = random is None and len(found) > FIRST
        note = f"the first {FIRST} of {len(found):,}; --random {FIRST} draws some of them all" if left_out else ""
    return [chosen(corpus, number, tree) for number in numbers], note


def chosen(corpus: ParsedCorpus, number: int, tree: str | None) -> Chosen:
    """Sentence ``number`` of a corpus, to be drawn."""
    row = corpus.row(number)
    name = f"sentence {number}"
    place = f"document {row.document}, position {row.position}, line {row.line}"
    return Chosen(name, place, row.sentence, kinds_of(row.sentence, tree, f"{name} of {corpus.path}"))


def find(corpus: ParsedCorpus, text: str) -> np.ndarray:
    """Numbers of the sentences that hold a text, whatever its case, ``(k,)``; their words are joined by blanks.

    Raises:
        InputError: if there are none.
    """
    words = pa.list_(pa.string())
    holds = [
        pc.match_substring(pc.binary_join(corpus.shard(shard)["tokens"].cast(words), " "), text, ignore_case=True)
        for shard in range(corpus.n_shards)
    ]
    found = np.flatnonzero(np.concatenate([each.to_numpy() for each in holds]))
    if not len(found):
        raise InputError(f"--grep {text!r}: no sentence of {corpus.path} holds it: give tokens, with blanks between")
    return found


def drawn_at_random(numbers: np.ndarray, n: int, seed: int) -> list[int]:
    """So many of the numbers, or all if there are fewer, in order."""
    if n < 1:
        raise InputError(f"--random {n}: give at least 1")
    return sorted(np.random.default_rng(seed).choice(numbers, min(n, len(numbers)), replace=False).tolist())


def kinds_of(sentence: ParsedSentence, tree: str | None, name: str) -> list[str]:
    """The kinds of tree to draw of a sentence: the one that is asked for, or those that it has.

    Raises:
        InputError: if it has no such tree.
    """
    has = {"constituency": sentence.has_constituents, "dependency": sentence.has_dependencies}
    if tree and not has[tree]:
        raise InputError(f"--tree {tree}: {name} has none: leave --tree out, or parse with another --parser")
    return [tree] if tree else [kind for kind, there in has.items() if there]
