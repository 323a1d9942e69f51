"""Tokens as readers write them: the white space that tokenisation brought in is taken out again."""

import re
from collections.abc import Sequence

ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": "“", "''": "”"}
# Nothing stands before the one, nor after the other; nor on either side of what joins.
NO_SPACE_BEFORE = re.compile(r"[.,;:!?)\]}’”…%°。，、：；！？）」』]+|['’](s|m|d|ll|re|ve|t)|n['’]t", re.IGNORECASE)
NO_SPACE_AFTER = re.compile(r"[(\[{“‘¿¡£€#（「『]|\w*\$")
JOINS = frozenset("-‐‑/—_")
QUOTES = frozenset("\"'")
ENDS = frozenset(".,!?")
# Words that tokenisers take apart.
HALVES = {("can", "not"), ("gon", "na"), ("wan", "na"), ("got", "ta"), ("gim", "me"), ("lem", "me")}
# Scripts without spaces: Chinese and Japanese.
UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


def plain_text(tokens: Sequence[str]) -> str:
    """The text that tokens were probably made from.

    Quotation marks that do not say whether they open or close do so in turn; a hyphen joins the words beside it. Tokens
    alone cannot tell ``well-known`` from ``well - known``: of a text's sentences some come out with other white space.
    """
    text = ""
    open_quotes: list[str] = []
    glued = True  # nothing comes between the text so far and the next token
    words = [ESCAPES.get(token, token) for token in tokens]
    for i, word in enumerate(words):
        if word in QUOTES:
            closes = word in open_quotes or _closes_an_earlier(words, i)
            text += word if closes or glued else f" {word}"
            glued = not closes
            if not closes:
                open_quotes.append(word)
            elif word in open_quotes:
                open_quotes.remove(word)
            continue
        joins = word in JOINS and 0 < i < len(words) - 1
        attached = glued or joins or NO_SPACE_BEFORE.fullmatch(word) or (i and _belong(words[i - 1], word))
        text += word if attached else f" {word}"
        glued = joins or bool(NO_SPACE_AFTER.fullmatch(word))
    return text


def _closes_an_earlier(words: Sequence[str], i: int) -> bool:
    """Whether a mark that nothing opened ends a quotation of the sentence before, or is an apostrophe."""
    before, after = words[:i], words[i + 1 :]
    if not before:
        return False
    if words[i] == "'" and "'" not in after and before[-1][-1].isalpha():
        return True  # the birds' nests, mornin'
    if before[-1][-1] not in ENDS or words[i] in before:
        return False
    if words[i] in after:  # "It is," he said, "so.": the next one opens, after a comma
        return after[0][0].islower() and after[after.index(words[i]) - 1] in ENDS
    return not after or after[0][0].islower()


def _belong(one: str, other: str) -> bool:
    """Whether two tokens are one word."""
    return (one.lower(), other) in HALVES or bool(UNSPACED.match(one[-1]) and UNSPACED.match(other))
