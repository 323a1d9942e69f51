"""Sentences of given lengths from a text, and a vocabulary for transformers."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer
from tokenizers.implementations import BertWordPieceTokenizer
from transformers import PreTrainedTokenizerFast

PIECES = 30_522
"""Size of the vocabulary of all-MiniLM-L6-v2."""
SPECIAL = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}


class Sentences(NamedTuple):
    """Different sentences of one length.

    Attributes:
        texts: all of ``words`` words between white space.
        words: the length.
        cut: how many of them are the beginnings of longer sentences.
    """

    texts: list[str]
    words: int
    cut: int


def read_lines(path: Path) -> list[str]:
    """The sentences of a text, one a line."""
    with path.open(encoding="utf-8") as lines:
        return [line.strip() for line in lines if line.strip()]


def of_length(lines: Iterable[str], words: int, most: int) -> Sentences:
    """At most so many different sentences of so many words, from all parts of a text.

    If there are too few, longer sentences are cut. None is repeated: what encoders calculate once for equal words and
    equal parts of trees would look too good.
    """
    exact, longer = {}, {}
    for line in lines:
        tokens = line.split()
        if len(tokens) == words:
            exact[line] = None
        elif len(tokens) > words:
            longer[" ".join(tokens[:words])] = None
    texts = spread(list(exact), most)
    more = spread([text for text in longer if text not in exact], most - len(texts))
    mixed = np.random.default_rng(0).permutation(len(texts) + len(more))
    both = texts + more
    return Sentences([both[i] for i in mixed], words, len(more))


def spread(items: Sequence[str], most: int) -> list[str]:
    """At most so many of the items, at even distances."""
    places = np.linspace(0, len(items), min(most, len(items)), endpoint=False).astype(int)
    return [items[i] for i in places]


def tokeniser(file: Path | None, lines: Iterable[str]) -> PreTrainedTokenizerFast:
    """The tokeniser of a ``tokenizer.json``; without one, WordPiece of BERT's kind and size learnt from a text."""
    if file:
        return PreTrainedTokenizerFast(tokenizer_file=str(file), **SPECIAL)
    learnt = BertWordPieceTokenizer(lowercase=True)
    learnt.train_from_iterator(lines, vocab_size=PIECES, show_progress=False)
    return PreTrainedTokenizerFast(tokenizer_object=with_ends(learnt), **SPECIAL)


def with_ends(learnt: BertWordPieceTokenizer) -> Tokenizer:
    """BERT's tokeniser with its two special tokens around every sentence."""
    (start, end) = (SPECIAL["cls_token"], SPECIAL["sep_token"])
    return BertWordPieceTokenizer(learnt.get_vocab(), lowercase=True, cls_token=start, sep_token=end)._tokenizer


def pieces_per_word(tokeniser: PreTrainedTokenizerFast, sentences: Sentences) -> float:
    """Pieces of a word between white space, without the two special tokens of a sentence."""
    found: Iterator[int] = (len(each) for each in tokeniser(sentences.texts, add_special_tokens=False)["input_ids"])
    return sum(found) / (sentences.words * len(sentences.texts))
