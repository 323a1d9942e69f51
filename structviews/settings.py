"""Settings, each declared once: a field of a frozen dataclass with its help, range and choices.

These fields define the commands' flags, the tables of ``config.toml``, the checks and their messages, and the tables
of settings in the documentation.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Self, get_args, get_type_hints

from structviews.errors import InputError, unknown

DECLARATION = "structviews.setting"
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


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting of a settings class."""

    name: str  # of its field, and of its key in `config.toml`
    kind: Any  # type of its value
    default: Any  # `MISSING` if it is required
    compare: bool  # whether runs that differ in it count as different
    help: str  # one sentence of help
    flat: str  # its name without its table, as used for flags, unique among all classes; by default the field's name
    choices: tuple[str, ...] = ()  # the allowed texts; any if empty
    least: float = -math.inf  # inclusive bounds of a number, with `most`
    most: float = math.inf
    above: float = -math.inf  # exclusive bounds of a number, with `below`
    below: float = math.inf
    flags: str = ""  # the flags, comma-separated; by default the flat name with dashes
    show_default: str | None = None  # the default as the help shows it, if not the value itself
    metavar: str | None = None  # placeholder for the value in the help; by default the type's name
    path: bool = False  # whether it is a local path
    run: bool = False  # whether it is a run's folder
    rare: bool = False  # whether only the full help shows it
    file_only: bool = False  # whether it has no flag, so that `config.toml`, recipes and Python alone set it
    # Of a view's setting, whether it matters in training alone, so that a run may start from another's.
    training: bool = False


def setting(default: Any, help: str, *, compare: bool = True, **declared: Any) -> Any:
    """A field of a settings class; ``declared`` are further attributes of its ``Setting``."""
    return field(default=default, compare=compare, metadata={DECLARATION: {"help": help, **declared}})


def settings_of(cls: type[Any]) -> tuple[Setting, ...]:
    """The settings of a class, in order; other fields are left out."""
    kinds = get_type_hints(cls)
    return tuple(
        Setting(
            **{"name": each.name, "kind": kinds[each.name], "default": each.default, "compare": each.compare}
            | {"flat": each.name, **each.metadata[DECLARATION]}
        )
        for each in fields(cls)
        if DECLARATION in each.metadata
    )


@dataclass(frozen=True)
class Settings:
    """Base of the settings classes: checks types, choices and ranges, and raises InputError.

    A value may have another form that TOML or Python allow: a list, or a whole number for a float.
    """

    def __post_init__(self) -> None:
        for own in settings_of(type(self)):
            value = getattr(self, own.name)
            several = own.kind in (NAMES, NUMBERS) and isinstance(value, list | tuple)
            of_one = get_args(own.kind)[0] if several else own.kind
            values: tuple[Any, ...] = tuple(value) if several else (value,)
            if of_one is float:  # a whole number beyond all floats stays one, and is refused
                values = tuple(float(each) if type(each) is int and abs(each) < 1e300 else each for each in values)
            value = values if several else values[0]
            if any(type(each) is not of_one for each in values):
                raise InputError(f"{own.flat} = {value!r} is not of type {TYPE_NAMES[own.kind]}")
            for each in values:
                if own.choices and each not in own.choices:
                    raise unknown(own.flat, each, filter(None, own.choices))
                if of_one not in (int, float):
                    continue
                if not (own.least <= each <= own.most and own.above < each < own.below and math.isfinite(each)):
                    bounds = {"at least": own.least, "above": own.above, "at most": own.most, "below": own.below}
                    limits = [f"{relation} {bound:,.10g}" for relation, bound in bounds.items() if math.isfinite(bound)]
                    range_ = f"a number {' and '.join(limits)}" if limits else "a finite number"
                    raise InputError(f"{own.flat} = {each}: give {range_}")
            object.__setattr__(self, own.name, value)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], source: str, **others: Any) -> Self:
        """From values by field name, as in a table of a TOML file; ``others`` are those of fields that are no settings.

        Raises InputError for an unknown or missing name, or an invalid value, with the ``source`` of the table, if any.
        """
        declared = {each.name: each for each in settings_of(cls)}
        try:
            for name in table:
                if name not in declared:
                    raise InputError(f"unknown setting {name!r}: the settings are {', '.join(declared)}")
            for name, each in declared.items():
                if each.default is MISSING and name not in table:
                    raise InputError(f"the setting {name!r} is missing")
            return cls(**table, **others)
        except InputError as error:
            raise InputError(f"{source}: {error}" if source else str(error)) from None

    def table(self) -> dict[str, Any]:
        """The values by field name."""
        return {each.name: getattr(self, each.name) for each in settings_of(type(self))}
