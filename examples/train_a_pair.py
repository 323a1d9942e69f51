"""Train a pair of views on a small text, save it, load it, and search with it, as one does with sentence-transformers.

A text is parsed, and a dependency and a constituency encoder are trained to agree on which sentences are neighbours.
The run is saved to a folder that holds all it needs, and loaded from there to find the sentences nearest to some new
ones: by FAISS where it is installed, and by `similarity` where it is not. The shell's way is `structviews parse`,
`train` and `nearest`.
"""

import argparse
from pathlib import Path
from tempfile import mkdtemp

from structviews import Embedder
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import open_source
from structviews.runs.config import TrainConfig
from structviews.training.loop import train

try:
    import faiss
except ImportError:
    faiss = None

CORPUS = Path(__file__).parents[1] / "data" / "corpus.txt"
DOCUMENTS = 8
QUERIES = ["The old captain looked at the sea.", "Would you like to help us with the project?"]


def main() -> None:
    """Parse, train, save, load, search."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, help="folder for all that is made; by default a temporary one")
    out = arguments.parse_args().out or Path(mkdtemp(prefix="structviews-"))
    out.mkdir(parents=True, exist_ok=True)

    text = out / "corpus.txt"  # one sentence a line, in reading order; an empty line between documents
    text.write_text("\n\n".join(CORPUS.read_text("utf-8").split("\n\n")[:DOCUMENTS]), "utf-8")
    source = open_source([str(text)], parser="builtin", layout="lines", tokenised=False, max_tokens=120)
    corpus, _ = parse_corpus(source, out / "corpus.parsed")
    print(f"{len(corpus)} sentences parsed into {corpus.path}")

    # Every flag of `structviews train` is a setting of the same name. A real run is wider, and reads far more text.
    config = TrainConfig.of(
        corpus=str(corpus.path),
        views=("dep", "const"),
        out=str(out / "runs" / "dep-const"),
        hidden=64,
        word_dim=64,
        batch_size=100,
        epochs=6,
        lr=2e-3,
        held_out=0.1,
    )
    run = train(config)

    Embedder.load(run).save(out / "saved")
    embedder = Embedder.load(out / "saved")
    print(embedder)

    sentences = [row.sentence for row in corpus]  # parsed already, so that encoding them parses nothing
    vectors = embedder.encode(sentences, normalize_embeddings=True, show_progress_bar=True)
    print(f"{len(vectors)} vectors, searched by {'FAISS' if faiss else 'similarity'}")
    queries = embedder.encode(QUERIES, normalize_embeddings=True)
    if faiss:
        index = faiss.IndexFlatIP(embedder.dim)
        index.add(vectors)
        scores, rows = index.search(queries, 3)
    else:
        scores, rows = embedder.similarity(queries, vectors).topk(3)
    for query, cosines, found in zip(QUERIES, scores, rows, strict=True):
        print(f"\n{query}")
        for cosine, row in zip(cosines, found, strict=True):
            print(f"  {cosine:.2f}  {' '.join(sentences[row].tokens)}")


if __name__ == "__main__":
    main()
