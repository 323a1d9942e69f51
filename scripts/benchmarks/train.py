"""Speed of the tree encoders and of training, compared with recursion, DGL and the hardware's ceiling.

    python scripts/bench.py train --corpus gum.parsed --json bench.json
    python scripts/bench.py train --only step --sizes 400 --hidden 600
    python scripts/bench.py train --device cuda

Contenders take turns on the same batches with the same weights, forward and backward, including word vectors'
gradients; medians over rounds are printed as Markdown. The ceiling is one large matrix product: a contender's share of
it is the operations of the products that the level way makes, divided by those that the large product does in the same
time. Naive recursion runs on three sentences at a time, and its rate is scaled by words. Everything is repeated with
one thread. Without --corpus, trees are random, with English-like shapes.
"""

import argparse
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding
from torch.nn.utils.rnn import PackedSequence
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from benchmarks.corpora import random_corpus
from benchmarks.measure import LEAST_ROUNDS, Run, median_ratio, product, race, table
from structviews.batches.batch import Batch, WordIds
from structviews.batches.reader import CorpusReader
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.kernels.dispatch import LEVEL_PASSES
from structviews.model import Channel, Model
from structviews.runs.config import TrainConfig
from structviews.runtime.machine import keep_freed_memory
from structviews.training.optimiser import LazyAdam, clip_gradients
from structviews.views.view import create_view
from structviews.words.vocabulary import Vocabulary

Row = dict[str, Any]
PARTS = ("kernels", "step")
WORD_DIM = 300
# Rows of a word table at the paper's size, however few words the corpus has.
VOCABULARY = 50_001
LEARNING_RATE, LARGEST_NORM = 5e-4, 5.0
ENCODERS = ("dep-sum", "dep", "dep-gru", "const", "const-gru", "seq")
VIEWS = ("dep", "const")
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
# Structured views 4.1: 40 million sentences in 39 hours on a GTX 1080 Ti.
PAPERS_RATE = 285
PAPERS_SIZE = (400, 1200)
N_FEW = 3


class Way(NamedTuple):
    """How an encoder is run.

    Attributes:
        backend: of the trees; or ``nn.GRU``.
        half: products in bf16.
        few: on a few sentences only, because it is slow; rates are scaled by the number of words.
        plain: a cell's equations, batched by level, without passes of its own.
    """

    backend: str = "level"
    half: bool = False
    few: bool = False
    plain: bool = False


WAYS = {
    "naive": Way("naive", few=True),
    "DGL": Way("dgl"),
    "nn.GRU": Way("nn.GRU"),
    "nn.GRU bf16": Way("nn.GRU", half=True),
    "plain bf16": Way(half=True, plain=True),
    "fp32": Way(),
    "bf16": Way(half=True),
}


def ways(encoder: str, device: torch.device) -> dict[str, Way]:
    """The ways to run an encoder or the training step on this machine."""
    without = {"naive", "DGL", "plain bf16"} if encoder == "seq" else {"nn.GRU", "nn.GRU bf16"}
    if device.type == "cuda":  # recursion waits for each of a GPU's launches
        without |= {"naive"}
    if find_spec("dgl") is None:
        without |= {"DGL"}
    return {name: way for name, way in WAYS.items() if name not in without}


def passes(way: Way) -> AbstractContextManager[Any]:
    """A context with the cells' own passes, or without."""
    return patch.dict(LEVEL_PASSES, clear=way.plain)


class WordVectors(NamedTuple):
    """Precomputed vectors ``(U, dim)`` of a batch's distinct words, in place of a word table."""

    vectors: Tensor

    def rows(self, _ids: WordIds) -> Tensor:
        """All vectors."""
        return self.vectors


class Encoder:
    """One view on precomputed vectors of the distinct words, with gradients for its weights and the vectors."""

    def __init__(self, name: str, hidden: int, device: torch.device):
        torch.manual_seed(1)
        self.view = create_view(name, WORD_DIM, hidden).to(device)
        self.words = torch.empty(0, WORD_DIM, device=device)

    def run(self, batch: Batch, way: Way) -> Any:
        ids = next(iter(batch.ids.values()))
        n_words = len(ids.distinct)
        if n_words > len(self.words):  # in the first rounds, which do not count
            self.words = torch.randn(n_words, WORD_DIM, device=batch.device)
        words = self.words[:n_words].requires_grad_()
        with torch.autocast(batch.device.type, torch.bfloat16, enabled=way.half), passes(way):
            if way.backend == "nn.GRU":
                inputs = embedding(ids.inverse[batch.packing.order], words)
                _, final = self.view.network(PackedSequence(inputs, batch.packing.sizes))
                vectors = torch.cat(final.unbind(0), dim=1)
            else:
                self.view.tree_backend = way.backend
                vectors = self.view.forward(WordVectors(words), batch, ids).vector
        wanted = [words, *self.view.parameters()]
        return torch.autograd.grad(vectors, wanted, torch.ones_like(vectors), allow_unused=True)


