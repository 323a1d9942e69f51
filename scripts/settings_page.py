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

This page lists the settings of a training run by the tables of its `config.toml`, which `train --config` reads. It is
written by `python scripts/settings_page.py` from the declarations.

A key of `config.toml` is the flag of `structviews train` with underscores, or else given in brackets. Keys without `--`
have no flag; they reproduce papers. In Python, `TrainConfig.of(...)` takes the flags' names with underscores.
"""
COLUMNS = "default | |"


def page() -> str:
    """The page's text."""
    parts = [HEAD]
    for table in fields(TrainConfig):
        rows = [row(each) for each in settings_of(table.type)]
        parts.append(f"## [{table.name}]\n\n| flag | {COLUMNS}\n|---|---|---|\n{lines(rows)}")
    for registry, table, folder in ((OBJECTIVES, "objective", "objectives"), (VIEWS, "views", "views")):
        rows, before = [], ""
        for each, names in own_settings(registry).items():
            owners = ", ".join(f"[{name}]({folder}/{name}.md)" for name in names)
            rows.append(f"{owners * (owners != before)} | {row(each)}")
            before = owners
        parts.append(f"## [{table}.NAME]\n\n| NAME | flag | {COLUMNS}\n|---|---|---|---|\n{lines(rows)}")
    return "\n".join(parts)


def own_settings(registry: Registry[Any]) -> dict[Setting, list[str]]:
    """The settings of views or objectives, each with the names of those that have it."""
    owners: dict[Setting, list[str]] = {}
    for name in registry:
        for each in settings_of(registry[name].Config):
            owners.setdefault(each, []).append(name)
    return owners


def lines(rows: Iterable[str]) -> str:
    """The lines of a table in Markdown."""
    return "".join(f"| {each} |\n" for each in rows)


def row(each: Setting) -> str:
    """A setting's flag, key, default and help, as cells in Markdown."""
    flag = each.flags.split(",")[-1].split("/")[0] or f"--{each.flat.replace('_', '-')}"
    key = "" if flag == f"--{each.name.replace('_', '-')}" else f" (`{each.name}`)"
    name = f"`{each.name}`" if each.file_only else f"`{flag}`{key}"
    return f"{name} | {default(each)} | {each.help}"


def default(each: Setting) -> str:
    """What a setting is if it is not given."""
    if each.default in ("", (), MISSING):
        return each.show_default or ("required" if each.default is MISSING else "none")
    return f"`{toml_value(each.default)}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
