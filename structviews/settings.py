"""Settings, each declared once: a field of a frozen dataclass with its help, range and choices.

These fields define the commands' flags, the tables of ``config.toml``, the checks and their messages, and the tables
of settings in the documentation.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self, get_args, get_type_hints

from structviews.errors import InputError, unknown

ABOUT = "structviews.setting"
# Largest seed of all the generators that are used, and bounds beyond which a number is a slip, not a setting.
LARGEST_SEED = 2**32 - 1
MOST_DIMENSIONS = 1_000_000
MOST_EPOCHS = 10_000
MOST_STEPS = 1_000_000_000
NAMES, NUMBERS = tuple[str, ...], tuple[float, ...]
TYPE_NAMES = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    NAMES: "list of texts",
    NUMBERS: "list of numbers",
}


@dataclass(frozen=True)
class About:
    """What is declared about a setting apart from its name, type and default.

    Attributes:
        help: one sentence of help.
        flat: its name without its table, as used for flags; the field's name if empty.
        choices: the allowed texts; any if empty.
        least, most: inclusive bounds of a number.
        above, below: exclusive bounds of a number.
        flags: the flags, comma-separated; by default the flat name with dashes.
        show_default: the default as the help shows it, if not the value itself.
        metavar: placeholder for the value in the help; by default the type's name.
        path: whether it is a local path.
        run: whether it is a run's folder.
        rare: whether only the full help shows it.
        training: of a view's setting, whether it matters in training alone, so that a run may start from another's.
    """

    help: str
    flat: str = ""
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    flags: str = ""
    show_default: str | None = None
    metavar: str | None = None
    path: bool = False
    run: bool = False
    rare: bool = False
    training: bool = False

    def check(self, name: str, value: Any) -> None:
        """Raise InputError if the setting does not allow the value."""
        for each in value if isinstance(value, tuple) else (value,):
            if self.choices and each not in self.choices:
                raise unknown(name, each, filter(None, self.choices))
            if not isinstance(each, int | float) or isinstance(each, bool):
                continue
            if not (math.isfinite(each) and self.least <= each <= self.most and self.above < each < self.below):
                bounds = {"at least": self.least, "above": self.above, "at most": self.most, "below": self.below}
                limits = [f"{relation} {value:,.10g}" for relation, value in bounds.items() if math.isfinite(value)]
                range_ = f"a number {' and '.join(limits)}" if limits else "a finite number"
                raise InputError(f"{name} = {each}: give {range_}")


def setting(default: Any, help: str, *, compare: bool = True, **about: Any) -> Any:
    """A field of a settings class.

    Args:
        default: its default; ``MISSING`` if it is required.
        help: one sentence of help.
        compare: whether runs that differ in it count as different.
        **about: see ``About``.
    """
    return field(default=default, compare=compare, metadata={ABOUT: About(help, **about)})


@dataclass(frozen=True)
class Setting:
    """One setting of a settings class.

    Attributes:
        name: of its field, and of its key in ``config.toml``.
        flat: its name without its table, unique among all classes.
        kind: its type.
        default: ``MISSING`` if it is required.
        compare: whether runs that differ in it count as different.
        about: the rest.
    """

    name: str
    flat: str
    kind: Any
    default: Any
    compare: bool
    about: About


def settings_of(cls: type[Any]) -> Iterator[Setting]:
    """The settings of a class, in order; other fields are left out."""
    kinds = get_type_hints(cls)
    for each in fields(cls):
        if about := each.metadata.get(ABOUT):
            yield Setting(each.name, about.flat or each.name, kinds[each.name], each.default, each.compare, about)


@dataclass(frozen=True)
class Settings:
    """Base of the settings classes: checks types, choices and ranges.

    Raises:
        InputError: for an invalid value.
    """

    def __post_init__(self) -> None:
        for each in settings_of(type(self)):
            value = _as(each.kind, getattr(self, each.name))
            object.__setattr__(self, each.name, value)
            if not _fits(value, each.kind):
                raise InputError(f"{each.flat} = {value!r} is not of type {TYPE_NAMES[each.kind]}")
            each.about.check(each.flat, value)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], place: str) -> Self:
        """From names and values, as in a table of a TOML file.

        Args:
            table: values by field name.
            place: their file and table, for messages; may be empty.

        Raises:
            InputError: for an unknown or missing name, or an invalid value.
        """
        where = f"{place}: " if place else ""
        known = {each.name: each for each in settings_of(cls)}
        for name in table:
            if name not in known:
                raise InputError(f"{where}unknown setting {name!r}: the settings are {', '.join(known)}")
        for name, each in known.items():
            if each.default is MISSING and name not in table:
                raise InputError(f"{where}the setting {name!r} is missing")
        try:
            return cls(**table)
        except InputError as error:
            raise InputError(f"{where}{error}") from None

    def table(self) -> dict[str, Any]:
        """The values by field name."""
        return {each.name: getattr(self, each.name) for each in settings_of(type(self))}


def _as(kind: Any, value: Any) -> Any:
    """Convert a value to its type where TOML or Python allow another form: a list, or a whole number for a float."""
    if kind in (NAMES, NUMBERS) and isinstance(value, list | tuple):
        return tuple(_as(get_args(kind)[0], each) for each in value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _fits(value: Any, kind: Any) -> bool:
    if kind in (NAMES, NUMBERS):
        return isinstance(value, tuple) and all(type(item) is get_args(kind)[0] for item in value)
    return type(value) is kind
