"""Modules whose weights are read from a file: making them costs no random numbers, and no time to draw them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

RANDOM = frozenset({nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_, Tensor.uniform_, Tensor.normal_})

EMPTY = frozenset({torch.empty, torch.zeros, torch.ones, torch.full})


class TooLargeError(ValueError):
    """A module asks for more numbers than it may."""


class Unfilled(TorchFunctionMode):
    """A context in which nothing is filled with random values, so that weights hold what their memory held.

    On the device ``meta`` such fills would also import PyTorch's compiler, which takes a second.

    Args:
        most: how many numbers new tensors may have in all; None for any number.

    Raises:
        TooLargeError: within the block, before it takes memory for more.
    """

    def __init__(self, most: int | None = None):
        super().__init__()
        self.left = most

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function in RANDOM:
            return args[0] if args else (kwargs or {})["tensor"]
        if function in EMPTY and self.left is not None:
            self.left -= function(*args, **{**(kwargs or {}), "device": "meta"}).numel()
            if self.left < 0:
                raise TooLargeError
        return function(*args, **(kwargs or {}))
