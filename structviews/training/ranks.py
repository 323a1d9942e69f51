"""Data-parallel training with several processes (ranks): ``torchrun --nproc-per-node K -m structviews train``.

Every rank has the whole model and its own batches; gradients are averaged, so the weights stay equal.
This does not use DistributedDataParallel: a word table's gradient has only the rows of the words in a rank's batches,
which differ between ranks, and DDP would send the whole table. Joint decisions (stop, save, which words occur) go
through a CPU group, so they do not synchronise with the device.

Shapes: K ranks.
"""

import importlib
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from structviews.errors import InputError
from structviews.objectives.objective import ROWS, VALUES, Context
from structviews.runtime.processes import Interrupted

Array = np.ndarray


class RankLost(Exception):  # noqa: N818 - the name says what happened
    """A collective operation failed because another rank has ended."""


class Ranks:
    """The processes that train together; by default a single process.

    This one is number ``rank`` of ``count``; only rank 0, which ``leads``, writes files and prints.
    """

    def __init__(self, rank: int = 0, count: int = 1, store: dist.Store | None = None):
        self.rank = rank
        self.count = count
        self.leads = rank == 0
        self._store = store

    def exchange(self, message: Array) -> Array:
        """Gather each rank's message of ``(n,)`` bytes, uint8, into ``(K, n)``."""
        if self.count == 1:
            return message[None]
        own = torch.from_numpy(np.ascontiguousarray(message))
        gathered = torch.empty(self.count, len(own), dtype=torch.uint8)
        with _watched():
            dist.all_gather(list(gathered), own)
        return gathered.numpy()

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over the ranks, in place."""
        if self.count == 1:
            return
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            same = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.reshape(-1) for tensor in same])
            with _watched():
                dist.all_reduce(flat)
            flat /= self.count
            for tensor, mean in zip(same, flat.split([tensor.numel() for tensor in same]), strict=True):
                tensor.copy_(mean.view_as(tensor))

    def wait(self) -> None:
        """Wait until all ranks get here."""
        self.exchange(np.zeros(1, dtype=np.uint8))

    def mean(self, values: dict[str, float]) -> dict[str, float]:
        """The mean of each value over the ranks."""
        gathered = self.exchange(np.array(list(values.values()), dtype=np.float64).view(np.uint8)).view(np.float64)
        return dict(zip(values, gathered.mean(axis=0).tolist(), strict=True))

    def join(self, views: Sequence[Tensor], context: Context) -> tuple[list[Tensor], Context]:
        """Concatenate the vectors and contexts of all ranks' batches, in rank order."""
        if self.count == 1:
            return list(views), context
        # What differs between ranks, but for the lengths of sentences, which are on the CPU.
        names = sorted(ROWS | VALUES)
        of_words = ("distinct", "inverse", "sentence", "vectors")
        shared = {name: tensor for name in names if (tensor := getattr(context, name)) is not None}
        if context.words is not None:
            shared |= {name: tensor for name in of_words if (tensor := getattr(context.words, name)) is not None}
        gathered = self._gather([*views, *shared.values()])
        contexts = []
        for of_rank in zip(*gathered[len(views) :], strict=True):
            own: dict[str, Any] = dict(zip(shared, of_rank, strict=True))
            if context.words is not None:
                words = {name: own.pop(name) for name in of_words if name in own}
                lengths = torch.bincount(words["sentence"], minlength=len(own["neighbours"])).cpu().numpy()
                own["words"] = replace(context.words, lengths=lengths, **words)
            contexts.append(replace(context, **own))
        return [torch.cat(tensors) for tensors in gathered[: len(views)]], Context.joined(contexts)

    def _gather(self, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
        """For each tensor, gather those of all ranks; their first dimensions may differ.

        If every rank computes a loss on the gathered tensors, its gradient after ``average`` is that of a
        single process with all tensors: the gradient of this rank's own tensor flows back multiplied by K,
        and that of the others' tensors is dropped, as their own ranks compute it.
        """
        own = np.array([len(tensor) for tensor in tensors], dtype=np.int64)
        sizes = self.exchange(own.view(np.uint8)).view(np.int64)
        gathered: list[list[Tensor]] = [[] for _ in tensors]
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            same = [i for i, tensor in enumerate(tensors) if tensor.dtype == dtype]
            numbers = sizes[:, same] * [math.prod(tensors[i].shape[1:]) for i in same]
            own_flat = torch.cat([tensors[i].detach().reshape(-1) for i in same])
            padded = torch.nn.functional.pad(own_flat, (0, int(numbers.sum(axis=1).max()) - len(own_flat)))
            everyone = [torch.empty_like(padded) for _ in range(self.count)]
            with _watched():
                dist.all_gather(everyone, padded)
            for rank, flat in enumerate(everyone):
                for i, values in zip(same, flat[: numbers[rank].sum()].split(numbers[rank].tolist()), strict=True):
                    gathered[i].append(values.view(-1, *tensors[i].shape[1:]))
        for each, tensor in zip(gathered, tensors, strict=True):
            each[self.rank] = tensor.view_as(tensor)
            if tensor.requires_grad:  # ``average`` divides by the number of ranks again
                each[self.rank].register_hook(partial(torch.mul, other=self.count))
        return gathered

    def reports(self) -> bool:
        """Whether this rank is the first to ask. Only that one reports an error."""
        try:
            return self._store is None or bool(self._store.add("structviews.reported", 1) == 1)
        except RuntimeError:  # the rank that hosts the store has gone
            return self.leads


@contextmanager
def _watched() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise RankLost(str(error)) from error


@contextmanager
def joined_ranks() -> Iterator[Ranks]:
    """The ranks that torchrun started; without torchrun, only this process.

    If one rank ends, all end. One of them raises the error, an InputError if a rank was lost that could not report why;
    the others end silently.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks()
        return
    # This module's functions take the process group that exists at import as a default argument, and optimisers
    # import it sooner or later. If that group were ours, it could never be destroyed, and gloo's threads, which
    # sometimes need the interpreter, would abort at exit. So import it before the group exists.
    importlib.import_module("torch.distributed.nn.functional")
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store, rank, count = next(dist.rendezvous("env://"))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    # The others wait while one lets a teacher read the corpus; a process that ends breaks its connections at once.
    dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=timedelta(days=7))
    ranks = Ranks(rank, count, store)
    try:
        yield ranks
        ranks.wait()
    except Interrupted as stop:
        if ranks.leads:
            raise
        _end(128 + stop.signal)
    except Exception as error:
        if not ranks.reports():
            _end(2)
        if not isinstance(error, RankLost):
            raise
        kept = "the last checkpoint is kept, run the same command again to resume"
        raise InputError(f"another rank was killed (see torchrun's output): {kept}") from error
    dist.destroy_process_group()


def _end(code: int) -> NoReturn:
    """Exit silently and at once: closing connections to ranks that have gone may abort the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def deal(starts: Array, count: int) -> Array:
    """Split sentences into ``count`` contiguous shares of whole documents, as equal as possible.

    ``starts (documents + 1,)`` are the first sentence of each document, and the end; the result ``(count + 1,)`` those
    of the shares, some of which are empty if there are too few documents.
    """
    wanted = starts[-1] * np.arange(count + 1) / count
    after = np.searchsorted(starts, wanted).clip(1)
    nearer = np.where(wanted - starts[after - 1] < starts[after] - wanted, after - 1, after)
    return starts[nearer]
