"""Which sentences of a parsed corpus the rules of ``perturbations`` take, and how the corpus spells words."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.evaluation.parses import Parses
from structviews.evaluation.perturbing.perturbations import Spelling
from structviews.runtime.arrays import Array

SHORTEST, LONGEST = 4, 28
INNER_MARKS = (",", "-", "$", "%")
# A participle may be rarer than the past tense; wrong tags of a few "took" or "began" are rarer still.
LEAST_SHARE = 0.2


def check_english(corpus: ParsedCorpus) -> None:
    """Raise InputError unless a corpus is of English and has both kinds of trees."""
    if (language := corpus.parser.get("language", "en")) != "en":
        remedy = "the rules are for English: give an English corpus"
        raise InputError(f"{corpus.path}: in the language {language!r}: {remedy}")
    corpus.require("dependency")
    corpus.require("constituency")


def check_tags(corpus: ParsedCorpus, parses: Parses) -> None:
    """Raise InputError unless the sentences that were read from a corpus have tags."""
    if "tags" in parses.lacking:
        remedy = "parse the text again with the parser builtin"
        raise InputError(f"{corpus.path} has no part-of-speech tags (parser {corpus.parser['name']}): {remedy}")


def are_plain(parses: Parses) -> Array:
    """Whether sentences end with a full stop and have no quotes, brackets, dashes and the like; (B,) bool."""
    last = parses.positions == parses.lengths[parses.sentences] - 1
    stop = parses.words.isin(".")
    wrong = np.where(last, ~stop, parses.is_punctuation & ~parses.words.isin(*INNER_MARKS))
    return np.bincount(parses.sentences[wrong], minlength=len(parses)) == 0


def spelling_of(parts: Iterable[Parses]) -> Spelling:
    """How sentences, part by part, spell words; "killed" is a participle like its past tense, "took" is not."""
    past, participle, lower = Counter[str](), Counter[str](), set[str]()
    for parses in parts:
        names = parses.words.names
        lower.update(name for name in names if name[:1].islower())
        for tag, counts in (("VBD", past), ("VBN", participle)):
            found = np.bincount(parses.words.ids[parses.tags.isin(tag)], minlength=len(names))
            for i in np.flatnonzero(found).tolist():
                counts[names[i].lower()] += int(found[i])
    alike = (name for name, count in past.items() if participle[name] >= LEAST_SHARE * count)
    return Spelling(frozenset(lower), frozenset(alike))
