"""What is compared: the encoders alone and the whole training step, each run in several ways."""

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding, pad
from torch.nn.utils.rnn import PackedSequence

from benchmarks import flops
from structviews.batches.batch import Batch, WordIds
from structviews.batches.reader import CorpusReader
from structviews.batches.trees import TreeBatch
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.kernels import message_passing
from structviews.kernels.child_sum import ChildSumCell
from structviews.kernels.nary import BinaryCell
from structviews.model import Channel, Model
from structviews.training.optimiser import LazyAdam, clip_gradients
from structviews.views.view import create_view
from structviews.words.vocabulary import Vocabulary

WORD_DIM = 300
# Rows of a word table at the paper's size, however few words the corpus has.
VOCABULARY = 50_001
LEARNING_RATE, LARGEST_NORM = 5e-4, 5.0
ENCODERS = ("dep-sum", "dep", "dep-gru", "const", "const-gru", "seq")


class Way(NamedTuple):
    """How an encoder is run.

    Attributes:
        backend: of the trees; or one of the ways that only this benchmark has.
        half: products in bf16.
        few: on a few sentences only, because it is slow; rates are scaled by the number of words.
    """

    backend: str = "level"
    half: bool = False
    few: bool = False


WAYS = {
    "naive": Way("naive", few=True),
    "DGL's example": Way("example"),
    "DGL": Way("dgl"),
    "nn.GRU": Way("nn.GRU"),
    "nn.GRU bf16": Way("nn.GRU", half=True),
    "fp32": Way(),
    "bf16": Way(half=True),
}
N_FEW = 3


def ways(encoder: str) -> dict[str, Way]:
    """The ways to run an encoder or the training step on this machine."""
    without = {"DGL's example"} if encoder not in ("dep-sum", "const") else set()
    without |= {"naive", "DGL"} if encoder == "seq" else {"nn.GRU", "nn.GRU bf16"}
    if find_spec("dgl") is None:
        without |= {"DGL", "DGL's example"}
    return {name: way for name, way in WAYS.items() if name not in without}


class Contender(Protocol):
    """A measured computation: forward, backward, and whatever else belongs to it."""

    def run(self, batch: Batch, way: Way) -> Any:
        """Run it once."""

    def operations(self, batch: Batch) -> int:
        """Operations of its matrix products."""


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
        ids = first_ids(batch)
        n_words = len(ids.distinct)
        if n_words > len(self.words):  # in the first rounds, which do not count
            self.words = torch.randn(n_words, WORD_DIM, device=batch.device)
        words = self.words[:n_words].requires_grad_()
        with torch.autocast(batch.device.type, torch.bfloat16, enabled=way.half):
            vectors = self._encode(batch, ids, words, way)
        wanted = [words, *self.view.parameters()]
        return torch.autograd.grad(vectors, wanted, torch.ones_like(vectors), allow_unused=True)

    def _encode(self, batch: Batch, ids: WordIds, words: Tensor, way: Way) -> Tensor:
        if way.backend == "nn.GRU":
            inputs = embedding(ids.inverse[batch.packing.order], words)
            _, final = self.view.network(PackedSequence(inputs, batch.packing.sizes))
            return torch.cat(final.unbind(0), dim=1)
        if way.backend == "example":
            trees = batch.dependency_trees if self.view.needs == "dependency" else batch.constituency_trees
            return dgl_example(self.view.cell, embedding(ids.inverse, words), trees)
        self.view.tree_backend = way.backend
        return self.view.forward(WordVectors(words), batch, ids).vector

    def operations(self, batch: Batch) -> int:
        return flops.of_view(self.view, batch)


class Step:
    """A whole training step: ``Training.step`` without the rest of a training run."""

    def __init__(self, views: Sequence[str], hidden: int, channels: int, device: torch.device):
        torch.manual_seed(1)
        self.hidden = hidden
        self.model = Model(
            {
                name: Channel(views, VOCABULARY, WORD_DIM, hidden, "pairwise", word_init=0.5)
                for name in channel_names(channels)
            }
        ).to(device)
        self.optimiser = LazyAdam(self.model.parameters(), lr=LEARNING_RATE)

    def run(self, batch: Batch, way: Way) -> Any:
        for view in self.model.views:
            view.tree_backend = way.backend
        self.optimiser.zero_grad(set_to_none=True)
        with torch.autocast(batch.device.type, torch.bfloat16, enabled=way.half):
            loss, *_ = self.model.losses(batch, self.model.context(batch, 1))
        loss.backward()
        for _, channel in self.model.each():
            clip_gradients(channel.parameters(), LARGEST_NORM)
        self.optimiser.step()
        self.model.after_step()

    def operations(self, batch: Batch) -> int:
        encoders = sum(flops.of_view(view, batch) for view in self.model.views)
        return encoders + len(self.model.channels) * flops.of_pairwise(len(batch), self.hidden)


