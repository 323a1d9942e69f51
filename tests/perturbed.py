"""Corpora with perturbed sentences, parsed by a control parser: quick, and any trees will do."""

from corpora import opened, write_corpus
from grammar import grammar_rows

from structviews.evaluation.perturbing.perturbed_source import PerturbedSource, training_rules
from structviews.parsing.pipeline import parse_corpus

RULES = ("cleft", "fronted", "swapped-arguments", "swapped-cleft")


def grammar_corpus(folder, sentences=60, seed=0):
    return opened(write_corpus(folder, grammar_rows(sentences, seed=seed), shard_size=25))


def source_of(corpus, rules=RULES, seed=1):
    return PerturbedSource(corpus, training_rules(rules), seed, "trivial:balanced")


def perturbed(corpus, rules=RULES, seed=1):
    """What rules make of a corpus, in a folder beside it."""
    return parse_corpus(source_of(corpus, rules, seed), corpus.path.with_suffix(".perturbed"))[0]
