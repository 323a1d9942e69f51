"""The sentences that rules make of a parsed corpus, as a source of the parsing job."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from structviews.corpus.layout import BYTE_WORDS, MANIFEST, MODELS, PERTURBED
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.evaluation.parses import Parses
from structviews.evaluation.perturbing import altering
from structviews.evaluation.perturbing.perturbations import KINDS, Clause, Perturbation
from structviews.parsing.backends import for_text
from structviews.parsing.parser import Options
from structviews.parsing.sources import ParseText
from structviews.parsing.text import RawSentence, Repairs, survey


def training_rules(names: Sequence[str] = ()) -> list[Perturbation]:
    """The rules with these names, in the order of the table; by default all whose sentences are grammatical.

    InputError if there is no such rule, or its sentences are not grammatical.
    """
    rules = [kind for kind in KINDS.values() if kind.grammatical]
    for name in names:
        if name not in (kind.name for kind in rules):
            why = "makes ungrammatical sentences" if name in KINDS else "no such rule"
            raise InputError(f"--rules {name}: {why}: choose from {', '.join(kind.name for kind in rules)}")
    return [kind for kind in rules if not names or kind.name in names]


def counts_by_rule(corpus: ParsedCorpus) -> dict[str, int]:
    """How many sentences of a perturbed corpus each rule made."""
    found = Counter(number for table in corpus.tables() for number in table["position"].to_numpy().tolist())
    return {name: found[number] for number, name in enumerate(corpus.manifest["settings"]["rules"])}


class PerturbedSource:
    """What each of ``rules`` makes of each plain English sentence of a corpus, and the ``work`` that parses it.

    A sentence's ``document`` is the index of its source sentence, and its ``position`` the index of its rule. Random
    choices depend on the seed, the rule's name and the source sentence alone. The ``parser`` of the new sentences, on
    ``device``, is by default the corpus's own, or the built-in one if the corpus came from a treebank.

    InputError if the corpus is of another language, lacks trees or tags, or no rule fits any of its sentences.
    """

    def __init__(
        self, corpus: ParsedCorpus, rules: Sequence[Perturbation], seed: int, parser: str = "", device: str = ""
    ) -> None:
        altering.check_english(corpus)
        self.corpus, self.rules, self.seed = corpus, rules, seed
        parser = parser or for_text(corpus.parser["name"])
        models = Path(corpus.manifest.get(MODELS, ""))
        options = Options(models=models if MODELS in corpus.manifest and models.is_dir() else None, device=device)
        # A rule adds a few words: node numbers still fit in a byte.
        self.work = ParseText(parser, options, tokenised=True, max_tokens=BYTE_WORDS)
        # As one text whose lines are the corpus's sentences; the manifest identifies all of it.
        text = survey(corpus.path / MANIFEST, str(corpus.path))
        self.files = [replace(text, sha256=corpus.fingerprint, lines=len(corpus))]
        self.note, self.repairs = "", Repairs(options.language)  # there are none
        self._spelling = altering.spelling_of(self._parts())
        if next(self.sentences(), None) is None:
            names = ", ".join(rule.name for rule in rules)
            remedy = "give a larger corpus, or other rules"
            raise InputError(f"{corpus.path}: no sentence that can be altered by {names}: {remedy}")

    def describe(self) -> dict[str, Any]:
        """The manifest's entries about the source, without those of the work."""
        settings = {"rules": [rule.name for rule in self.rules], "seed": self.seed}
        return {
            "sources": self.corpus.manifest["sources"],
            "settings": {"tokenised": True, "max_tokens": self.work.max_tokens, **settings},
            PERTURBED: {"corpus": self.corpus.fingerprint, "keeps": [rule.keeps for rule in self.rules]},
            **({MODELS: str(self.work.options.models)} if self.work.options.models else {}),
        }

    def sentences(self) -> Iterator[RawSentence]:
        """What the rules make of each sentence, in the order of the corpus and of the rules."""
        for parses in self._parts():
            for index in np.flatnonzero(altering.are_plain(parses)).tolist():
                clause, row = Clause(parses.sentence(index), self._spelling), int(parses.rows[index])
                for number, rule in enumerate(self.rules):
                    random = np.random.default_rng([self.seed, row, *rule.name.encode()])
                    if words := rule.form_of(clause, random):
                        yield RawSentence(row, number, row + 1, " ".join(words))

    def _parts(self) -> Iterator[Parses]:
        for parses in Parses.by_shard(self.corpus, altering.SHORTEST, altering.LONGEST):
            altering.check_tags(self.corpus, parses)
            yield parses
