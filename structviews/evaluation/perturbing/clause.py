"""One parsed English sentence as the rules of ``perturbations`` read it: phrases on which both of its trees agree.

Words are numbered from 0. Relations are those of Universal Dependencies, tags and labels those of the Penn Treebank.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

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
# What may depend on the verb of a clause whose arguments trade places: nothing that refers to one of them.
AROUND_VERB = listed("advmod cc nsubj obj obl obl:unmarked punct")
# Verbs without a passive (Quirk et al. 1985, 10.14), and verbs of measuring, whose object is no participant.
MIDDLE = listed(
    "had got lacked resembled suited became weighed lasted equaled equalled fit meant cost totaled totalled "
    "averaged numbered measured exceeded remained starred contained comprised included possessed boasted wanted needed"
)
# Objects that are part of the verb: "took place".
IDIOMS = listed("care charge effect place root shape")
# Heads that agree with the noun after them, or with the speaker's mind.
QUANTITIES = listed("number lot couple majority variety rest half part percent %")


class Span(NamedTuple):
    """The words from ``start`` up to ``end``, which is not one of them."""

    start: int
    end: int


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
        self.is_capital = first[:1].isupper()
        self.tags, self.relations, self.sentence = sentence.tags, sentence.relations, sentence
        self.heads = [head - 1 for head in sentence.heads]
        self.root = self.heads.index(-1)
        self.participles = spelling.participles

    def __len__(self) -> int:
        return len(self.words)

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
        refers = any(self.tags[word] == "PRP$" for word in range(*patient))
        between = all(self.tags[word] == "RB" for word in range(subject.end, verb))
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
        return (first[:1].upper() + first[1:] if self.is_capital else first, *others)