class Step:
    """A whole training step: ``Training.step`` without the rest of a training run."""

    def __init__(self, views: Sequence[str], hidden: int, channels: int, device: torch.device):
        torch.manual_seed(1)
        names = channel_names(channels)
        config = TrainConfig.of(corpus="x.parsed", views=tuple(views), word_dim=WORD_DIM, hidden=hidden, word_init=0.5)
        made = {name: Channel(config, VOCABULARY) for name in names}
        self.model = Model(made).to(device)
        self.optimiser = LazyAdam(self.model.parameters(), lr=LEARNING_RATE)

    def run(self, batch: Batch, way: Way) -> Any:
        for view in self.model.views:
            view.tree_backend = way.backend
        self.optimiser.zero_grad(set_to_none=True)
        with torch.autocast(batch.device.type, torch.bfloat16, enabled=way.half), passes(way):
            loss, *_ = self.model.losses(batch, self.model.context(batch, 1))
        loss.backward()
        for channel in self.model.channels.values():
            clip_gradients(channel.parameters(), LARGEST_NORM)
        self.optimiser.step()
        self.model.after_step()


# A measured computation: forward, backward, and whatever else belongs to it.
Contender = Encoder | Step


def channel_names(count: int) -> list[str]:
    """Names for channels."""
    return [f"channel{number}" for number in range(1, count + 1)]


class Batches:
    """Batches of a corpus, by size; those of one size are evenly spread over it."""

    def __init__(self, corpus: ParsedCorpus, device: torch.device):
        self.device = device
        vocabulary = Vocabulary.of_corpus(corpus, VOCABULARY - 1)
        # A batch has words for two channels; a model with one reads the first.
        self.reader = CorpusReader(corpus, dict.fromkeys(channel_names(2), vocabulary), ["dependency", "constituency"])

    def of_size(self, size: int) -> list[Batch]:
        """Batches of consecutive sentences on the device."""
        starts = np.linspace(0, max(len(self.reader) - size, 0), LEAST_ROUNDS).astype(int)
        rows = (np.arange(start, min(start + size, len(self.reader))) for start in starts)
        return [self.reader.batch(some).to(self.device) for some in rows]


def flags(parser: argparse.ArgumentParser) -> None:
    """The command line."""
    parser.add_argument("--corpus", type=Path, help="a parsed corpus with both kinds of tree")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, help="PyTorch threads; by default its own choice")
    parser.add_argument("--only", default=",".join(PARTS), help=f"comma-separated parts: {', '.join(PARTS)}")
    parser.add_argument("--sizes", default="64,400", help="sentences per batch")
    parser.add_argument("--hidden", default="150,600,1200", help="dimensions of the vectors")
    parser.add_argument("--sentences", type=int, default=8000, help="size of the random corpus")
    parser.add_argument("--rounds", type=int, default=7, help="most rounds per comparison")
    parser.add_argument(
        "--seconds", type=float, help="start no more rounds of a race after so many; default 60, 5 on a GPU"
    )
    parser.add_argument("--ceiling", type=int, help="rows of the large product; default 2048, 8192 on a GPU")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Rows of each part."""
    chosen = options.only.split(",")
    if unknown := sorted(set(chosen) - set(PARTS)):
        raise SystemExit(f"--only {','.join(unknown)}: the parts are {', '.join(PARTS)}")
    keep_freed_memory()  # as training does
    cuda, threads = options.device == "cuda", options.threads or torch.get_num_threads()
    options.device = torch.device(options.device)
    options.threads = [threads] if cuda or threads == 1 else [threads, 1]
    options.sizes, options.hidden = (list(map(int, each.split(","))) for each in (options.sizes, options.hidden))
    options.seconds = options.seconds or (5 if cuda else 60)
    options.ceiling = options.ceiling or (8192 if cuda else 2048)
    with tempfile.TemporaryDirectory() as folder:
        corpus = ParsedCorpus.open(options.corpus) if options.corpus else random_corpus(Path(folder), options.sentences)
        batches = Batches(corpus, options.device)
        parts = {"kernels": kernels, "step": step}
        return {
            name: [row for each in options.threads for row in parts[name](options, batches, each)] for name in chosen
        }


def kernels(options: argparse.Namespace, batches: Batches, threads: int) -> Iterator[Row]:
    """Each encoder alone on precomputed word vectors, forward and backward."""
    torch.set_num_threads(threads)
    for name, size, hidden in itertools.product(ENCODERS, options.sizes, options.hidden):
        contender = Encoder(name, hidden, options.device)
        about = {"what": name, "batch": size, "hidden": hidden, "threads": threads}
        yield about | compare(options, contender, ways(name, options.device), batches, size)


def step(options: argparse.Namespace, batches: Batches, threads: int) -> Iterator[Row]:
    """The whole training step of dep,const; at the paper's size also with two channels."""
    torch.set_num_threads(threads)
    sizes = [(*size, 1) for size in itertools.product(options.sizes, options.hidden)]
    for size, hidden, channels in [*sizes, (*sizes[-1][:2], 2)]:
        contender = Step(VIEWS, hidden, channels, options.device)
        what = ",".join(VIEWS) + " step" + f", {channels} channels" * (channels > 1)
        about = {"what": what, "batch": size, "hidden": hidden, "threads": threads}
        row = about | compare(options, contender, ways("step", options.device), batches, size)
        if (size, hidden, channels) == (*PAPERS_SIZE, 1):
            row["times_the_paper"] = {n: rate / PAPERS_RATE for n, rate in row["sentences_per_second"].items()}
        yield row


