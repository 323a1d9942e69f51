"""Results that are kept in bounded memory, so that asking again costs nothing."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class Remembered(Generic[T]):
    """The results that were last asked for.

    Args:
        size: bytes of a result.
        most: bytes of all results that are kept.
    """

    def __init__(self, size: Callable[[T], int], most: int):
        self._size = size
        self._most = most
        self._known: OrderedDict[Hashable, T] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def of(self, how: Hashable, items: Sequence[K], compute: Callable[[list[K]], Sequence[T]]) -> list[T]:
        """The result of each item.

        Args:
            how: what the results depend on besides the items.
            items: may repeat.
            compute: gives the results of those that are not known, each once, in the order of ``items``.
        """
        with self._lock:
            found = {item: self._known[how, item] for item in items if (how, item) in self._known}
            for item in found:
                self._known.move_to_end((how, item))
        missing = [item for item in dict.fromkeys(items) if item not in found]
        if missing:
            computed = dict(zip(missing, compute(missing), strict=True))
            self._keep({(how, item): result for item, result in computed.items()})
            found |= computed
        return [found[item] for item in items]

    def _keep(self, results: dict[Hashable, T]) -> None:
        with self._lock:
            for key, result in results.items():
                if key not in self._known:
                    self._known[key] = result
                    self._bytes += self._size(result)
            while self._bytes > self._most:
                _, forgotten = self._known.popitem(last=False)
                self._bytes -= self._size(forgotten)
