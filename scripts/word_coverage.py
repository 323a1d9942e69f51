"""Count which words of texts a trained run knows, and print a table as Markdown.

    python scripts/word_coverage.py default news-000.txt.zst ewt/dev.conllu

Raw text, one sentence per line or the ``# text`` lines of a .conllu file, is tokenised as by ``encode``. The run stores
the vector of a word, or else composes it of sub-words (or reads it from its file of word vectors), or does not know it.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.trained import TrainedEmbedder
from structviews.encoding.word_limit import CUT, WordLimit
from structviews.errors import InputError
from structviews.parsing.pipeline import cut
from structviews.parsing.text import read_sentences
from structviews.runtime.files import text_lines
from structviews.words.vocabulary import Vocabulary

SENTENCES_AT_ONCE = 1000
TEXT = "# text = "


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a trained run, or a bundled model")
    parser.add_argument("texts", type=Path, nargs="+")
    options = parser.parse_args()
    try:
        rows = list(coverage(Embedder.load(options.run), options.texts))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print("| text | channel | words | stored | composed | unknown |\n|---|---|--:|--:|--:|--:|")
    for text, channel, n, shares in rows:
        print(f"| {text.name} | {channel} | {n:,} | {' | '.join(f'{share:.2%}' for share in shares)} |")


def coverage(embedder: Embedder, texts: list[Path]) -> Iterator[tuple[Path, str, int, np.ndarray]]:
    """For each text and channel the number of words, and the shares ``(3,)`` that are stored, composed and unknown."""
    if not isinstance(embedder, TrainedEmbedder):
        raise InputError(f"{embedder.folder}: not a trained run: give one that structviews train made")
    for text in texts:
        counts = Counter(word for words in tokenised(embedder, text) for word in words)
        for channel, vocabulary in embedder.vocabularies.items():
            found = found_words(vocabulary, counts)
            yield text, channel, counts.total(), found / max(1, counts.total())


def tokenised(embedder: Embedder, text: Path) -> Iterator[tuple[str, ...]]:
    """The words of each sentence."""
    for some in cut(sentences(text), SENTENCES_AT_ONCE):
        for sentence in embedder.preparer.prepare(some, ("tokens",), WordLimit(overlong=CUT)):
            yield sentence.tokens


def sentences(text: Path) -> Iterator[str]:
    """The raw sentences of a text."""
    if text.suffix == ".conllu":
        return (line.removeprefix(TEXT) for line in text_lines(text) if line.startswith(TEXT))
    return (sentence.text for sentence in read_sentences(text, "lines", tokenised=False, language="en"))


def found_words(vocabulary: Vocabulary, counts: Counter[str]) -> np.ndarray:
    """How many words ``(3,)`` the vocabulary stores, composes, and does not know."""
    ids, _ = vocabulary.look_up([list(counts)])
    kinds = np.where(ids == 0, 2, np.where(ids < len(vocabulary), 0, 1))
    return np.bincount(kinds, weights=list(counts.values()), minlength=3)


if __name__ == "__main__":
    main()
