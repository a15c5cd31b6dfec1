"""The commands of `tracebraid`: a module of this package each, imported when its command is invoked."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from tracebraid.version import __version__

__all__ = ["COMMANDS", "LazyGroup", "app", "docstring_of"]

_SETTINGS: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
"""Plain help: typer's boxes cost as much time as all else of `--help` together."""

_OWN_OPTIONS_FIRST = {"allow_interspersed_args": False}
"""What follows the command's own options is another program's command line."""

COMMANDS: dict[str, dict[str, Any]] = {
    "capture": _OWN_OPTIONS_FIRST,
    "build-recorder": {},
    "check": {},
    "info": {},
    "link": {},
    "summary": {},
    "analyze": {},
    "advise": {},
    "metrics": {},
    "diff": {},
    "critical-path": {},
    "what-if": {},
    "report": {},
    "view": {},
    "export": {},
    "sql": {},
    "pack": {},
    "cache": {},
    "demo": {},
    "trace-link": {},
    "chakra-trace-link": {},
}
"""The names of the commands, in the order of the help, and their context settings."""


class LazyGroup(TyperGroup):
    """The commands; the help lists them without importing them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in COMMANDS:
            self.add_command(TyperCommand(name, help=docstring_of(name)))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, each with the first sentences of its docstring, uncut."""
        helps = [(name, command.help or "") for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl([(name, " ".join(text.partition("\n\n")[0].split())) for name, text in helps])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, _imported(name) if name in COMMANDS else command, rest


def docstring_of(name: str) -> str:
    """The docstring of a command's function, read from its source: importing it would load what the command uses."""
    home = _home(name)
    loader: Any = getattr(find_spec(home.module), "loader", None)
    source = loader.get_source(home.module) if hasattr(loader, "get_source") else None
    for item in ast.parse(source or "").body:
        if isinstance(item, ast.FunctionDef) and item.name == home.function:
            return ast.get_docstring(item) or ""
    return ""


def _imported(name: str) -> Any:
    home = _home(name)
    function: Callable[..., None] = getattr(importlib.import_module(home.module), home.function)
    single = typer.Typer(**_SETTINGS)
    single.command(name, context_settings=COMMANDS[name])(function)
    return get_command(single)


class _Home(NamedTuple):
    module: str
    function: str


def _home(name: str) -> _Home:
    function = name.replace("-", "_")
    return _Home(f"tracebraid.cli.{function}", function)


app = typer.Typer(
    name="tracebraid",
    cls=LazyGroup,
    help="Captures PyTorch's Execution Traces and Kineto traces, links them into one, and answers from that.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    **_SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tracebraid {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    pass
