"""Several processes, called ranks, that train one model: ``torchrun --nproc-per-node K -m structviews train``.

Every rank has the whole model and batches of its own; the gradients are averaged, so the weights
stay the same everywhere. Not DistributedDataParallel: the gradient of a word table has the rows of the
words that a rank's batches have, others on each rank, and DDP would send the whole table. What is
decided together (to stop, to save, which words occur) travels through the CPU's own group, so nothing
waits for the device.

Shapes: K ranks.
"""

import importlib
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from structviews.errors import InputError
from structviews.objectives import Context
from structviews.signals import Interrupted

Array = np.ndarray


class RankLost(Exception):  # noqa: N818 - says what happened
    """Another rank has ended, and what was to be done together cannot be."""


class Agreement(NamedTuple):
    """What the ranks know before a step.

    Attributes:
        signal: number of a signal that asks some rank to stop, or 0.
        due: whether some rank wants a checkpoint.
        sentences: of all ranks' batches.
        words: by channel, the ids ``(U,)`` that occur in some rank's batches, ascending.
    """

    signal: int
    due: bool
    sentences: int
    words: dict[str, Array]


class Ranks:
    """The processes that train together; here one by itself.

    Attributes:
        rank: which one this is, from 0; rank 0 leads, and alone writes and speaks.
        count: K.
    """

    rank = 0
    count = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def exchange(self, message: Array) -> Array:
        """The messages ``(K, n)`` of all ranks; each has ``(n,)`` bytes, uint8."""
        return message[None]

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Put the mean over the ranks in the place of each tensor."""

    def gather(self, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
        """For each tensor those of all ranks, whose first dimensions may differ.

        A loss of gathered tensors that every rank calculates has, after ``average``, the gradient
        that a single process with all of them would have: the gradient of what is this rank's goes
        back into it times K, and that of what is others' is their own business.
        """
        return [[tensor] for tensor in tensors]

    def wait(self) -> None:
        """Go on when all ranks have come here."""

    def agree(
        self, signal: int, due: bool, sentences: int, words: dict[str, Array], sizes: dict[str, int]
    ) -> Agreement:
        """Tell the other ranks about the step to take, and hear about theirs.

        Args:
            signal, due, sentences, words: see ``Agreement``, of this rank.
            sizes: number of words of each channel's vocabulary.
        """
        return Agreement(signal, due, sentences, words)

    def mean(self, values: dict[str, float]) -> dict[str, float]:
        """The mean over the ranks of numbers that each has."""
        return values

    def join(self, views: Sequence[Tensor], context: Context) -> tuple[list[Tensor], Context]:
        """The vectors and contexts of all ranks' batches below one another, in the ranks' order."""
        if self.count == 1:
            return list(views), context
        names, told = _tensors(context)
        gathered = self.gather([*views, *told])
        contexts = [
            _rebuilt(context, names, [parts[rank] for parts in gathered[len(views) :]]) for rank in range(self.count)
        ]
        return [torch.cat(parts) for parts in gathered[: len(views)]], Context.joined(contexts)


class _Group(Ranks):
    """Ranks of a process group, as torchrun starts it."""

    def __init__(self, store: dist.Store, rank: int, count: int):
        self.rank = rank
        self.count = count
        self._store = store

    def exchange(self, message: Array) -> Array:
        own = torch.from_numpy(np.ascontiguousarray(message))
        told = torch.empty(self.count, len(own), dtype=torch.uint8)
        with _watched():
            dist.all_gather(list(told), own)
        return told.numpy()

    def average(self, tensors: Sequence[Tensor]) -> None:
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            same = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.reshape(-1) for tensor in same])
            with _watched():
                dist.all_reduce(flat)
            flat /= self.count
            for tensor, mean in zip(same, flat.split([tensor.numel() for tensor in same]), strict=True):
                tensor.copy_(mean.view_as(tensor))

    def gather(self, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
        own = np.array([len(tensor) for tensor in tensors], dtype=np.int64)
        sizes = self.exchange(own.view(np.uint8)).view(np.int64)
        gathered: list[list[Tensor]] = [[] for _ in tensors]
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            same = [i for i, tensor in enumerate(tensors) if tensor.dtype == dtype]
            numbers = sizes[:, same] * [math.prod(tensors[i].shape[1:]) for i in same]
            for rank, flat in enumerate(self._padded([tensors[i] for i in same], int(numbers.sum(axis=1).max()))):
                parts = flat[: numbers[rank].sum()].split(numbers[rank].tolist())
                for i, part in zip(same, parts, strict=True):
                    mine = rank == self.rank
                    gathered[i].append(
                        _Own.apply(tensors[i], self.count) if mine else part.view(-1, *tensors[i].shape[1:])
                    )
        return gathered

    def _padded(self, tensors: Sequence[Tensor], length: int) -> list[Tensor]:
        """Each rank's tensors as one of ``length`` numbers, zeros at the end."""
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        flat = torch.nn.functional.pad(flat, (0, length - len(flat)))
        told = [torch.empty_like(flat) for _ in range(self.count)]
        with _watched():
            dist.all_gather(told, flat)
        return told

    def agree(
        self, signal: int, due: bool, sentences: int, words: dict[str, Array], sizes: dict[str, int]
    ) -> Agreement:
        head = np.array([signal, due, sentences], dtype=np.int64).view(np.uint8)
        masks = []
        for name, ids in words.items():
            mask = np.zeros(sizes[name], dtype=bool)
            mask[ids] = True
            masks.append(np.packbits(mask))
        told = self.exchange(np.concatenate([head, *masks]))
        heads = np.ascontiguousarray(told[:, : len(head)]).view(np.int64)
        joined = np.bitwise_or.reduce(told[:, len(head) :])
        parts = np.split(joined, np.cumsum([len(mask) for mask in masks])[:-1]) if masks else []
        return Agreement(
            int(heads[:, 0].max()),
            bool(heads[:, 1].any()),
            int(heads[:, 2].sum()),
            {name: np.flatnonzero(np.unpackbits(part)) for name, part in zip(words, parts, strict=True)},
        )

    def mean(self, values: dict[str, float]) -> dict[str, float]:
        told = self.exchange(np.array(list(values.values()), dtype=np.float64).view(np.uint8)).view(np.float64)
        return dict(zip(values, told.mean(axis=0).tolist(), strict=True))

    def wait(self) -> None:
        self.exchange(np.zeros(1, dtype=np.uint8))

    def speaks(self) -> bool:
        """Whether this rank is the first that asks; one that ends with an error says so for all."""
        try:
            return self._store.add("structviews.spoken", 1) == 1
        except RuntimeError:  # whoever keeps the store has gone
            return self.leads


