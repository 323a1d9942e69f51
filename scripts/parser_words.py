"""Train word2vec vectors of word forms on plain text, for the built-in parser.

    python scripts/parser_words.py novels-*.txt.zst -o words.vec
    structviews parser train ... --words words.vec

A narrow window gives similar vectors to words with the same syntactic function, which is what a parser needs (Levy and
Goldberg, 2014, "Dependency-based word embeddings", compare windows). Needs the extra ``vectors``.
"""

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from structviews.parsing.neural import normalise
from structviews.parsing.pipeline import cut
from structviews.parsing.text import read_sentences
from structviews.parsing.tokenising import tokenise_all

SENTENCES_AT_ONCE = 1000


def main() -> None:
    """Tokenise, learn, write."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("texts", nargs="+", type=Path, help="one sentence per line")
    flags.add_argument(
        "-o", "--out", type=Path, required=True, help="file of vectors to write, in word2vec's text format"
    )
    args = flags.parse_args()
    from gensim.models import Word2Vec  # noqa: PLC0415 - slow to import, and optional

    with tempfile.NamedTemporaryFile("w", suffix=".txt", dir=args.out.parent) as file:
        print(f"{write_forms(args.texts, file):,} sentences", flush=True)
        # One worker, as several give other vectors each time.
        how = {"vector_size": 128, "window": 2, "min_count": 20, "epochs": 5, "workers": 1, "seed": 1}
        model = Word2Vec(corpus_file=file.name, sg=1, negative=5, **how)
    model.wv.save_word2vec_format(str(args.out))
    print(f"{args.out}: {len(model.wv):,} forms")


def write_forms(texts: Iterable[Path], file: TextIO) -> int:
    """Write the sentences of texts as normalised forms, one per line; return their number."""
    count = 0
    for text in texts:
        for some in cut(read_sentences(text, "lines", tokenised=False, language="en"), SENTENCES_AT_ONCE):
            for words in tokenise_all((sentence.text for sentence in some), "en"):
                file.write(" ".join(map(normalise, words)) + "\n")
                count += 1
    file.flush()
    return count


if __name__ == "__main__":
    main()
