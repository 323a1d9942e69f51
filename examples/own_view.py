"""Define a view, train it, load it.

The view `arcs` is a bag of dependency arcs: each word is seen together with its head, and a sentence is the mean of
these pairs. So who bites whom makes a difference to it, which it does not make to a bag of words.
"""

import argparse
from pathlib import Path
from tempfile import mkdtemp

import torch
from torch import nn

from structviews import Embedder
from structviews.kernels.cells import xavier
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import open_source
from structviews.runs.config import TrainConfig
from structviews.training.loop import train
from structviews.views import VIEWS
from structviews.views.view import Encoded, View

CORPUS = Path(__file__).parents[1] / "data" / "corpus.txt"
SAME_WORDS = ["The dog bit the man.", "The man bit the dog."]


# Known by this name from here on, in this process. A package with an entry point makes it known to every command:
# docs/views/your-own.md.
@VIEWS.register("arcs")
class Arcs(View):
    """Mean of ``relu(W word + H head)`` over the words of a sentence; its root has no head."""

    needs = "dependency"

    def __init__(self, word_dim, dim, config):
        super().__init__()
        self.word_dim, self.dim = word_dim, dim
        self.word, self.head = nn.Linear(word_dim, dim), nn.Linear(word_dim, dim, bias=False)
        xavier(self)

    def forward(self, words, batch, ids, states=False):
        vectors = words.lookup(ids)  # (n, word_dim): the words of all sentences, one below the other
        # Nodes by height: `rank` is the node of each word, `words` the word of a node.
        trees = batch.trees("dependency")
        parent = trees.parent[trees.rank]  # (n,) the node above each word, -1 above a root
        heads = self.head(vectors)[trees.words[parent]] * (parent >= 0)[:, None]
        arcs = torch.relu(self.word(vectors) + heads)
        vector = torch.segment_reduce(arcs, "mean", offsets=batch.offsets)  # (B, dim): one for each sentence
        return Encoded(vector, arcs, batch.offsets) if states else Encoded(vector)


def main() -> None:
    """Train the view beside a bag of words, and compare what the two make of two sentences of the same words."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, help="folder for all that is made; by default a temporary one")
    out = arguments.parse_args().out or Path(mkdtemp(prefix="structviews-"))
    out.mkdir(parents=True, exist_ok=True)

    text = out / "corpus.txt"  # the first six documents, between which there are empty lines
    text.write_text("\n\n".join(CORPUS.read_text("utf-8").split("\n\n")[:6]), "utf-8")
    source = open_source([str(text)], parser="builtin", layout="lines", tokenised=False, max_tokens=120)
    corpus, _ = parse_corpus(source, out / "corpus.parsed")

    small = {"hidden": 64, "word_dim": 64, "batch_size": 100, "epochs": 5, "lr": 2e-3}
    run = train(TrainConfig.of(corpus=str(corpus.path), views=("arcs", "bow"), out=str(out / "arcs-bow"), **small))

    embedder = Embedder.load(run)
    for view in embedder.view_names:
        first, second = embedder.with_view(view).encode(SAME_WORDS, normalize_embeddings=True)
        print(f"{view:5} cosine {first @ second:.3f} of: {' '.join(SAME_WORDS)}")


if __name__ == "__main__":
    main()
