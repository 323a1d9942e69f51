"""Write docs/settings.md: every setting of a training run, from where it is declared."""

from collections.abc import Iterable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from structviews.objectives import OBJECTIVES
from structviews.registry import Registry
from structviews.runs.config import TrainConfig
from structviews.runs.settings_file import toml_value
from structviews.settings import Setting, settings_of
from structviews.views import VIEWS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
HEAD = """# Settings

This page lists the settings of a training run by the tables of its `config.toml`, which `train --config` reads.
Defaults are in parentheses.

<!-- written by scripts/settings_page.py -->

A key of `config.toml` is the flag of `structviews train` with underscores, unless another key is given. Keys without
`--` have no flag; they reproduce papers. In Python, `TrainConfig.of(...)` takes the flags' names with underscores.
"""


def page() -> str:
    """The page's text."""
    parts = [HEAD]
    for table in fields(TrainConfig):
        parts.append(f"## [{table.name}]\n\n{lines(settings_of(table.type))}")
    for registry, table, folder in ((OBJECTIVES, "objective", "objectives"), (VIEWS, "views", "views")):
        parts.append(f"## [{table}.NAME]\n")
        for names, settings in own_settings(registry).items():
            owners = ", ".join(f"[{name}]({folder}/{name}.md)" for name in names)
            parts.append(f"{owners}:\n\n{lines(settings)}")
    return "\n".join(parts)


def own_settings(registry: Registry[Any]) -> dict[tuple[str, ...], list[Setting]]:
    """The settings of views or objectives, by the names of those that have them."""
    owners: dict[Setting, list[str]] = {}
    for name in registry:
        for each in settings_of(registry[name].Config):
            owners.setdefault(each, []).append(name)
    found: dict[tuple[str, ...], list[Setting]] = {}
    for each, names in owners.items():
        found.setdefault(tuple(names), []).append(each)
    return found


def lines(settings: Iterable[Setting]) -> str:
    """A list in Markdown, with a line for each setting: flag, key, default and help."""
    return "".join(f"- {named(each)} ({default(each)}): {each.help}\n" for each in settings)


def named(each: Setting) -> str:
    """A setting's flag, and its key if that is another."""
    flag = each.flags.split(",")[-1].split("/")[0] or f"--{each.flat.replace('_', '-')}"
    key = "" if flag == f"--{each.name.replace('_', '-')}" else f", key `{each.name}`"
    return f"`{each.name}`" if each.file_only else f"`{flag}`{key}"


def default(each: Setting) -> str:
    """What a setting is if it is not given."""
    if each.default in ("", (), MISSING):
        return each.show_default or ("required" if each.default is MISSING else "none")
    return f"`{toml_value(each.default)}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
