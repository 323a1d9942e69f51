"""Each rule on sentences of the built-in parser: the words that it must make, and the sentences that it must refuse."""

import numpy as np
import pytest

from structviews.corpus.sentence import ParsedSentence
from structviews.evaluation.perturbing.perturbations import KINDS, NUMERALS, Clause, Spelling, listed
from structviews.parsing.parser import Options
from structviews.parsing.specification import load

PARTICIPLES = listed("killed opened visited praised helped married lived found followed")
LOWER = listed("the a an in on she he they it we i his old many some jazz yesterday three when dogs cats to two")
MADE = {
    "passive": {
        "The dog killed the old man .": "The old man was killed by the dog .",
        "The dog killed two men on Friday .": "Two men were killed by the dog on Friday .",
        "Yesterday , the police followed the thief .": "Yesterday , the thief was followed by the police .",
        "She praised them .": "They were praised by her .",
        "You praised them .": "They were praised by you .",  # the text has no "you"
        "They helped me .": "I was helped by them .",
        "I praised the plan .": "The plan was praised by me .",
        "in Paris we visited him .": "in Paris he was visited by us .",
    },
    "cleft": {
        "The dog killed the old man .": "It was the dog that killed the old man .",
        "The old man lives in Paris .": "It is the old man that lives in Paris .",
        "The doors were opened by the police .": "It was the doors that were opened by the police .",
        "the dog will kill the man .": "it is the dog that will kill the man .",
    },
    "fronted": {
        "The dog killed the man in 1990 .": "In 1990 , the dog killed the man .",
        "She opened the door when they arrived .": "When they arrived , she opened the door .",
        "She opened the door , although it was late .": "Although it was late , she opened the door .",
    },
    "swapped-conjuncts": {
        "Dogs and cats sleep here .": "Cats and dogs sleep here .",
        "She visited Paris and Rome .": "She visited Rome and Paris .",
        "He wants tea or coffee .": "He wants coffee or tea .",
    },
    "swapped-arguments": {
        "The dog killed the old man .": "The old man killed the dog .",
        "The dog took the ball on Friday .": "The ball took the dog on Friday .",
        "In 1990 , Germany followed the plan .": "In 1990 , the plan followed Germany .",
        "The dog and its owner killed the man .": None,
    },
    "swapped-passive": {
        "The dog killed the old man .": "The dog was killed by the old man .",
        "The dog killed the cats .": None,
    },
    "swapped-cleft": {
        "The dog killed the old man .": "It was the old man that killed the dog .",
        "The dog also took the ball on Friday .": "It was the ball that also took the dog on Friday .",
        "Yesterday , the dog killed the man .": None,
    },
    "swapped-modifiers": {
        "The black dog killed the old man .": "The old dog killed the black man .",
        "The black dog saw a white cat .": "The white dog saw a black cat .",
        "A black dog saw an old cat .": None,
        "The black dog saw the black cat .": None,
        "The many dogs saw the old cats .": None,
    },
    "swapped-nouns": {
        "The dog killed the old man .": "The old man killed the dog .",
        "A dog sleeps on the bench .": "The bench sleeps on a dog .",
        "She saw a dog on the old bench .": "She saw the old bench on a dog .",
        "She moved from Paris to Rome .": "She moved from Rome to Paris .",
        "The dogs killed the old man .": None,
    },
    "negated": {
        "The dog will kill the man .": "The dog will not kill the man .",
        "The man is old .": "The man is not old .",
        "They like the old man .": "They do not like the old man .",
        "They often see the old man .": "They do not often see the old man .",
        "The men were killed by the dog .": "The men were not killed by the dog .",
    },
}
# Sentences of one rule stand between bars.
REFUSED = {
    "passive": """
        The dog took the old man . | The dog found place in the room . | The dog kills the old man . |
        The dog and the cat killed the man . | She visited the man who lived in Paris . |
        The man killed himself . | They helped each other . | She helped him open the door . |
        The man opened the door by force . | Who killed the man ? | She lived in Paris .
    """,
    "cleft": """
        She killed the man . | Nobody killed the man . | Yesterday , the dog killed the man . |
        The man is a doctor . | The dog killed the man and the cat opened the door . |
        The dog , however , killed the man .
    """,
    "fronted": """
        She believes in ghosts . | In 1990 , the dog killed the man . | She came and killed the man in 1990 . |
        The dog killed the man .
    """,
    "swapped-conjuncts": """
        The dogs and cats sleep here . | Both the dog and the cat sleep here . |
        The dog , the cat and the man sleep here . | She came and went . | The man and his dog sleep here .
    """,
    "swapped-arguments": "She killed the man . | His dog killed the man . | The man married the doctor .",
    "swapped-modifiers": """
        The old man slept . | The old and happy man saw the black dog . | The man saw the dog .
    """,
    "swapped-nouns": """
        The dog and the cat slept . | She killed the man . | Every dog killed the man . | The man saw his dog . |
        In fact , the man slept . | The man slept last night . | The man who lives in a house sleeps .
    """,
    "numbers": "One dog killed the man . | The dog killed the man . | He made a three days trip .",
    "negated": """
        The dog will not kill the man . | The dog never kills the man . | Will the dog kill the man ? |
        The dog killed the man . | The dog will bark and the man will run .
    """,
}
CASES = [(kind, text, made) for kind, cases in MADE.items() for text, made in cases.items()]
CASES += [(kind, text, None) for kind, texts in REFUSED.items() for text in map(str.strip, texts.split("|"))]


