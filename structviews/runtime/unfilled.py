"""Modules whose weights are read from a file: making them costs no random numbers, and no time to draw them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

RANDOM = frozenset({nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_, Tensor.uniform_, Tensor.normal_})


class Unfilled(TorchFunctionMode):
    """A context in which nothing is filled with random values, so that weights hold what their memory held.

    On the device ``meta`` such fills would also import PyTorch's compiler, which takes a second.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function in RANDOM:
            return args[0] if args else (kwargs or {})["tensor"]
        return function(*args, **(kwargs or {}))
