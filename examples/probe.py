"""Ask what sentence vectors know of syntax.

A linear classifier tries to read from its vector alone what a sentence's trees are like. The bundled model is compared
with encoders of the same kind that were never trained, which know little but the words, and with always giving the most
frequent answer. `structviews tasks make-probing` makes such tasks as files, in SentEval's format.
"""

import argparse
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from structviews import Embedder
from structviews.demo.measure import probe
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import open_source
from structviews.training.baselines import make_baseline

CORPUS = Path(__file__).parents[1] / "data" / "corpus.txt"
DOCUMENTS = 8


def main() -> None:
    """Parse, make the baseline, encode with both, probe."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, help="folder for all that is made; by default a temporary one")
    out = arguments.parse_args().out or Path(mkdtemp(prefix="structviews-"))
    out.mkdir(parents=True, exist_ok=True)

    text = out / "corpus.txt"
    text.write_text("\n\n".join(CORPUS.read_text("utf-8").split("\n\n")[:DOCUMENTS]), "utf-8")
    source = open_source([str(text)], parser="builtin", layout="lines", tokenised=False, max_tokens=120)
    corpus, _ = parse_corpus(source, out / "corpus.parsed")

    # Encoders of the bundled model's views and sizes, as training would begin with them.
    random = out / "random"
    if not random.exists():
        make_baseline("random", corpus.path, random, encoders={"views": ("dep-rel", "const"), "hidden": 400})

    sentences = [row.sentence for row in corpus]
    documents = np.array([row.document for row in corpus])
    # A question is a number for each sentence, the class that it is in.
    questions = {
        "height of the dependency tree": [min(max(each.dependency_heights) // 2, 3) for each in sentences],
        "quarter that the root is in": [4 * each.heads.index(0) // len(each.tokens) for each in sentences],
        "has a subordinate clause": [int(any("SBAR" in label for label in each.labels)) for each in sentences],
        "has a coordination": [int("conj" in each.relations) for each in sentences],
    }
    vectors = {name: Embedder.load(run).encode(sentences) for name, run in (("default", "default"), ("random", random))}

    print(f"accuracy in per cent over {len(sentences)} sentences, [95 % interval over documents]")
    for question, classes in questions.items():
        print(f"\n{question}: {len(set(classes))} classes")
        for name, table in vectors.items():
            # The classifier is tested on documents that it was not fitted on.
            found = probe(table, np.array(classes), documents)
            print(f"  {name:20} {found.accuracy}")
        print(f"  {'most frequent class':20} {found.majority}")


if __name__ == "__main__":
    main()