@pytest.fixture(scope="module")
def clauses():
    """Every sentence that a test names, parsed."""
    texts = list({text: None for _, text, _ in CASES} | dict.fromkeys(NUMBERED))
    parsed = load("builtin", Options("en", None, None)).parse([tuple(text.split()) for text in texts])
    lower = LOWER | {word for text in texts for word in text.split()[1:] if word.islower()}
    return {text: Clause(each, Spelling(lower, PARTICIPLES)) for text, each in zip(texts, parsed, strict=True)}


NUMBERED = {
    "The dog killed two men .": set(NUMERALS),
    "Three men slept .": {name.capitalize() for name in NUMERALS},
    "It began in 1954 .": {str(year) for year in range(1500, 2030)},
    "It began on May 15 .": {str(day) for day in range(13, 32)},
    "It has 450 rooms .": {str(size) for size in range(100, 1000)},
    "It has 2,450 rooms .": {f"{size:,}" for size in range(2030, 10_000)},
}


def altered(clause, kind, seed=0):
    words = KINDS[kind].rule(clause, np.random.default_rng(seed))
    return words and " ".join(clause.written(words))


@pytest.mark.parametrize(("kind", "text", "made"), CASES)
def test_a_rule_makes_the_sentence_or_refuses(clauses, kind, text, made):
    assert altered(clauses[text], kind) == made


@pytest.mark.parametrize("text", NUMBERED)
def test_a_number_becomes_another_of_its_size(clauses, text):
    seen = {altered(clauses[text], "numbers", seed) for seed in range(20)}
    for new in seen:
        (changed,) = [word for word, old in zip(new.split(), text.split(), strict=True) if word != old]
        assert changed in NUMBERED[text]
    assert len(seen) > 5


@pytest.mark.parametrize("kind", ["swapped-arguments", "swapped-modifiers", "swapped-conjuncts", "scrambled"])
def test_swaps_keep_the_words(clauses, kind):
    made = [(text, new) for text, clause in clauses.items() if (new := altered(clause, kind))]
    assert made
    for text, new in made:
        assert sorted(new.lower().split()) == sorted(text.lower().split())
        assert new.split()[-1] == text.split()[-1]
    assert kind != "scrambled" or sum(new != text for text, new in made) > len(made) / 2


def test_a_phrase_that_is_a_comma_alone_is_no_constituent():
    """As a parser may label one."""
    dependency = ParsedSentence(("we", "slept", ","), ("PRP", "VBD", ","), (2, 0, 2), ("nsubj", "root", "obl"))
    assert Clause(dependency, Spelling(frozenset(), frozenset())).constituent(2, "PP") is None
