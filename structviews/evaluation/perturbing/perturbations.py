"""The table of perturbations: rules over the trees of an English sentence that make another sentence of it.

To add one, write a function below ``@perturbation(name, keeps)`` that takes a ``Clause`` and a random generator, and
returns the new words, or None for a sentence that it does not fit; the command and the tables find it. A rule reads
phrases on which both trees agree. Words are numbered from 0; relations are those of Universal Dependencies, tags and
labels those of the Penn Treebank.

After Zhu, Li and de Melo (2018), Ettinger (2018), Dasgupta et al. (2018), Naik et al. (2018), McCoy, Pavlick and Linzen
(2019), Zhang, Baldridge and He (2019), and Sinha et al. (2021); docs/perturbations.md has the references.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from structviews.corpus.sentence import ParsedSentence


def listed(words: str) -> frozenset[str]:
    """The words of a list that is separated by white space."""
    return frozenset(words.split())


NOUNS = ("NN", "NNS", "NNP", "NNPS")
PLURAL = ("NNS", "NNPS")
NOMINATIVE = {"me": "I", "him": "he", "her": "she", "us": "we", "them": "they", "it": "it", "you": "you"}
ACCUSATIVE = {nominative: accusative for accusative, nominative in NOMINATIVE.items()}
PLURAL_PRONOUNS = ("we", "us", "they", "them", "you")
# What may stand within a noun phrase: no clauses, coordinations, appositions or asides.
WITHIN_PHRASE = listed("amod advmod case compound det det:predet fixed flat nmod nmod:poss nmod:unmarked nummod")
# What may stand before a noun whose place another one takes, and the roles of such nouns.
BEFORE_NOUN = listed("amod compound det nummod")
ROLES = listed("nsubj nsubj:pass obj iobj obl obl:agent nmod")
TIMES = listed(
    "time times moment moments minute minutes hour hours day days night nights morning evening week weeks month months "
    "year years decade decades century centuries way ways case kind kinds type types sort sorts form forms"
)
# What may depend on the verb of a clause whose arguments trade places: nothing that refers to one of them.
AROUND_VERB = listed("advmod cc nsubj obj obl obl:unmarked punct")
# Verbs without a passive (Quirk et al. 1985, 10.14), and verbs of measuring, whose object is no participant.
MIDDLE = listed(
    "had got lacked resembled suited became weighed lasted equaled equalled fit meant cost totaled totalled "
    "averaged numbered measured exceeded remained starred contained comprised included possessed boasted wanted needed"
)
# Objects that are part of the verb: "took place".
IDIOMS = listed("care charge effect place root shape")
QUANTIFIERS = listed(
    "no every each any few little all both either neither many most some none nobody nothing everybody everyone "
    "everything anybody anyone anything somebody someone something"
)
# Heads that agree with the noun after them, or with the speaker's mind.
QUANTITIES = listed("number lot couple majority variety rest half part percent %")


class Span(NamedTuple):
    """Some words of a sentence."""

    start: int
    end: int  # after the last one


class Transitive(NamedTuple):
    """A clause in the simple past: subject, adverbs, ``verb``, then at once the object."""

    subject: Span
    verb: int
    object: Span


class Spelling(NamedTuple):
    """The words of a corpus in lower case, and its past tenses that it also has as a participle, in lower case."""

    lower: frozenset[str]
    participles: frozenset[str]


class Clause:
    """A sentence with tags and both trees.

    The first of its ``words`` is in lower case unless it is a name, or has a capital everywhere in the corpus.
    """

    def __init__(self, sentence: ParsedSentence, spelling: Spelling) -> None:
        first, *others = sentence.tokens
        lower = first[:1].lower() + first[1:]
        is_name = sentence.tags[0] in ("NNP", "NNPS") or first == "I" or lower not in spelling.lower
        self.words = [first if is_name else lower, *others]
        self.tags, self.relations, self.sentence = sentence.tags, sentence.relations, sentence
        self.heads = [head - 1 for head in sentence.heads]
        self.root = self.heads.index(-1)
        self.participles = spelling.participles

    @cached_property
    def children(self) -> list[list[int]]:
        """The dependents of each word, from left to right."""
        found: list[list[int]] = [[] for _ in self.words]
        for word, head in enumerate(self.heads):
            if head >= 0:
                found[head].append(word)
        return found

    @cached_property
    def constituents(self) -> dict[Span, list[str]]:
        """The labels of each constituent, from the top."""
        return {Span(start, end): label.split("+") for start, end, label in self.sentence.spans()}

    def dependents(self, head: int, *relations: str) -> list[int]:
        """The dependents of a word with one of these relations."""
        return [child for child in self.children[head] if self.relations[child] in relations]

    def below(self, top: int) -> list[int]:
        """The words of a dependency subtree, its top first."""
        found = [top]
        for word in found:
            found += self.children[word]
        return found

    def constituent(self, top: int, label: str) -> Span | None:
        """The words of a dependency subtree, without a comma before them, if they are a constituent with this label."""
        words = sorted(self.below(top))
        words = words[self.words[words[0]] == "," :]
        if not words:
            return None
        span = Span(words[0], words[-1] + 1)
        joined = span.end - span.start == len(words)
        return span if joined and label in self.constituents.get(span, ()) else None

    def noun_phrase(self, top: int) -> Span | None:
        """The words of a noun with its modifiers, or of a personal pronoun; None for any other phrase."""
        if self.tags[top] == "PRP":
            has_cases = self.words[top].lower() in {*NOMINATIVE, *ACCUSATIVE, "i"}
            return Span(top, top + 1) if has_cases and not self.children[top] else None
        if self.tags[top] not in NOUNS or self.words[top].lower() in QUANTITIES:
            return None
        inside = self.below(top)[1:]
        plain = all(self.relations[word] in WITHIN_PHRASE or self.tags[word] == "HYPH" for word in inside)
        return self.constituent(top, "NP") if plain else None

    def base_phrase(self, noun: int) -> Span | None:
        """A noun in a role of its clause or of another noun, with what stands before it, if that is a phrase.

        Phrases with *of*, *on* and the like may follow it, unless it is a name, and then belong to whatever takes its
        place. None of times and quantities, of *every dog* and *his dog*, nor of a bare singular, as in "in fact".
        """
        if self.tags[noun] not in NOUNS or self.relations[noun] not in ROLES:
            return None
        before = [child for child in self.children[noun] if child < noun and self.relations[child] != "case"]
        after = {self.relations[child] for child in self.children[noun] if child > noun}
        span = Span(min((word for child in before for word in self.below(child)), default=noun), noun + 1)
        plain = "PRP$" not in self.tags[slice(*span)] and {self.relations[child] for child in before} <= BEFORE_NOUN
        plain &= after <= (set() if self.tags[noun] in ("NNP", "NNPS") else {"nmod"})
        bare = span.start == noun and self.tags[noun] == "NN"
        named = {self.words[noun].lower()} & (QUANTITIES | TIMES) or self.words[span.start].lower() in QUANTIFIERS
        return span if plain and not (bare or named) and "NP" in self.constituents.get(span, ()) else None

    def is_pronoun(self, span: Span) -> bool:
        """Whether a noun phrase is a personal pronoun."""
        return self.tags[span.start] == "PRP"

    def is_plural(self, span: Span) -> bool:
        """Whether a noun phrase takes a verb in the plural."""
        if self.is_pronoun(span):
            return self.words[span.start].lower() in PLURAL_PRONOUNS
        top = next(word for word in range(*span) if not span.start <= self.heads[word] < span.end)
        return self.tags[top] in PLURAL

    @cached_property
    def subject(self) -> Span | None:
        """The noun phrase that is the root's only subject, if it stands before the root."""
        found = [child for child in self.children[self.root] if self.relations[child].startswith(("nsubj", "csubj"))]
        if len(found) != 1 or self.relations[found[0]] not in ("nsubj", "nsubj:pass") or found[0] > self.root:
            return None
        return self.noun_phrase(found[0])

    @cached_property
    def transitive(self) -> Transitive | None:
        """The clause, if its subject and object can trade places.

        The verb is one word in the simple past; the object comes directly behind it and refers to nobody else in the
        clause, as ``his`` and ``himself`` do.
        """
        verb = self.root
        if self.tags[verb] != "VBD" or self.words[verb].lower() in MIDDLE:
            return None
        objects, subject = self.dependents(verb, "obj"), self.subject
        around = {self.relations[child] for child in self.children[verb]}
        if len(objects) != 1 or not around <= AROUND_VERB or subject is None:
            return None
        patient = self.noun_phrase(objects[0])
        if patient is None or patient.start != verb + 1 or subject.end > verb:
            return None
        idiom = self.words[patient.start] in IDIOMS
        refers = "PRP$" in self.tags[slice(*patient)]
        between = set(self.tags[subject.end : verb]) <= {"RB"}
        return None if idiom or refers or not between else Transitive(subject, verb, patient)

    def in_case(self, span: Span, case: dict[str, str]) -> list[str]:
        """The words of a noun phrase as a subject (``NOMINATIVE``), or after a preposition (``ACCUSATIVE``)."""
        words = self.words[slice(*span)]
        if not self.is_pronoun(span):
            return words
        pronoun = words[0] if words[0] == "I" else words[0].lower()
        return [case.get(pronoun, pronoun)]

    def written(self, words: Iterable[str]) -> tuple[str, ...]:
        """The words as a sentence, which begins with a capital if this one does."""
        first, *others = words
        return (first[:1].upper() + first[1:] if self.sentence.tokens[0][:1].isupper() else first, *others)


