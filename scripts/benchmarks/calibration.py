"""How well the built-in parser knows how sure it is, and what saying so costs.

    python scripts/bench.py calibration gum/dev.conllu ewt/dev.conllu --picture docs

Of each treebank's words, on gold tokens: the expected calibration error, that is, the mean over ten equal bins of the
heads' marginals, weighted by their words, of the distance between the mean marginal and the share of right heads
(Guo et al. 2017). Of its sentences: the share of wrong heads among all, and without the tenth of which the parser was
least sure by the mean of its heads' marginals. The cost is the ratio of processor times with and without --confidence.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from studies.pages import COLOURS, axes_of, write_picture

from benchmarks.measure import median_ratio, race, table
from structviews.corpus.sentence import ParsedSentence
from structviews.parsing.backends.builtin import HEADS_TEMPERATURE, BuiltinParser
from structviews.parsing.decoding import marginals
from structviews.parsing.parser import Options
from structviews.parsing.specification import load
from structviews.training.parser_training import read_treebanks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS, LEFT_OUT = 10, 0.1


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("treebanks", nargs="+", type=Path, help="files of CoNLL-U")
    parser.add_argument("--picture", type=Path, help="folder of the pages, to draw images/parser-confidence.svg")
    parser.add_argument("--rounds", type=int, default=5)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The errors of each treebank, and the cost on the first."""
    torch.set_num_threads(1)
    gold = {f"{path.parent.name}/{path.name}": read_treebanks([path])[0].sentences for path in options.treebanks}
    found: dict[str, Any] = {"treebanks": {name: of_treebank(sentences) for name, sentences in gold.items()}}
    tokens = [sentence.tokens for sentence in next(iter(gold.values()))]
    parsers = {name: load("builtin", Options(confidence=name == "sure")) for name in ("plain", "sure")}
    runs = {name: lambda _, each=each: each.parse(tokens) for name, each in parsers.items()}
    times = race(runs, options.rounds, clock=time.process_time)
    found["cost"] = median_ratio(times["sure"], times["plain"])
    if options.picture:
        bins = {name: each["bins"] for name, each in found["treebanks"].items()}
        write_picture(options.picture, "parser-confidence", "Calibration of the built-in parser", lambda: draw(bins))
    return found


@torch.inference_mode()
def of_treebank(gold: Sequence[ParsedSentence]) -> dict[str, Any]:
    """Bins of words by marginal (mean, share of right heads, words), and errors by sentence."""
    parser = BuiltinParser.read()
    trees = parser.parse([each.tokens for each in gold])
    of_words = []
    for tree, truth in zip(trees, gold, strict=True):
        n = len(tree.tokens)
        words = parser.network.words(torch.from_numpy(parser.featuriser(tree.tokens)))
        outputs = parser.network.outputs(words[None], torch.ones(1, n, dtype=torch.bool))
        heads = np.array(tree.heads)
        own = marginals(outputs.arcs.float().numpy() / HEADS_TEMPERATURE, np.array([n]))[0, np.arange(1, n + 1), heads]
        of_words.append(np.stack([own.clip(0, 1), heads == np.array(truth.heads)]))
    sure, right = np.concatenate(of_words, axis=1)
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    rows = [(sure[bins == i].mean(), right[bins == i].mean(), int((bins == i).sum())) for i in np.unique(bins)]
    least_sure_first = np.argsort([each[0].mean() for each in of_words], kind="stable")
    kept = [of_words[i] for i in least_sure_first[int(LEFT_OUT * len(of_words)) :]]
    return {
        "bins": rows,
        "error": sum(abs(a - b) * n for a, b, n in rows) / len(sure),
        "wrong": 1 - right.mean(),
        "wrong without the tenth": 1 - np.concatenate(kept, axis=1)[1].mean(),
    }


def draw(bins: dict[str, Any]) -> "Figure":
    """The share of right heads by marginal, beside the diagonal."""
    figure, axes = axes_of(3.8)
    axes.plot([0, 1], [0, 1], linewidth=1, alpha=0.4)
    for colour, (name, rows) in zip(COLOURS, bins.items(), strict=False):
        sure, right, _ = np.array(rows).T
        axes.plot(sure, right, "o-", color=colour, markersize=4, linewidth=1.5, label=name)
    axes.set_xlabel("marginal of the head")
    axes.set_ylabel("share of right heads")
    axes.legend(frameon=False)
    return figure


def tables(found: dict[str, Any]) -> str:
    """The table for docs/parser.md."""
    rows = [
        [name, *(f"{100 * each[key]:.1f}" for key in ("error", "wrong", "wrong without the tenth"))]
        for name, each in found["treebanks"].items()
    ]
    head = ["", "expected calibration error, %", "wrong heads, %", "without the least sure tenth, %"]
    return f"{table(head, rows)}\n\nTime with confidence: {found['cost']:.3f} of that without."
