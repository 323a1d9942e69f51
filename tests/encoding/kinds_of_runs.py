"""Runs of every kind, over one small corpus."""

import shutil

import numpy as np
from corpora import small_config, tiny_corpus, vectors_of
from rich.console import Console

from structviews.encoding.expansion import expand
from structviews.encoding.kinds.baseline import given_run
from structviews.encoding.kinds.joined import join_runs
from structviews.training.baselines import make_baseline
from structviews.training.loop import train

# All that vectors made elsewhere know.
TEXTS = [["A", "bird", "sings", "."], ["The", "tree", "is", "dead", "."], ["It"]]
RANDOM = {"views": ["dep", "seq"], "hidden": 4, "word_dim": 6}
KINDS = ["default", "trees", "words", "expanded", "average", "sif", "random", "joined", "vectors"]


def make_runs(folder):
    """Runs of every kind by name."""
    corpus = tiny_corpus(folder / "x.parsed")
    vectors = vectors_of(corpus, folder / "v.vec", "elsewhere", dim=5)
    quiet = Console(quiet=True)
    made = {
        "default": "default",
        "trees": train(small_config(corpus, folder / "trees", ("dep", "const"), epochs=1)),
        "words": train(small_config(corpus, folder / "words", ("seq", "avg"), epochs=1)),
        **{kind: make_baseline(kind, corpus, folder / kind, vectors, console=quiet) for kind in ("average", "sif")},
        "random": make_baseline("random", corpus, folder / "random", None, RANDOM, console=quiet),
    }
    both = {"channels": ("fixed", "trained"), "vectors": str(vectors)}
    made["channels"] = train(small_config(corpus, folder / "channels", ("seq", "avg"), epochs=1, **both))
    made["generative"] = train(small_config(corpus, folder / "g", ("seq",), epochs=1, objective="generative"))
    made["joined"] = join_runs([made["trees"], made["average"]], folder / "joined")
    made["expanded"] = shutil.copytree(made["words"], folder / "expanded")
    expand(made["expanded"], vectors)
    (folder / "given.txt").write_text("".join(f"{' '.join(words)}\n" for words in TEXTS))
    np.save(folder / "given.npy", np.arange(9, dtype=np.float32).reshape(3, 3))
    return made | {"vectors": given_run(folder / "given.npy", folder / "given")}
