"""Write docs/settings.md: every setting of a training run, from where it is declared."""

from collections.abc import Iterable
from dataclasses import MISSING, fields
from pathlib import Path

from structviews.objectives import OBJECTIVES
from structviews.runs.config import TrainConfig
from structviews.settings import TYPE_NAMES, Setting, settings_of
from structviews.views import VIEWS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
HEAD = """# Settings

This page lists all settings of a training run, table by table as `config.toml` has them. Most are also a flag of
`structviews train`; those without one make a run as a paper has it. From Python,
`TrainConfig.of(...)` takes them by the names of the flags, with underscores.

This page is written by `python scripts/settings_page.py` from the declarations.
"""


def page() -> str:
    """The page's text."""
    parts = [HEAD]
    for table in fields(TrainConfig):
        parts.append(f"## [{table.name}]\n\n{first_line(table.type.__doc__)}\n\n{rows(settings_of(table.type))}")
    for registry, name in ((OBJECTIVES, "objective"), (VIEWS, "views")):
        for component in registry:
            if own := settings_of(registry[component].Config):
                parts.append(f"## [{name}.{component}]\n\n{first_line(registry[component].__doc__)}\n\n{rows(own)}")
    return "\n".join(parts)


def first_line(text: str | None) -> str:
    """The first line of a docstring."""
    return (text or "").strip().splitlines()[0]


def rows(settings: Iterable[Setting]) -> str:
    """Settings as a table in Markdown."""
    lines = ["| key | flag | type | default | what it is |", "|---|---|---|---|---|"]
    for each in settings:
        flag = each.flags.split(",")[-1].split("/")[0] or f"--{each.flat.replace('_', '-')}"
        flag = "none" if each.file_only else f"`{flag}`"
        lines.append(f"| `{each.name}` | {flag} | {TYPE_NAMES[each.kind]} | {default(each)} | {each.help} |")
    return "\n".join(lines) + "\n"


def default(each: Setting) -> str:
    """What a setting is if it is not given."""
    if each.show_default is not None and each.default in ("", (), MISSING):
        return each.show_default or "required"
    if each.default is MISSING:
        return "required"
    if isinstance(each.default, bool):
        return str(each.default).lower()
    if isinstance(each.default, tuple):
        return f"`{','.join(each.default)}`"
    return f"`{each.default}`" if each.default != "" else "none"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
