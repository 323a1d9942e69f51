"""Registries of everything that has a name: views, objectives, parsers, kinds of run, tasks, protocols.

A registry belongs to a package. Modules of that package have the built-in entries; plug-ins are installed packages that
declare an entry point in the registry's group::

    [project.entry-points."structviews.views"]
    gap = "my_package.gap_view"

Either way, the module registers what it defines with the decorator ``register`` when it is imported.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any, Generic, TypeVar

from structviews.errors import unknown

T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])


class Registry(Generic[T]):
    """Named objects of one kind. Imports nothing until a name is looked up.

    Args:
        kind: what is registered, for messages, such as ``view``.
        package: the package whose modules register the built-in entries.
        group: the group of entry points that name plug-in modules.
        others: names that stand beside these for users, and that something else handles.
    """

    def __init__(self, kind: str, package: str, group: str, others: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.package = package
        self.group = group
        self.others = others
        self._modules = [module.name for module in iter_modules(import_module(package).__path__)]
        self._known: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str, part: Any = None) -> Callable[[C], C]:
        """Register an object under ``name``; without one, a decorator that registers a class or a function.

        Raises:
            ValueError: if the name is taken.
        """
        if part is None:
            return partial(self.register, name)  # type: ignore[return-value]  # no type says that C is a T
        if name in self._known:
            raise ValueError(f"the {self.kind} {name!r} is already registered")
        self._known[name] = part
        return part

    def __getitem__(self, name: str) -> T:
        """The object registered under ``name``.

        Raises:
            InputError: if there is none; lists the names.
        """
        module = name.replace("-", "_")
        if name not in self._known and module in self._modules:
            import_module(f"{self.package}.{module}")  # many have one of their name, which saves importing the others
        if name not in self._known and name not in self:
            raise unknown(self.kind, name, (*self, *self.others))
        return self._known[name]

    def if_loaded(self, name: str) -> T | None:
        """As ``[name]``, but None if the module of that name is not imported yet."""
        return None if name not in self._known and name in self._modules else self[name]

    def __iter__(self) -> Iterator[str]:
        """The names, sorted; imports all modules of the package, and the plug-ins."""
        if not self._loaded:
            self._loaded = True
            for module in self._modules:
                import_module(f"{self.package}.{module}")
            for point in entry_points(group=self.group):
                try:
                    point.load()
                except Exception as error:  # a plug-in may fail in any way; the rest works without it
                    source = point.dist.name if point.dist else point.value
                    reason = " ".join(f"{type(error).__name__}: {error}".split())
                    what = f"the plug-in {point.name!r} of {source} ({self.group})"
                    warnings.warn(f"{what} could not be loaded: {reason}", stacklevel=3)
        return iter(sorted(self._known))
