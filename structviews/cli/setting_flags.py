"""Command-line flags generated from the declarations of settings: name, help, type and default."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING
from pathlib import Path
from typing import Annotated, Any

from rich.markup import escape
from typer import Context, Option, Typer, echo
from typer.main import get_command

from structviews.cli.console import HelpfulCommand
from structviews.cli.options import named_run, names_in
from structviews.errors import InputError
from structviews.objectives import OBJECTIVES
from structviews.registry import Registry
from structviews.runs.config import TrainConfig
from structviews.settings import NAMES, NUMBERS, Setting, settings_of
from structviews.views import VIEWS

NO_FLAGS: Mapping[str, Any] = {}
HELP_ALL = "--help-all"
HelpAll = Annotated[bool, Option(HELP_ALL, help="Show all flags, with rare ones and those of each objective and view.")]
# Key under which a context keeps the flags of views and objectives.
COMPONENTS = "structviews.components"


def flag(setting: Setting, panel: str | None = None, default: str | None = None) -> inspect.Parameter:
    """A command's parameter for a setting, None where the flag is not given; the help shows its or another default."""
    shown = default or setting.show_default
    if shown is None and "/" in setting.flags:  # the flag for what is true, and the one for what is not
        shown = setting.flags.split("/")[not setting.default].removeprefix("--")
    if shown is None:
        names = setting.default if isinstance(setting.default, tuple) else [setting.default]
        shown = ",".join(str(name) for name in names if name not in ("", False, MISSING))
    kind: Any = Path if setting.path else str if setting.kind in (NAMES, NUMBERS) else setting.kind
    option = Option(
        *(setting.flags.split(",") if setting.flags else ()),
        help=escape(setting.help) + (rf" [dim]\[default: {escape(shown)}][/dim]" if shown else ""),
        metavar="PATH" if setting.run else setting.metavar,
        parser=named_run if setting.run else None,
        rich_help_panel=panel,
        hidden=setting.rare and panel is not None,  # a command without panels has no full help
    )
    return inspect.Parameter(
        setting.flat, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def with_flags(flags: Iterable[inspect.Parameter]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: add flags to a command, whose function receives those that the user gave as ``flags``.

    They are values by flat names, as ``TrainConfig.of`` expects them.
    """
    parameters = list(flags)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = [each for each in inspect.signature(function).parameters.values() if each.name != "flags"]

        def command(invocation: Context, **arguments: Any) -> None:
            values = {each.name: arguments.pop(each.name) for each in parameters}
            function(**arguments, flags=given_flags(values | invocation.meta.get(COMPONENTS, {})))

        invocation = inspect.Parameter("invocation", inspect.Parameter.KEYWORD_ONLY, annotation=Context)
        signature = [invocation, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own), *parameters]
        command.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]  # inspect reads it
        command.__annotations__ = {each.name: each.annotation for each in signature}
        command.__doc__ = function.__doc__
        command.__name__ = function.__name__
        return command

    return decorate


def given_flags(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that the user gave, as settings by flat name."""
    kinds = {each.flat: each.kind for _, each in TrainConfig.settings()}

    def read(name: str, value: Any) -> Any:
        if value and kinds.get(name) == NAMES:
            return names_in(value)
        if value and kinds.get(name) == NUMBERS:
            try:
                return tuple(map(float, names_in(value)))
            except ValueError:
                raise InputError(f"{name} = {value!r}: give numbers, such as 1,1,2") from None
        return str(value) if isinstance(value, Path) else value

    values = {name: read(name, value) for name, value in arguments.items()}
    return {name: value for name, value in values.items() if value not in (None, "", ())}


def train_flags(
    without: Iterable[str] = (), only: Iterable[str] = (), panel: str | None = None
) -> Iterator[inspect.Parameter]:
    """A flag for each setting common to all runs, with one panel per table; or only for some, in ``panel``."""
    for table, setting in TrainConfig.settings():
        if not setting.file_only and setting.flat not in without and (not only or setting.flat in only):
            yield flag(setting, panel or table.capitalize())


def chosen_flags(cls: type[Any], names: Iterable[str] = (), default: str | None = None) -> Iterator[inspect.Parameter]:
    """Flags for the named settings of a class, or for all; see ``flag`` for ``default``."""
    wanted = set(names)
    return (flag(setting, default=default) for setting in settings_of(cls) if not wanted or setting.flat in wanted)


def component_options() -> list[Any]:
    """An option for each setting specific to views or objectives, with one panel per set of owners."""
    found: dict[str, tuple[Setting, list[str]]] = {}
    registries: tuple[Registry[Any], ...] = (OBJECTIVES, VIEWS)
    for registry in registries:
        for name in registry:
            for setting in settings_of(registry[name].Config):
                found.setdefault(setting.flat, (setting, []))[1].append(f"{registry.kind} {name}")

    def function() -> None: ...

    shown = [each for each in found.values() if not each[0].file_only]
    flags = [flag(setting, f"For the {' and the '.join(owners)}") for setting, owners in shown]
    function.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]  # inspect reads it
    function.__annotations__ = {}
    app = Typer(add_completion=False)
    app.command()(function)
    return [option for option in get_command(app).params if option.name != "help"]


class TrainCommand(HelpfulCommand):
    """A command that also takes the flags of all views and objectives.

    It imports them, and with them PyTorch, only to train or to show the full help.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse with the components' flags; ``--help-all`` also shows these and the rarely used ones."""
        if HELP_ALL in args:
            self.params += component_options()
            for option in self.params:
                option.hidden = False  # type: ignore[attr-defined]  # an argument has none
            echo(self.get_help(ctx), nl=False)
            ctx.exit()
        own = list(self.params)
        if not {"-h", "--help"} & set(args):
            self.params = [*own, *component_options()]
        rest = super().parse_args(ctx, args)
        ctx.meta[COMPONENTS] = {each.name: ctx.params.pop(each.name) for each in self.params[len(own) :]}
        self.params = own
        return rest