Words = Sequence[str] | None
Rule = Callable[[Clause, np.random.Generator], Words]


class Perturbation(NamedTuple):
    """A rule of the table."""

    name: str
    keeps: bool  # whether what it makes has the meaning of the original
    rule: Rule
    grammatical: bool = True  # mostly; only such sentences are trained on

    def form_of(self, clause: Clause, random: np.random.Generator) -> tuple[str, ...] | None:
        """The sentence after the rule; None if it does not fit or changes nothing."""
        words = self.rule(clause, random)
        made = clause.written(words) if words else None
        return None if made == clause.sentence.tokens else made


KINDS: dict[str, Perturbation] = {}
# Forms with nearly the same words, of which one keeps the meaning and the other does not.
CONTRASTS = (("passive", "swapped-arguments"), ("passive", "swapped-passive"), ("cleft", "swapped-cleft"))

PREPOSITIONS = listed(
    "in on at during after before since until throughout within near under despite without among across"
)
SUBORDINATORS = listed("because when if although though while after before since until unless once")
# Adjectives that need a number, a definite article or an antecedent.
NO_QUALITIES = listed("other such many several few much more own same first last next only certain various")
NUMERALS = (
    *("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "twenty"),
    "thirty",
)
FIGURES = re.compile(r"[1-9]\d{0,2}(,\d{3})+|[1-9]\d*")
# A number is replaced by one between the same bounds: hours and months, days, years and so on keep their look.
BOUNDS = (2, 13, 32, 100, 1000, 1500, 2030, 10**4, 10**5, 10**6, 10**7, 10**8)
NEGATIVE = listed("not n't never no none nobody nothing neither nor without hardly barely")
# Verbs that mean the same with their subject and object swapped.
SYMMETRIC = listed("married met matched resembled neighbored bordered adjoined")
ARTICLES = ("a", "an")
FINITE = ("VBZ", "VBP", "VBD", "MD")


def perturbation(name: str, keeps: bool, grammatical: bool = True) -> Callable[[Rule], Rule]:
    """Decorator: enter a rule in the table."""

    def enter(rule: Rule) -> Rule:
        KINDS[name] = Perturbation(name, keeps, rule, grammatical)
        return rule

    return enter


@perturbation("passive", keeps=True)
def passive(clause: Clause, random: np.random.Generator) -> Words:
    """The dog bit the man. -> The man was bitten by the dog."""
    found = clause.transitive
    return found and _passive(clause, found, agent=found.subject, patient=found.object)


@perturbation("cleft", keeps=True)
def cleft(clause: Clause, random: np.random.Generator) -> Words:
    """The dog bit the man. -> It was the dog that bit the man."""
    subject = clause.subject
    if not subject or subject.start or _takes_no_focus(clause, subject) or clause.dependents(clause.root, "cop"):
        return None
    root = clause.children[clause.root]
    own_clause = any(clause.relations[child] in ("conj", "parataxis") for child in root)
    verbs = [*clause.dependents(clause.root, "aux", "aux:pass"), clause.root]
    if own_clause or clause.tags[min(verbs)] not in FINITE or clause.words[subject.end] == ",":
        return None
    copula = "was" if clause.tags[min(verbs)] == "VBD" else "is"
    return ["it", copula, *clause.words[slice(*subject)], "that", *clause.words[subject.end :]]


@perturbation("fronted", keeps=True)
def fronted(clause: Clause, random: np.random.Generator) -> Words:
    """The dog bit the man in the park. -> In the park, the dog bit the man."""
    last, subject = len(clause.words) - 1, clause.subject
    if not subject or subject.start or clause.dependents(clause.root, "conj", "parataxis"):
        return None
    for child in clause.dependents(clause.root, "obl", "advcl"):
        label, starts = ("SBAR", SUBORDINATORS) if clause.relations[child] == "advcl" else ("PP", PREPOSITIONS)
        span = clause.constituent(child, label)
        # Directly behind the verb it may be what the verb is about: "believes in ghosts".
        if span and span.end == last and span.start > clause.root + 1 and clause.words[span.start] in starts:
            end = span.start - (clause.words[span.start - 1] == ",")
            return [*clause.words[slice(*span)], ",", *clause.words[:end], clause.words[last]]
    return None


@perturbation("swapped-conjuncts", keeps=True)
def swapped_conjuncts(clause: Clause, random: np.random.Generator) -> Words:
    """The dog and the cat slept. -> The cat and the dog slept."""
    pairs = [(clause.heads[word], word) for word, relation in enumerate(clause.relations) if relation == "conj"]
    found = [spans for pair in pairs if (spans := _conjuncts(clause, *pair))]
    return _exchanged(clause, *found[random.integers(len(found))]) if found else None


@perturbation("swapped-arguments", keeps=False)
def swapped_arguments(clause: Clause, random: np.random.Generator) -> Words:
    """The dog bit the man. -> The man bit the dog."""
    found = _exchangeable(clause)
    return found and _exchanged(clause, found.subject, found.object)


@perturbation("swapped-passive", keeps=False)
def swapped_passive(clause: Clause, random: np.random.Generator) -> Words:
    """The dog bit the man. -> The dog was bitten by the man."""
    found = _exchangeable(clause)
    if not found or clause.is_plural(found.subject) != clause.is_plural(found.object):
        return None
    return _passive(clause, found, agent=found.object, patient=found.subject)


@perturbation("swapped-cleft", keeps=False)
def swapped_cleft(clause: Clause, random: np.random.Generator) -> Words:
    """The dog bit the man. -> It was the man that bit the dog."""
    found = _exchangeable(clause)
    if not found or found.subject.start or _takes_no_focus(clause, found.object):
        return None
    subject, behind = clause.words[slice(*found.subject)], clause.words[found.subject.end : found.verb + 1]
    rest = clause.words[found.object.end :]
    return ["it", "was", *clause.words[slice(*found.object)], "that", *behind, *subject, *rest]


@perturbation("swapped-modifiers", keeps=False)
def swapped_modifiers(clause: Clause, random: np.random.Generator) -> Words:
    """The black dog bit the old man. -> The old dog bit the black man."""
    found = [noun for noun in range(1, len(clause.words)) if _is_modified(clause, noun)]
    pairs = [pair for pair in combinations(found, 2) if _can_trade(clause, *pair)]
    if not pairs:
        return None
    one, other = pairs[random.integers(len(pairs))]
    return _exchanged(clause, Span(one - 1, one), Span(other - 1, other))


@perturbation("swapped-nouns", keeps=False)
def swapped_nouns(clause: Clause, random: np.random.Generator) -> Words:
    """A dog sleeps on the bench. -> The bench sleeps on a dog."""
    tags, words = clause.tags, clause.words
    found = [(noun, span) for noun in range(len(words)) if (span := clause.base_phrase(noun))]
    pairs = [
        (one, other)
        for (noun, one), (second, other) in combinations(found, 2)
        # The same tag, so that verbs still agree; a noun may stand in the phrase of another.
        if one.end <= other.start and tags[noun] == tags[second] and words[noun].lower() != words[second].lower()
    ]
    return _exchanged(clause, *pairs[random.integers(len(pairs))]) if pairs else None


@perturbation("numbers", keeps=False)
def numbers(clause: Clause, random: np.random.Generator) -> Words:
    """The dog bit two men in 1990. -> The dog bit two men in 1954."""
    found = [i for i, tag in enumerate(clause.tags) if tag == "CD" and _is_number(clause.words[i])]
    found = [i for i in found if not i or clause.words[i - 1] not in ARTICLES]
    if not found:
        return None
    at = found[random.integers(len(found))]
    others = [new for new in _numbers_like(clause.words[at], random) if new not in clause.words]
    return [*clause.words[:at], others[0], *clause.words[at + 1 :]] if others else None


@perturbation("negated", keeps=False)
def negated(clause: Clause, random: np.random.Generator) -> Words:
    """The dog will bite the man. -> The dog will not bite the man."""
    root, subject = clause.root, clause.subject
    if not subject or not NEGATIVE.isdisjoint(map(str.lower, clause.words)):
        return None
    if clause.dependents(root, "conj", "parataxis", "ccomp"):
        return None
    helping = clause.dependents(root, "aux", "aux:pass", "cop")
    first = min([*helping, root])
    if first < subject.end or clause.tags[first] not in FINITE:
        return None
    words = clause.words
    if helping or words[root].lower() in ("is", "are", "was", "were", "am"):
        return [*words[: first + 1], "not", *words[first + 1 :]]
    # The present without an ending is the form that "do" needs; other forms would have to be looked up.
    simple = clause.tags[root] == "VBP"
    return [*words[: subject.end], "do", "not", *words[subject.end :]] if simple else None


@perturbation("scrambled", keeps=False, grammatical=False)
def scrambled(clause: Clause, random: np.random.Generator) -> Words:
    """The dog bit the man. -> Bit man the the dog."""
    *words, last = clause.words
    return [*(words[i] for i in random.permutation(len(words))), last]


def _passive(clause: Clause, found: Transitive, agent: Span, patient: Span) -> Words:
    """The clause in the passive; its subject and object are ``agent`` and ``patient``, in any order."""
    words, verb = clause.words, clause.words[found.verb]
    before, behind = words[: found.subject.start], words[found.object.end :]
    if verb.lower() not in clause.participles or "by" in behind:
        return None
    adverbs = words[found.subject.end : found.verb]
    copula = "were" if clause.is_plural(patient) else "was"
    subject, by = clause.in_case(patient, NOMINATIVE), clause.in_case(agent, ACCUSATIVE)
    return [*before, *subject, copula, *adverbs, verb, "by", *by, *behind]


def _exchangeable(clause: Clause) -> Transitive | None:
    """The transitive clause, if its subject and its object can change places as they are."""
    found = clause.transitive
    if not found or clause.words[found.verb].lower() in SYMMETRIC:
        return None
    # "the man and his dog": the possessor would come after what is his.
    possessive = "PRP$" in clause.tags[slice(*found.subject)]
    return None if possessive or clause.is_pronoun(found.subject) or clause.is_pronoun(found.object) else found


def _takes_no_focus(clause: Clause, span: Span) -> bool:
    """Whether "It was ... that" cannot hold a phrase: pronouns, and what denotes nobody in particular."""
    return clause.is_pronoun(span) or clause.words[span.start].lower() in QUANTIFIERS


def _exchanged(clause: Clause, first: Span, second: Span) -> list[str]:
    """The words with two phrases in each other's place."""
    first, second = sorted((first, second))
    words = clause.words
    middle = [*words[slice(*second)], *words[first.end : second.start], *words[slice(*first)]]
    return [*words[: first.start], *middle, *words[second.end :]]


def _conjuncts(clause: Clause, first: int, second: int) -> tuple[Span, Span] | None:
    """Two coordinated nouns, both bare or both with a determiner only, and nothing that belongs to both."""
    own, others = clause.children[first], clause.children[second]
    joint = [child for child in others if clause.relations[child] == "cc"]
    of_first, of_second = [child for child in own if child != second], [child for child in others if child not in joint]
    nouns = clause.tags[first] in NOUNS and clause.tags[second] in NOUNS
    if not nouns or len(joint) != 1 or (of_first, of_second) not in (([], []), ([first - 1], [second - 1])):
        return None
    size = len(of_first)
    spans = Span(first - size, first + 1), Span(second - size, second + 1)
    determined = all(clause.tags[child] == "DT" for child in (*of_first, *of_second))
    same = clause.words[slice(*spans[0])] == clause.words[slice(*spans[1])]
    together = spans[0].end == joint[0] == spans[1].start - 1 and clause.words[joint[0]] in ("and", "or")
    whole = Span(spans[0].start, spans[1].end)
    return spans if determined and together and not same and "NP" in clause.constituents.get(whole, ()) else None


def _is_modified(clause: Clause, noun: int) -> bool:
    """Whether a noun has one adjective, directly before it, that could describe other nouns."""
    adjective = noun - 1
    alone = clause.dependents(noun, "amod") == [adjective] and not clause.children[adjective]
    tagged = clause.tags[noun] in ("NN", "NNS") and clause.tags[adjective] == "JJ"
    return alone and tagged and clause.words[adjective].lower() not in NO_QUALITIES


def _can_trade(clause: Clause, one: int, other: int) -> bool:
    """Whether two nouns can trade adjectives: they differ, and "a" and "an" still fit."""
    words = clause.words
    if words[one].lower() == words[other].lower() or words[one - 1].lower() == words[other - 1].lower():
        return False
    articled = any(noun > 1 and words[noun - 2] in ARTICLES for noun in (one, other))
    vowels = [words[noun - 1][0].lower() in "aeiou" for noun in (one, other)]
    return not articled or vowels[0] == vowels[1]


def _is_number(word: str) -> bool:
    """Whether a word is a numeral above one that another can replace."""
    is_figure = FIGURES.fullmatch(word) and BOUNDS[0] <= int(word.replace(",", "")) < BOUNDS[-1]
    return word.lower() in NUMERALS or bool(is_figure)


def _numbers_like(word: str, random: np.random.Generator) -> list[str]:
    """Random numbers of the size and the spelling of a number."""
    if word.lower() in NUMERALS:
        return [new.capitalize() if word[0].isupper() else new for new in random.permutation(NUMERALS).tolist()]
    i = bisect_right(BOUNDS, int(word.replace(",", "")))
    spelling = "{:,}" if "," in word else "{}"
    return [spelling.format(new) for new in random.integers(BOUNDS[i - 1], BOUNDS[i], size=8).tolist()]
