"""Self-contained HTML pages made from templates."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from structviews.errors import InputError
from structviews.runtime.files import write_output
from structviews.runtime.pictures import COLOURS


def require_templates(what: str) -> None:
    """Raise InputError unless jinja2 is installed; ``what`` names the output in the message."""
    try:
        import jinja2  # noqa: F401, PLC0415  an extra
    except ImportError:
        raise InputError(f"{what} needs jinja2: pip install 'structviews[report]'") from None


def write_page(path: Path, template: str, content: Mapping[str, Any]) -> None:
    """Render a template of this package's ``templates`` folder and write it atomically.

    All of ``content`` is escaped, except what the template calls safe.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  an extra

    loader = PackageLoader("structviews.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.get_template(template).render(content, n_colours=len(COLOURS), version=version("structviews"))
    write_output(path, lambda file: file.write(page.encode()))
