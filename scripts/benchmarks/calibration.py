"""How well the built-in parser knows how sure it is, and what saying so costs.

    python scripts/bench.py calibration gum/dev.conllu gum/dev.ptb ewt/dev.conllu --picture docs

Of each treebank's heads and constituents, on gold tokens: the expected calibration error, that is, the mean over ten
equal bins of the heads' marginals or the labels' probabilities, weighted by their numbers, of the distance between
their mean and the share of right ones (Guo et al. 2017); the same if scores are not divided; and the share of wrong
ones among all, and without the tenth of the sentences of which the parser was least sure by their mean. The cost is the
ratio of processor times with and without --confidence.
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
from structviews.parsing.backends.builtin import HEADS_TEMPERATURE, LABELS_TEMPERATURE, BuiltinParser
from structviews.parsing.decoding import marginals
from structviews.parsing.neural import Outputs
from structviews.parsing.parser import Options
from structviews.parsing.specification import load
from structviews.training.parser_training import read_treebanks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS, LEFT_OUT = 10, 0.1


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("treebanks", nargs="+", type=Path, help="files of CoNLL-U, and of brackets")
    parser.add_argument("--picture", type=Path, help="folder of the pages, to draw images/parser-confidence.svg")
    parser.add_argument("--rounds", type=int, default=5)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The errors of each treebank, and the cost on the first."""
    torch.set_num_threads(1)
    gold = read_treebanks(options.treebanks)
    found: dict[str, Any] = {"treebanks": {each.name: of_treebank(each.sentences) for each in gold}}
    tokens = [sentence.tokens for sentence in gold[0].sentences]
    parsers = {name: load("builtin", Options(confidence=name == "sure")) for name in ("plain", "sure")}
    runs = {name: lambda _, each=each: each.parse(tokens) for name, each in parsers.items()}
    times = race(runs, options.rounds, clock=time.process_time)
    found["cost"] = median_ratio(times["sure"], times["plain"])
    if options.picture:
        bins = {name: each["heads"]["bins"] for name, each in found["treebanks"].items()}
        write_picture(options.picture, "parser-confidence", "Calibration of the built-in parser", lambda: draw(bins))
    return found


@torch.inference_mode()
def of_treebank(gold: Sequence[ParsedSentence]) -> dict[str, dict[str, Any]]:
    """The errors of heads, and of labels if the treebank has constituents."""
    parser = BuiltinParser.read()
    judged: dict[str, list[np.ndarray]] = {"heads": [], "labels": []}
    for tree, truth in zip(parser.parse([each.tokens for each in gold]), gold, strict=True):
        words = parser.network.words(torch.from_numpy(parser.featuriser(tree.tokens)))
        outputs = parser.network.outputs(words[None], torch.ones(1, len(tree.tokens), dtype=torch.bool))
        judged["heads"].append(heads_of(outputs, tree, truth))
        if truth.has_constituents and tree.spans():
            judged["labels"].append(labels_of(parser, outputs, tree, truth))
    return {kind: errors_of(found) for kind, found in judged.items() if found}


def heads_of(outputs: Outputs, tree: ParsedSentence, truth: ParsedSentence) -> np.ndarray:
    """The marginals of a sentence's heads, those of scores that are not divided, and which are right ``(3, n)``."""
    n, heads, arcs = len(tree.tokens), np.array(tree.heads), outputs.arcs.float().numpy()
    found = [marginals(arcs / by, np.array([n]))[0, np.arange(1, n + 1), heads] for by in (HEADS_TEMPERATURE, 1)]
    return np.stack([*np.clip(found, 0, 1), heads == np.array(truth.heads)])


def labels_of(parser: BuiltinParser, outputs: Outputs, tree: ParsedSentence, truth: ParsedSentence) -> np.ndarray:
    """The same of its labelled constituents, by their probabilities ``(3, constituents)``."""
    spans, true = tree.spans(), set(truth.spans())
    start, end = torch.tensor([each[:2] for each in spans]).T
    scores = parser.network.spans(outputs.posts, start, end).float()
    found = [(scores.double() / by).softmax(dim=1)[:, 1:].amax(dim=1).numpy() for by in (LABELS_TEMPERATURE, 1)]
    return np.stack([*found, [each in true for each in spans]])


def errors_of(sentences: Sequence[np.ndarray]) -> dict[str, Any]:
    """Calibration errors, shares of wrong ones, and bins (mean probability, share of right ones, number)."""
    sure, undivided, right = np.concatenate(sentences, axis=1)
    least_sure_first = np.argsort([each[0].mean() for each in sentences], kind="stable")
    kept = [sentences[i] for i in least_sure_first[int(LEFT_OUT * len(sentences)) :]]
    return {
        "bins": binned(sure, right),
        "error": calibration_error(sure, right),
        "undivided": calibration_error(undivided, right),
        "wrong": 1 - right.mean(),
        "wrong without the tenth": 1 - np.concatenate(kept, axis=1)[2].mean(),
    }


def binned(sure: np.ndarray, right: np.ndarray) -> list[tuple[float, float, int]]:
    """Equal bins of probabilities, without empty ones: the mean, the share of right ones, and their number."""
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    return [(sure[bins == i].mean(), right[bins == i].mean(), int((bins == i).sum())) for i in np.unique(bins)]


def calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    """The expected one, see above."""
    return sum(abs(a - b) * n for a, b, n in binned(sure, right)) / len(sure)


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
    shown = ("error", "undivided", "wrong", "wrong without the tenth")
    rows = [
        [f"{kind}, {name}", *(f"{100 * each[key]:.1f}" for key in shown)]
        for name, kinds in found["treebanks"].items()
        for kind, each in kinds.items()
    ]
    head = ["", "expected calibration error, %", "undivided, %", "wrong, %", "without the least sure tenth, %"]
    return f"{table(head, rows)}\n\nTime with confidence: {found['cost']:.3f} of that without."
