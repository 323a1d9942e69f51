"""Compare parsers' unlabelled attachment on gold tokens of Universal Dependencies, and their rates.

    python scripts/bench.py attachment gum/dev.conllu ewt/dev.conllu --parsers builtin,spacy:en_core_web_sm

Punctuation is not counted: its attachment is a convention. A spaCy pipeline for English has another scheme
its trees are turned into UD's where the two differ by rule: prepositions depend on their nouns, `be` on its
predicate, a currency sign governs its number, all conjuncts depend on the first, and `and` on the conjunct after it.
What differs by judgement, such as the head of a name, is left as it is. The parsers take turns on the same sentences,
on one thread; the processor time is counted. Rates are medians over the rounds.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.measure import race, table
from structviews.corpus.sentence import ParsedSentence
from structviews.parsing.specification import load
from structviews.training.parser_training import read_treebanks

PREPOSITIONS, OBJECTS, PREDICATES = {"prep", "agent", "dative"}, {"pobj", "pcomp", "prep"}, {"attr", "acomp"}
BE = {"be", "am", "is", "are", "was", "were", "been", "being", "'s", "'m", "'re", "’s", "’m", "’re"}


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("treebanks", nargs="+", type=Path, help="files of CoNLL-U")
    parser.add_argument("--parsers", default="builtin", help="comma-separated, as --parser takes them")
    parser.add_argument("--rounds", type=int, default=3)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """UAS by parser and treebank, and words per second over all of them."""
    torch.set_num_threads(1)
    parsers = {name: load(name) for name in options.parsers.split(",")}
    gold = {str(path): read_treebanks([path])[0].sentences for path in options.treebanks}
    tokens = [sentence.tokens for sentences in gold.values() for sentence in sentences]
    runs = {name: lambda _, each=each: each.parse(tokens) for name, each in parsers.items()}
    times = race(runs, options.rounds, clock=time.process_time)
    rates = {name: sum(map(len, tokens)) / median(seconds) for name, seconds in times.items()}
    return {
        name: {"words/s": rates[name]} | {path: attachment(parsers[name], each) for path, each in gold.items()}
        for name in parsers
    }


def attachment(parser: Any, gold: Sequence[ParsedSentence]) -> float:
    """UAS without punctuation, per cent."""
    right = words = 0
    for guess, truth in zip(parser.parse([each.tokens for each in gold]), gold, strict=True):
        heads = as_ud(guess) if "nsubjpass" in guess.relations or "ROOT" in guess.relations else guess.heads
        counted = [relation != "punct" for relation in truth.relations]
        right += sum(count and a == b for count, a, b in zip(counted, heads, truth.heads, strict=True))
        words += sum(counted)
    return 100 * right / words


class Tree:
    """A tree while it is turned: heads and relations by word from 1; 0 is the root."""

    def __init__(self, sentence: ParsedSentence) -> None:
        self.words = ["", *sentence.tokens]
        self.heads = [0, *sentence.heads]
        self.relations = ["", *sentence.relations]

    def children(self, word: int) -> list[int]:
        """Its dependents, in order."""
        return [each for each in range(1, len(self.heads)) if self.heads[each] == word]

    def depth(self, word: int) -> int:
        """Its distance from the root."""
        return 1 + self.depth(self.heads[word]) if word else 0

    def promote(self, child: int, left: str) -> None:
        """Make a child take its head's place, with the head and its other dependents below it."""
        head = self.heads[child]
        for each in self.children(head):
            self.heads[each] = child
        self.heads[child], self.relations[child] = self.heads[head], self.relations[head]
        self.heads[head], self.relations[head] = child, left


def as_ud(sentence: ParsedSentence) -> list[int]:
    """The heads ``(n,)`` that Universal Dependencies would have; see above."""
    tree = Tree(sentence)
    order = range(1, len(tree.heads))
    for word in order:
        siblings = tree.children(tree.heads[word]) if tree.relations[word] == "cc" else []
        if after := [each for each in siblings if each > word and tree.relations[each] == "conj"]:
            tree.heads[word] = after[0]
    for word in order:
        while tree.relations[word] == "conj" and tree.relations[tree.heads[word]] == "conj":
            tree.heads[word] = tree.heads[tree.heads[word]]
    for word in sorted(order, key=tree.depth, reverse=True):
        children = tree.children(word)
        if tree.relations[word] in PREPOSITIONS:
            found = [each for each in children if tree.relations[each] in OBJECTS and each > word]
            if found:
                tree.promote(found[0], "case")
        elif tree.words[word].lower() in BE and "expl" not in {tree.relations[each] for each in children}:
            kinds = {tree.relations[each] for each in children} & PREDICATES or {"prep"}
            found = [each for each in children if tree.relations[each] in kinds]
            if found and not tree.relations[word].startswith("aux"):
                tree.promote(found[0], "cop")
    for word in order:
        if tree.words[word] in "$£€" and tree.relations[word] == "quantmod" and tree.heads[word]:
            tree.promote(word, "nummod")
    return tree.heads[1:]


def tables(found: dict[str, Any]) -> str:
    """The table for docs/parsers.md."""
    paths = [name for name in next(iter(found.values())) if name != "words/s"]
    rows = [[each, f"{row['words/s']:,.0f}", *(f"{row[path]:.2f}" for path in paths)] for each, row in found.items()]
    return str(table(["", "words/s", *(f"UAS, {path}" for path in paths)], rows))