def compare(
    options: argparse.Namespace, contender: Contender, entered: dict[str, Way], batches: Batches, size: int
) -> Row:
    """Time all ways to run something, taking turns with plain matrix products in both precisions.

    Returns:
        For each way sentences a second, the ratio to DGL's, and the share of the ceiling: the operations of the
        products that the level way makes, over those that one product makes in the same time. Medians over rounds, of
        rates measured in the same round.
    """
    full, few = batches.of_size(size), batches.of_size(N_FEW)
    chosen = {name: few if way.few else full for name, way in entered.items()}
    runs: dict[str, Run] = {name: partial(turn, contender, chosen[name], way) for name, way in entered.items()}
    ceilings = {name: product(options.ceiling, dtype, options.device) for name, dtype in PRECISIONS.items()}
    runs |= {f"{name} product": run for name, (run, _) in ceilings.items()}
    operations = {id(batch): operations_of(contender, batch) for batch in (*full, *few)}
    times = race(runs, options.rounds, options.seconds, options.device)

    def per_turn(name: str, amount: Any) -> list[tuple[float, float]]:
        return [(amount(batch), t) for t, batch in zip(times[name], itertools.cycle(chosen[name]), strict=False)]

    # Seconds a word, so that few sentences of other lengths count as they should.
    per_word = {name: [t / n for n, t in per_turn(name, lambda batch: int(batch.lengths.sum()))] for name in entered}
    words = sum(int(batch.lengths.sum()) for batch in full) / sum(map(len, full))
    speed = {name: [n / t for t in times[f"{name} product"]] for name, (_, n) in ceilings.items()}
    made = {name: [n / t for n, t in per_turn(name, lambda batch: operations[id(batch)])] for name in entered}
    precision = {name: "bf16" if way.half else "fp32" for name, way in entered.items()}
    return {
        "sentences_per_second": {name: 1 / median(each) / words for name, each in per_word.items()},
        "times_dgl": {n: median_ratio(per_word["DGL"], each) for n, each in per_word.items() if "DGL" in per_word},
        "share_of_ceiling": {name: median_ratio(made[name], speed[precision[name]]) for name in entered},
        "ceiling_gflops": {name: median(each) / 1e9 for name, each in speed.items()},
        "rounds": len(next(iter(times.values()))),
    }


class Operations(TorchDispatchMode):
    """Counts the operations of matrix products, in place too; PyTorch's own counter hooks modules, which we may not."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket is torch.ops.aten.addmm_:
            self.count += 2 * args[1].numel() * args[2].shape[1]
        elif func.overloadpacket in flop_registry:
            self.count += flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=out)
        return out


def operations_of(contender: Contender, batch: Batch) -> int:
    """Operations of the matrix products of the level way, forward and backward."""
    with Operations() as counted:
        contender.run(batch, WAYS["fp32"])
    return counted.count


def turn(contender: Contender, batches: Sequence[Batch], way: Way, number: int) -> None:
    """One turn of a contender, on the batch of this round."""
    contender.run(batches[number % len(batches)], way)


def tables(found: dict[str, Any]) -> str:
    """A table for each part."""
    about = "Sentences/s, ratio to DGL, share of the ceiling of the same precision:"
    return "\n\n".join([about, *(compared(rows) for name, rows in found.items() if name in PARTS)])


def compared(rows: list[Row]) -> str:
    """Sentences per second of each contender, with the ratio to DGL and the share of the ceiling."""
    names = list(dict.fromkeys(name for row in rows for name in row["sentences_per_second"]))

    def cell(row: Row, name: str) -> str:
        if name not in row["sentences_per_second"]:
            return ""
        ratio = f", {row['times_dgl'][name]:.2f} x" if row["times_dgl"] else ""
        paper = f", {row['times_the_paper'][name]:.1f} x the paper's" if "times_the_paper" in row else ""
        return f"{row['sentences_per_second'][name]:,.0f}{ratio}, {row['share_of_ceiling'][name]:.0%}{paper}"

    columns = ("what", "batch", "hidden", "threads")
    body = []
    for row in rows:
        ceiling = " / ".join(f"{value:,.0f}" for value in row["ceiling_gflops"].values())
        body.append([*(row[column] for column in columns), *(cell(row, name) for name in names), ceiling])
    return table([*columns, *names, "ceiling GFLOP/s"], body)
