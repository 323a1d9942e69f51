"""Search a text by meaning with the model that comes with the package.

Sentences become vectors once; a query's nearest ones by cosine are then a matter of inner products, by FAISS where it
is installed and by numpy where it is not. Queries of your own can be given as arguments.
"""

import argparse
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from structviews import Embedder

try:
    import faiss
except ImportError:
    faiss = None

CORPUS = Path(__file__).parents[1] / "data" / "corpus.txt"
DOCUMENTS = 8
QUERIES = ["Who pays for open source software?", "I am very glad to hear it.", "She was too angry to answer him."]


def search(vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and rows (q, k) of the vectors (n, d) nearest to queries (q, d), all of length 1."""
    if faiss:
        index = faiss.IndexFlatIP(vectors.shape[1])  # exact; FAISS has others for millions of vectors
        index.add(vectors)
        return index.search(queries, k)
    cosines = queries @ vectors.T
    rows = np.argsort(-cosines, axis=1)[:, :k]
    return np.take_along_axis(cosines, rows, axis=1), rows


def main() -> None:
    """Encode the text, or load its vectors if they are there, and search it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("queries", nargs="*", default=QUERIES)
    arguments.add_argument("--out", type=Path, help="folder that keeps the vectors; by default a temporary one")
    given = arguments.parse_args()
    out = given.out or Path(mkdtemp(prefix="structviews-"))
    out.mkdir(parents=True, exist_ok=True)

    text = CORPUS.read_text("utf-8").split("\n\n")[:DOCUMENTS]
    sentences = [line for document in text for line in document.splitlines()]
    embedder = Embedder.load("default").for_similarity()  # of its views, those that are best for cosines
    if not (out / "vectors.npy").exists():
        np.save(out / "vectors.npy", embedder.encode(sentences, normalize_embeddings=True))
    vectors = np.load(out / "vectors.npy")

    print(f"{len(vectors)} sentences, {vectors.shape[1]} dimensions, searched by {'FAISS' if faiss else 'numpy'}")
    found = search(vectors, embedder.encode(given.queries, normalize_embeddings=True), k=3)
    for query, cosines, rows in zip(given.queries, *found, strict=True):
        print(f"\n{query}")
        for cosine, row in zip(cosines, rows, strict=True):
            print(f"  {cosine:.2f}  {sentences[row]}")


if __name__ == "__main__":
    main()
