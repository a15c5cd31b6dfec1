"""The commands of `tracebraid`: a module of this package each, imported when its command is invoked."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from tracebraid.version import __version__

__all__ = ["CHAKRA_COMMANDS", "COMMANDS", "LazyGroup", "app", "docstring_of"]

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
    "chakra": {},
    "demo": {},
    "trace-link": {},
    "chakra-trace-link": {},
    "chakra-converter": {},
    "chakra-jsonizer": {},
    "chakra-generator": {},
    "chakra-visualizer": {},
}
"""The names of the commands, in the order of the help, and their context settings."""

CHAKRA_COMMANDS: dict[str, dict[str, Any]] = {
    "check": {},
    "run": {},
    "stats": {},
    "show": {},
    "json": {},
    "generate": {},
    "convert": {},
}
"""Those of `tracebraid chakra`."""

_CHAKRA_HELP = """Work on Chakra's .et files: read, check, show, simulate, generate and convert them."""

_UsageError: Any = typer.BadParameter.__mro__[1]
"""What all wrong usage is, to whichever library Typer has it from."""

_GROUPS = {"chakra": (CHAKRA_COMMANDS, _CHAKRA_HELP)}
"""Commands that have commands of their own, in a package of their name."""


@contextmanager
def _printable_usage() -> Iterator[None]:
    """Messages about wrong usage, which repeat what was typed, without what steers a terminal."""
    try:
        yield
    except _UsageError as error:
        # Most commands end well, and need not wait for the module.
        from tracebraid.model.printable import printable_lines

        error.message = printable_lines(error.message)
        raise


class LazyGroup(TyperGroup):
    """The commands; the help lists them without importing them."""

    own: ClassVar[dict[str, dict[str, Any]]] = COMMANDS
    package: ClassVar[str] = "tracebraid.cli"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in self.own:
            self.add_command(TyperCommand(name, help=docstring_of(name, self.package)))

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """See Typer's."""
        with _printable_usage():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """See Typer's."""
        with _printable_usage():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands, each with the first sentences of its docstring, uncut."""
        helps = [(name, command.help or "") for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl([(name, " ".join(text.partition("\n\n")[0].split())) for name, text in helps])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, _imported(name, self) if name in self.own else command, rest


class _ChakraGroup(LazyGroup):
    own = CHAKRA_COMMANDS
    package = "tracebraid.cli.chakra"


def docstring_of(name: str, package: str = LazyGroup.package) -> str:
    """The docstring of a command's function, read from its source: importing it would load what the command uses.

    Args:
        name: of the command.
        package: what it stands in.
    """
    if package == LazyGroup.package and name in _GROUPS:
        return _GROUPS[name][1]
    home = _home(name, package)
    loader: Any = getattr(find_spec(home.module), "loader", None)
    source = loader.get_source(home.module) if hasattr(loader, "get_source") else None
    for item in ast.parse(source or "").body:
        if isinstance(item, ast.FunctionDef) and item.name == home.function:
            return ast.get_docstring(item) or ""
    return ""


def _imported(name: str, group: LazyGroup) -> Any:
    if group.own is COMMANDS and name in _GROUPS:
        return get_command(_group(name))
    home = _home(name, group.package)
    function: Callable[..., None] = getattr(importlib.import_module(home.module), home.function)
    single = typer.Typer(**_SETTINGS)
    single.command(name, context_settings=group.own[name])(function)
    return get_command(single)


def _group(name: str) -> typer.Typer:
    return typer.Typer(
        name=name,
        cls=_ChakraGroup,
        help=_GROUPS[name][1],
        no_args_is_help=True,
        callback=_nothing,
        **_SETTINGS,
    )


def _nothing() -> None:
    pass


class _Home(NamedTuple):
    module: str
    function: str


def _home(name: str, package: str) -> _Home:
    function = name.replace("-", "_")
    return _Home(f"{package}.{function}", function)


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
