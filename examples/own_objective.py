"""Define an objective with a setting of its own, and train with it.

Alignment and uniformity (Wang and Isola, 2020): neighbours in the text are drawn together on the unit sphere, and all
sentences are spread over it. Trained with and without the second, sentences lie apart, or all in one place.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from torch.nn.functional import normalize

from structviews import Embedder
from structviews.objectives import OBJECTIVES
from structviews.objectives.objective import Objective
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import open_source
from structviews.runs.config import TrainConfig
from structviews.settings import Settings, setting
from structviews.training.loop import train

CORPUS = Path(__file__).parents[1] / "data" / "corpus.txt"


@dataclass(frozen=True)
class AlignConfig(Settings):
    """The objective's own settings, which `TrainConfig.of` takes like all others."""

    spread: float = setting(1.0, "Weight of uniformity.", least=0)


@OBJECTIVES.register("align")
class Align(Objective):
    """Mean squared distance ``d^2`` of contexts, plus the log of the mean of ``exp(-2 d^2)`` over all pairs."""

    Config = AlignConfig
    max_views = 2
    report = "loss {loss:.3f}, alignment {alignment:.3f}, uniformity {uniformity:.3f}"

    def __init__(self, inputs, config):
        super().__init__()
        self.spread = config.spread

    def forward(self, views, context):
        f, g = (normalize(view, dim=1) for view in views)
        rows, columns = (context.neighbours >= 0).nonzero(as_tuple=True)
        cosines = (f[rows] * g[context.neighbours[rows, columns]]).sum(dim=1)
        alignment = (2 - 2 * cosines).sum() / max(len(rows), 1)  # d^2 of unit vectors
        uniformity = sum((4 * v @ v.T - 4).exp().mean().log() for v in (f, g)) / 2
        loss = alignment + self.spread * uniformity
        metrics = {"loss": loss, "alignment": alignment, "uniformity": uniformity}
        return loss, {name: each.detach() for name, each in metrics.items()} | {"anchors": loss.new_tensor(len(rows))}


def main() -> None:
    """Train with and without uniformity, and say how far apart sentences are."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, help="folder for all that is made; by default a temporary one")
    out = arguments.parse_args().out or Path(mkdtemp(prefix="structviews-"))

    # The views below read words alone, so that trees of any shape will do.
    source = open_source([str(CORPUS)], parser="trivial:balanced", layout="lines", tokenised=False, max_tokens=120)
    corpus, _ = parse_corpus(source, out / "corpus.parsed")
    sentences = [row.sentence for row in corpus][:1000]

    small = {"hidden": 64, "word_dim": 64, "batch_size": 50, "epochs": 1, "lr": 2e-3}
    for spread in (1.0, 0.0):
        own = {"objective": "align", "spread": spread, "out": str(out / f"spread-{spread}")}
        config = TrainConfig.of(corpus=str(corpus.path), views=("seq", "avg"), **own, **small)
        vectors = Embedder.load(train(config)).encode(sentences, normalize_embeddings=True)
        print(f"spread {spread}: mean cosine of {len(vectors):,} sentences {(vectors @ vectors.T).mean():.3f}")


if __name__ == "__main__":
    main()
