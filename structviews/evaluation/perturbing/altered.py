"""Draw sentences of a parsed English corpus that the rules of ``perturbations`` fit, and alter them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError, unknown
from structviews.evaluation.perturbing.clause import Clause, Spelling
from structviews.evaluation.perturbing.perturbations import CONTRASTS, KINDS, Perturbation
from structviews.evaluation.probing.changes import punctuation
from structviews.evaluation.probing.parses import Parses
from structviews.runtime.arrays import Array

SHORTEST, LONGEST = 4, 28
READ = 200_000
"""Most sentences that are read, from shards drawn at random."""
INNER_MARKS = (",", "-", "$", "%")
# A participle may be rarer than the past tense; wrong tags of a few "took" or "began" are rarer still.
LEAST_SHARE = 0.2

Tokens = tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """Sentences that a rule fits, or both rules of a contrast, in random order.

    Attributes:
        kinds: the perturbation; of a contrast, the one that keeps the meaning and the one that changes it.
        documents: (n,) document of each sentence.
        originals: the sentences' words.
        altered: for each kind, the words of each sentence after it.
    """

    kinds: tuple[Perturbation, ...]
    documents: Array
    originals: list[Tokens]
    altered: list[list[Tokens]]

    def __len__(self) -> int:
        return len(self.originals)

    @property
    def name(self) -> str:
        """The kind, or what the contrast asks."""
        return name_of(self.kinds)


def name_of(group: Sequence[Perturbation]) -> str:
    """The name of a kind alone, or of a contrast's two."""
    return " nearer than ".join(kind.name for kind in group)


def chosen_kinds(names: Sequence[str]) -> list[Perturbation]:
    """The perturbations with these names, in the order of the table; all of them for the single name ``all``.

    Raises:
        InputError: for an unknown name, or none.
    """
    if list(names) == ["all"]:
        return list(KINDS.values())
    for name in names:
        if name not in KINDS:
            raise unknown("perturbation", name, [*KINDS, "all"])
    if not names:
        raise InputError(f"--by: empty: choose from {', '.join(KINDS)}, or all")
    return [kind for name, kind in KINDS.items() if name in names]


def with_contrasts(kinds: Sequence[Perturbation]) -> list[tuple[Perturbation, ...]]:
    """Each kind alone, then the pairs of ``CONTRASTS`` of which both are among the kinds."""
    pairs = [(KINDS[keeping], KINDS[changing]) for keeping, changing in CONTRASTS]
    return [*((kind,) for kind in kinds), *(pair for pair in pairs if set(pair) <= set(kinds))]


def check_corpus(corpus: ParsedCorpus) -> None:
    """Raise InputError unless a corpus is English, as far as it says, and has both kinds of tree."""
    language = corpus.parser.get("language", "en")
    if language != "en":
        raise InputError(
            f"{corpus.path}: in the language {language!r}: the rules are for English: give an English corpus"
        )
    corpus.require("dependency")
    corpus.require("constituency")


def draw(corpus: ParsedCorpus, kinds: Sequence[Perturbation], most: int, seed: int) -> list[Sample]:
    """At most ``most`` sentences for each kind and each contrast; those with fewer than two are left out.

    What is drawn for one does not depend on which others are asked for.

    Raises:
        InputError: if the corpus is of another language, lacks trees or tags, or has no sentence that a rule fits.
    """
    check_corpus(corpus)
    rng = np.random.default_rng(seed)
    parses = Parses.read(corpus, SHORTEST, LONGEST, READ, rng)
    if "tags" in parses.lacking:
        raise InputError(
            f"{corpus.path} has no part-of-speech tags (parser {corpus.parser['name']}): "
            "parse the text again with the parser builtin"
        )
    order = rng.permutation(plain_sentences(parses)) if len(parses) else np.zeros(0, dtype=np.int64)
    samples = alter(parses, order, with_contrasts(kinds), most, seed) if len(order) else []
    enough = [sample for sample in samples if len(sample) > 1]
    if not enough:
        raise InputError(
            f"{corpus.path}: no two sentences that can be altered by {', '.join(kind.name for kind in kinds)}: "
            "give a larger corpus, or other kinds"
        )
    return enough


