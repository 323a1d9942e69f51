"""Choosing the sentences and trees to show."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError

# Number of matching sentences to show, unless some are sampled at random.
FIRST = 10


class Chosen(NamedTuple):
    """A sentence to draw.

    Attributes:
        name: its name in headings.
        place: its place in the corpus and the source; may be empty.
        sentence: the words and their trees.
        kinds: which trees to draw: ``constituency``, ``dependency`` or both.
    """

    name: str
    place: str
    sentence: ParsedSentence
    kinds: list[str]

    @property
    def heading(self) -> str:
        """Name and place; empty if there is no place."""
        return f"{self.name}: {self.place}" if self.place else ""


def sentence_to_draw(text: str, sentence: ParsedSentence, tree: str | None) -> Chosen:
    """A sentence to draw that is not from a corpus; ``tree`` as for ``kinds_of``."""
    return Chosen("sentence", "", sentence, kinds_of(sentence, tree, repr(text[:60])))


def choose(
    corpus: ParsedCorpus, sentence: int | None, grep: str | None, random: int | None, *, seed: int, tree: str | None
) -> tuple[list[Chosen], str]:
    """Choose sentences of a corpus.

    Args:
        corpus: the corpus.
        sentence: number of a single sentence.
        grep: only sentences that contain this text.
        random: number of sentences to sample, from all or from those that contain ``grep``.
        seed: seed of the sample.
        tree: kind of tree to draw; None for all kinds that the corpus has.

    Returns:
        The sentences, and a note for the user, which may be empty.

    Raises:
        InputError: if there is no such sentence or tree.
    """
    if sentence is not None:
        if grep is not None or random is not None:
            raise InputError(f"--sentence {sentence} selects one sentence: omit --grep and --random")
        numbers, note = [sentence], ""
    else:
        found = np.arange(len(corpus)) if grep is None else find(corpus, grep)
        numbers = found[:FIRST].tolist() if random is None else drawn_at_random(found, random, seed)
        left_out = random is None and len(found) > FIRST
        note = f"the first {FIRST} of {len(found):,}; use --random {FIRST} for a random sample" if left_out else ""
    return [chosen(corpus, number, tree) for number in numbers], note


def chosen(corpus: ParsedCorpus, number: int, tree: str | None) -> Chosen:
    """Sentence ``number`` of a corpus, as one to draw."""
    row = corpus.row(number)
    name = f"sentence {number}"
    place = f"document {row.document}, position {row.position}, line {row.line}"
    return Chosen(name, place, row.sentence, kinds_of(row.sentence, tree, f"{name} of {corpus.path}"))


def find(corpus: ParsedCorpus, text: str) -> np.ndarray:
    """Numbers ``(k,)`` of the sentences that contain a text, ignoring case; words are joined by spaces.

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
        raise InputError(f"--grep {text!r}: not found in {corpus.path}: separate the tokens by single spaces")
    return found


def drawn_at_random(numbers: np.ndarray, n: int, seed: int) -> list[int]:
    """A sample of ``n`` of the numbers, or all if there are fewer, in order."""
    if n < 1:
        raise InputError(f"--random {n}: give at least 1")
    return sorted(np.random.default_rng(seed).choice(numbers, min(n, len(numbers)), replace=False).tolist())


def kinds_of(sentence: ParsedSentence, tree: str | None, name: str) -> list[str]:
    """The kinds of tree to draw for a sentence: ``tree`` if given, else all that it has.

    Raises:
        InputError: if the sentence has no such tree.
    """
    has = {"constituency": sentence.has_constituents, "dependency": sentence.has_dependencies}
    if tree and not has[tree]:
        raise InputError(f"--tree {tree}: {name} has no such tree: omit --tree, or parse with another --parser")
    return [tree] if tree else [kind for kind, there in has.items() if there]