def first_ids(batch: Batch) -> WordIds:
    """A batch's words in its first vocabulary."""
    return next(iter(batch.ids.values()))


def channel_names(count: int) -> list[str]:
    """Names for channels."""
    return [f"channel{number}" for number in range(1, count + 1)]


class Batches:
    """Batches of a corpus, by size; those of one size are evenly spread over it."""

    def __init__(self, corpus: ParsedCorpus, count: int, device: torch.device):
        self.count = count
        self.device = device
        vocabulary = Vocabulary.of_corpus(corpus, VOCABULARY - 1)
        # A batch has words for two channels; a model with one reads the first.
        self.reader = CorpusReader(corpus, dict.fromkeys(channel_names(2), vocabulary), ["dependency", "constituency"])

    def of_size(self, size: int) -> list[Batch]:
        """Batches of consecutive sentences on the device."""
        starts = np.linspace(0, max(len(self.reader) - size, 0), self.count).astype(int)
        rows = (np.arange(start, min(start + size, len(self.reader))) for start in starts)
        return [self.reader.batch(some).to(self.device) for some in rows]


def dgl_example(cell: ChildSumCell | BinaryCell, inputs: Tensor, trees: TreeBatch) -> Tensor:
    """Run a cell like DGL's own Tree-LSTM example, with mailboxes and ``W_f x``.

    It is slower than ``structviews.kernels.message_passing``, but the usual point of comparison.
    """
    dgl = message_passing.load()
    graph = dgl.graph((trees.children, trees.parent[trees.children]), num_nodes=len(trees))
    x = inputs[trees.words]
    words = cell.input(x) + (cell.bias if isinstance(cell, BinaryCell) else 0)
    # Of binary trees only the leaves have words; what inner nodes have is replaced when they are reached.
    graph.ndata["input"] = graph.ndata["iou"] = pad(words, (0, 0, 0, len(trees) - len(words)))
    graph.ndata["h"] = graph.ndata["c"] = x.new_zeros(len(trees), cell.hidden)
    if isinstance(cell, ChildSumCell):
        graph.ndata["forget"] = cell.input_forget(x)

    def message(edges: Any) -> dict[str, Tensor]:
        return {"h": edges.src["h"], "c": edges.src["c"]}

    def child_sum(nodes: Any) -> dict[str, Tensor]:
        h, c = nodes.mailbox["h"], nodes.mailbox["c"]
        f = torch.sigmoid(nodes.data["forget"][:, None] + cell.recurrent_forget(h))
        return {"iou": nodes.data["input"] + cell.recurrent(h.sum(dim=1)), "c": (f * c).sum(dim=1)}

    def binary(nodes: Any) -> dict[str, Tensor]:
        iou, forget = cell.recurrent(nodes.mailbox["h"].flatten(1)).tensor_split([3 * cell.hidden], dim=1)
        f = torch.sigmoid(forget + cell.bias_forget.repeat(2)).view_as(nodes.mailbox["c"])
        return {"iou": iou + cell.bias, "c": (f * nodes.mailbox["c"]).sum(dim=1)}

    def update(nodes: Any) -> dict[str, Tensor]:
        i, o, u = nodes.data["iou"].chunk(3, dim=1)
        c = torch.sigmoid(i) * torch.tanh(u) + nodes.data["c"]
        return {"h": torch.sigmoid(o) * torch.tanh(c), "c": c}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # DGL warns that leaves get no messages
        reduce = binary if isinstance(cell, BinaryCell) else child_sum
        dgl.prop_nodes_topo(graph, message, reduce, apply_node_func=update)
    return graph.ndata["h"][trees.roots]
