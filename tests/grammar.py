"""Parsed sentences for tests of probing: from brackets, with random annotation, and from a small grammar."""

import random
from dataclasses import replace

from nltk.tree import Tree
from trees_for_tests import random_sentence

from structviews.corpus.layout import Row
from structviews.corpus.sentence import ParsedSentence
from structviews.parsing.binarise import binarise

TAGS = ("NN", "NNS", "VBZ", "VBD", "VBP", "IN", "DT", "CC", "NNP", ".", ",")
RELATIONS = ("nsubj", "nsubj:pass", "obj", "obl", "nmod", "case", "punct", "conj")
LABELS = ("", "", "S", "NP", "VP", "S+VP", "SBAR+S+VP", "PP")
NOUNS = tuple(f"noun{i}" for i in range(600))
VERBS = tuple(f"verb{i}" for i in range(60))
ADVERBS = tuple(f"adverb{i}" for i in range(40))
PREPOSITIONS = ("on", "with")


def bracketed(text: str, heads=(), relations=()) -> ParsedSentence:
    """A sentence from its bracketed tree."""
    tree = binarise(Tree.fromstring(text))
    return ParsedSentence(tree.tokens, tree.tags, tuple(heads), tuple(relations), tree.left, tree.right, tree.labels)


def annotated(n: int, rng: random.Random) -> ParsedSentence:
    """Random trees with random tags, relations and labels."""
    sentence = random_sentence(n, rng)
    root_label = rng.choice([label for label in LABELS if label])
    relations = tuple(rng.choice(RELATIONS) if head else "root" for head in sentence.heads)
    tags = tuple(rng.choice(TAGS) for _ in range(n))
    labels = (*(rng.choice(LABELS) for _ in range(2 * n - 2)), root_label)
    return replace(sentence, tags=tags, relations=relations, labels=labels)


def noun_of(rng: random.Random) -> str:
    """A noun; some are frequent, most are rare."""
    return NOUNS[int(len(NOUNS) * rng.random() ** 2)]


def clause(rng: random.Random, capital: bool) -> tuple[str, list[int], list[str]]:
    """``the noun verbs the noun on the noun``: its bracket, heads from 1 (0 for the verb's own), relations."""
    verb = rng.choice(VERBS)
    ending, tag = rng.choice((("s", "VBZ"), ("ed", "VBD")))
    (subject, s_tag), (thing, o_tag) = (
        rng.choice(((noun, "NN"), (noun + "s", "NNS"))) for noun in (noun_of(rng), noun_of(rng))
    )
    of_noun = rng.random() < 0.5
    phrase = f"(PP (IN {rng.choice(PREPOSITIONS)}) (NP (DT the) (NN {noun_of(rng)})))"
    thing = f"(NP (DT the) ({o_tag} {thing}))"
    things = f"(NP {thing} {phrase})" if of_noun else f"{thing} {phrase}"
    bracket = f"(NP (DT {'The' if capital else 'the'}) ({s_tag} {subject})) (VP ({tag} {verb}{ending}) {things})"
    heads = [2, 3, 0, 5, 3, 8, 8, 5 if of_noun else 3]
    relations = ["det", "nsubj", "root", "det", "obj", "case", "det", "nmod" if of_noun else "obl"]
    if rng.random() < 0.5:
        where = rng.randint(0, 5)
        bracket = f"{bracket[:-1]}{''.join(f' (ADVP (RB {rng.choice(ADVERBS)}))' for _ in range(where))})"
        heads += [3] * where
        relations += ["advmod"] * where
    return bracket, heads, relations


def sentence(rng: random.Random) -> ParsedSentence:
    """One clause, or two with a conjunction between them."""
    first, heads, relations = clause(rng, capital=True)
    if rng.random() < 0.6:
        adverb = rng.random() < 0.3
        shift = 2 if adverb else 0
        before = f"(ADVP (RB {rng.choice(ADVERBS)})) (, ,) " if adverb else ""
        heads = [3 + shift] * shift + [head + shift if head else 0 for head in heads] + [3 + shift]
        return bracketed(f"(S {before}{first} (. .))", heads, ["advmod", "punct"][:shift] + relations + ["punct"])
    second, other_heads, other_relations = clause(rng, capital=False)
    n = len(heads)
    verb = n + 1 + 3
    heads = [*heads, verb, *(head + n + 1 if head else 3 for head in other_heads), 3]
    relations = [*relations, "cc", *("conj" if r == "root" else r for r in other_relations), "punct"]
    return bracketed(f"(S (S {first}) (CC and) (S {second}) (. .))", heads, relations)


def grammar_rows(n: int, per_document: int = 10, seed: int = 0) -> list[Row]:
    """Documents of the grammar's sentences."""
    rng = random.Random(seed)
    return [Row(i // per_document, i % per_document, i + 1, sentence(rng)) for i in range(n)]
