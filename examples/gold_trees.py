"""Take a treebank through structviews and back: look at a tree, probe vectors with its annotation, export it unchanged.

The sentences keep the trees that people have made, and all other annotation as well: the questions below are asked of
lemmas and features, which the encoders have never seen. `probe.py` asks for what parsers give too.
"""

import argparse
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from structviews import Embedder
from structviews.corpus.layout import Row
from structviews.demo.measure import probe
from structviews.parsing.drawing import chosen, draw
from structviews.parsing.export import export
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import open_source

TREEBANK = [Path(__file__).parents[1] / "data" / "treebank" / name for name in ("sample.conllu", "sample.ptb")]


def annotation(row: Row) -> list[dict[str, str]]:
    """Lemma, universal tag, features and relation of each word of a sentence, from the lines that the corpus keeps."""
    lines = [line.split("\t") for line in row.conllu.split("\n") if line[:1].isdigit()]
    words = [line for line in lines if line[0].isdigit()]  # neither 3-4 nor 5.1
    return [{"lemma": word[2], "tag": word[3], "features": word[5], "relation": word[7]} for word in words]


def main() -> None:
    """Read, look, probe, export."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, help="folder for all that is made; by default a temporary one")
    out = arguments.parse_args().out or Path(mkdtemp(prefix="structviews-"))
    out.mkdir(parents=True, exist_ok=True)

    source = open_source(list(map(str, TREEBANK)), parser="treebank", layout=None, tokenised=False, max_tokens=120)
    corpus, _ = parse_corpus(source, out / "gold.parsed")
    print(f"{len(corpus)} sentences in {corpus.manifest['documents']} documents, {len(corpus.skipped)} skipped\n")
    short = min(range(len(corpus)), key=lambda number: abs(len(corpus.sentence(number).tokens) - 8))
    print(draw(chosen(corpus, short, None), width=100))

    rows = list(corpus)
    # The encoders read the gold trees: nothing is parsed.
    vectors = Embedder.load("default").encode([row.sentence for row in rows])
    documents = np.array([row.document for row in rows])
    words = [annotation(row) for row in rows]
    roots = [next(word for word in each if word["relation"] == "root") for each in words]
    # A question is a number for each sentence, the class that it is in.
    questions = {
        "its main word is in the past": ["Tense=Past" in root["features"] for root in roots],
        "it has a first person": [any("Person=1" in word["features"] for word in each) for each in words],
        "it has a form of `be`": [any(word["lemma"] == "be" for word in each) for each in words],
    }
    print("\naccuracy in per cent [95 % interval over documents], on documents that the classifier was not fitted on")
    for question, classes in questions.items():
        found = probe(vectors, np.array(classes, dtype=int), documents, folds=3)
        print(f"  {question:36} {found.accuracy}, most frequent answer {found.majority}")

    print()
    target = Path(mkdtemp(prefix="export-", dir=out)) / "sample"  # files that are there are not replaced
    for path, original in zip(export(corpus, target, lambda done, total: None), TREEBANK, strict=True):
        same = path.read_bytes() == original.read_bytes()
        print(f"{path.name}: {'the same, byte for byte' if same else 'another file'}")


if __name__ == "__main__":
    main()