def alter(
    parses: Parses, order: Array, groups: Sequence[tuple[Perturbation, ...]], most: int, seed: int
) -> list[Sample]:
    """The first ``most`` sentences in this order (k,) that all rules of a group fit and change, for each group."""
    spelling = spelling_of(parses)
    # The names are part of the seed, so that a group's random numbers do not depend on the other groups.
    generators = [np.random.default_rng([seed, *" ".join(kind.name for kind in group).encode()]) for group in groups]
    found: list[dict[int, list[Tokens]]] = [{} for _ in groups]
    for index in order.tolist():
        clause = Clause(_sentence(parses, index), spelling)
        for group, random, forms in zip(groups, generators, found, strict=True):
            if len(forms) < most and (altered := _altered(clause, group, random)):
                forms[index] = [clause.sentence.tokens, *altered]
        if min(map(len, found)) == most:
            break
    return [_sample(parses, group, forms) for group, forms in zip(groups, found, strict=True)]


def _altered(clause: Clause, group: tuple[Perturbation, ...], random: np.random.Generator) -> list[Tokens]:
    """The sentence after each rule; empty if one does not fit or changes nothing."""
    altered = []
    for kind in group:
        words = kind.rule(clause, random)
        if not words or clause.written(words) == clause.sentence.tokens:
            return []
        altered.append(clause.written(words))
    return altered


def _sample(parses: Parses, group: tuple[Perturbation, ...], forms: dict[int, list[Tokens]]) -> Sample:
    chosen = np.array(list(forms), dtype=np.int64)
    originals, *altered = ([each[k] for each in forms.values()] for k in range(len(group) + 1))
    return Sample(group, parses.documents[chosen], originals, altered)


def plain_sentences(parses: Parses) -> Array:
    """The sentences that end with a full stop and have no quotes, brackets, dashes and the like, each once; (k,)."""
    last = parses.places == parses.lengths[parses.sentences] - 1
    stop = parses.words.isin(".")
    wrong = np.where(last, ~stop, punctuation(parses.words) & ~parses.words.isin(*INNER_MARKS))
    noise = np.random.default_rng(0).integers(2**64, size=(LONGEST, len(parses.words.names)), dtype=np.uint64)
    # Equal sentences have equal sums, others almost never.
    sums = np.add.reduceat(noise[parses.places, parses.words.ids], parses.starts)
    first = np.zeros(len(parses), dtype=bool)
    first[np.unique(sums, return_index=True)[1]] = True
    plain: Array = np.flatnonzero(first & (np.bincount(parses.sentences[wrong], minlength=len(parses)) == 0))
    return plain


def spelling_of(parses: Parses) -> Spelling:
    """How these sentences spell words; "killed" is a participle like its past tense, "took" is not."""
    words = parses.words.mapped([name.lower() for name in parses.words.names])
    past, participle = (
        np.bincount(words.ids[parses.tags.isin(tag)], minlength=len(words.names)) for tag in ("VBD", "VBN")
    )
    alike = words.names[(past > 0) & (participle > 0) & (participle >= LEAST_SHARE * past)]
    return Spelling(frozenset(name for name in parses.words.names if name[:1].islower()), frozenset(alike))


def _sentence(parses: Parses, index: int) -> ParsedSentence:
    """One of the sentences; its trees were checked when the corpus was read."""
    n, start = int(parses.lengths[index]), int(parses.starts[index])
    words, inner, nodes = slice(start, start + n), slice(start - index, start - index + n - 1), 2 * start - index
    labels = parses.labels.ids[nodes : nodes + 2 * n - 1]
    named = [
        tuple(column.names[column.ids[words]]) for column in (parses.words, parses.tags, parses.relations)
    ]  # fmt: skip
    numbered = (parses.heads[words], parses.left[inner], parses.right[inner])
    heads, left, right = (tuple(each.tolist()) for each in numbered)
    tokens, tags, relations = named
    return ParsedSentence.unchecked(tokens, tags, heads, relations, left, right, tuple(parses.labels.names[labels]))