def _tensors(context: Context) -> tuple[list[str], list[Tensor]]:
    """The parts of a context that differ from rank to rank, and their names."""
    parts = {name: getattr(context, name) for name in ("neighbours", "same", "next")}
    if context.words is not None:
        parts |= {f"words.{name}": getattr(context.words, name) for name in ("distinct", "inverse", "sentence")}
    there = {name: part for name, part in parts.items() if part is not None}
    return list(there), list(there.values())


def _rebuilt(context: Context, names: Sequence[str], tensors: Sequence[Tensor]) -> Context:
    """A context like ``context`` of other parts."""
    parts: dict[str, Any] = dict(zip(names, tensors, strict=True))
    words = {name.removeprefix("words."): parts.pop(name) for name in names if name.startswith("words.")}
    if context.words is not None:
        parts["words"] = replace(context.words, **words)
    return replace(context, **parts)


class _Own(torch.autograd.Function):
    """A tensor as it is, its gradient times the number of ranks that ``average`` will divide it by."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, count: int) -> Tensor:
        ctx.count = count
        return tensor.view_as(tensor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.count, None


@contextmanager
def _watched() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise RankLost(str(error)) from error


@contextmanager
def joined_ranks() -> Iterator[Ranks]:
    """The ranks that torchrun started, this process among them; without torchrun, it by itself.

    Whatever ends one rank ends all. One of them raises it, and is the one to tell the user; the
    others end without a word.

    Raises:
        InputError: if a rank was lost that could not say why.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks()
        return
    ranks = _start()
    try:
        yield ranks
        ranks.wait()
    except Interrupted as stop:
        if ranks.leads:
            raise
        _end(128 + stop.signal)
    except RankLost as lost:
        if ranks.speaks():
            raise InputError(
                "another rank was killed, see what torchrun says of it: the last checkpoint stays, "
                "give the same command again to go on"
            ) from lost
        _end(2)
    except Exception:
        if ranks.speaks():
            raise
        _end(2)
    dist.destroy_process_group()


def _end(code: int) -> NoReturn:
    """End without a word, and at once: tearing down connections to ranks that have gone may abort."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _start() -> _Group:
    # Its functions take the process group that there is when they are imported, as optimisers do at some time, for
    # a default. Were that ours, nothing could destroy it, and gloo's threads, which now and then need the
    # interpreter, would find it gone when the process ends, and abort.
    importlib.import_module("torch.distributed.nn.functional")
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store, rank, count = next(dist.rendezvous("env://"))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=count)
    return _Group(store, rank, count)


def deal(starts: Array, count: int) -> Array:
    """Cut sentences into as many shares of whole documents, as equal as neighbours can be.

    Args:
        starts: ``(documents + 1,)`` the sentence that each document begins with, and the end.
        count: number of shares.

    Returns:
        ``(count + 1,)`` where each share begins, and the end. A share is empty where documents are too few.
    """
    wanted = starts[-1] * np.arange(count + 1) / count
    after = np.searchsorted(starts, wanted).clip(1)
    nearer = np.where(wanted - starts[after - 1] < starts[after] - wanted, after - 1, after)
    return starts[nearer]
