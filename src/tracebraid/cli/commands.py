"""The commands of `tracebraid`, each declared in a module of its own, which is imported when it is invoked."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import tracebraid.cli
from tracebraid.errors import ArgumentError
from tracebraid.extras import OBJECT_STORES, require
from tracebraid.extras import Extra as Extra
from tracebraid.version import __version__

Needs: TypeAlias = Callable[[Mapping[str, Any]], tuple[Extra, ...]]
"""The extras that a command needs with some options."""
F = TypeVar("F", bound=Callable[..., None])

_SETTINGS: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
"""Plain help: typer's boxes would double the time of `--help`."""


class Group(Enum):
    """Title of some commands in the help."""

    RECORD = "Record and check"
    LOOK = "Look"
    COMPARE = "Compare and predict"
    EXPORT = "Export and store"
    CHAKRA = "Chakra"
    REPLACEMENT = "Drop-in replacements, with the options of the originals"


BETWEEN_SIDES = "\0"
"""Argument in place of `--` of a command with two sides; no argument of a shell has this character."""


def command(
    group: Group, place: int, *needs: Extra | Needs, two_sides: bool = False, **settings: Any
) -> Callable[[F], F]:
    """Declare the command of a function of its name, above all other decorators.

    Its group, its place there, and its docstring are read from the source for the help, without importing it. The
    extras that it `needs` are checked before its work begins; `settings` are those of its context, see Typer. With
    `two_sides`, `--` divides its arguments and does not end its options.
    """

    def declare(function: F) -> F:
        vars(function)["__command__"] = (needs, two_sides, settings)
        return function

    return declare


class Command(NamedTuple):
    """A declared command, or a package of commands, which has its `own`."""

    group: Group
    place: int
    name: str
    help: str
    module: str
    own: dict[str, Command]


_DECLARATION = re.compile(
    r'^@command\(\s*Group\.(\w+),\s*(\d+).*?^def (\w+)\(.*?\) -> None:\n    """(.*?)"""',
    re.MULTILINE | re.DOTALL,
)


def _declared(package: str, folders: Iterable[str | Path]) -> dict[str, Command]:
    """The commands of a package, in the order of the help; their modules are not imported."""
    found = [each for folder in folders for path in Path(folder).iterdir() for each in _of(package, path)]
    order = list(Group)
    found.sort(key=lambda each: (order.index(each.group), each.place, each.name))
    return {each.name: each for each in found}


def _of(package: str, path: Path) -> Iterator[Command]:
    module = f"{package}.{path.stem}"
    if path.suffix == ".py":
        for group, place, function, text in _DECLARATION.findall(path.read_text(encoding="utf-8")):
            name = function.replace("_", "-")
            yield Command(Group[group], int(place), name, inspect.cleandoc(text), module, {})
    elif path.is_dir() and (own := _declared(module, [path])):
        text = (path / "__init__.py").read_text(encoding="utf-8").strip().strip('"')
        yield Command(next(iter(own.values())).group, 0, path.name, text, module, own)


COMMANDS = _declared(tracebraid.cli.__name__, tracebraid.cli.__path__)
"""The commands, in the order of the help."""

_UsageError: Any = typer.BadParameter.__mro__[1]
"""Base class of usage errors, from whichever library Typer takes it."""


@contextmanager
def _printable_usage() -> Iterator[None]:
    """Strip terminal control characters from usage errors, which repeat the user's input."""
    try:
        yield
    except _UsageError as error:
        # Most commands end well, and need not wait for the module.
        from tracebraid.model.printable import printable_lines

        error.message = printable_lines(error.message)
        raise


class _Checked(TyperCommand):
    """A command that first checks that its extras are installed; a wrong argument is wrong usage."""

    needs: tuple[Extra | Needs, ...] = ()
    two_sides: bool = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See Typer's."""
        if self.two_sides and "--" in args:
            place = args.index("--")
            args = [*args[:place], BETWEEN_SIDES, *args[place + 1 :]]
        found: list[str] = super().parse_args(ctx, args)
        return found

    def invoke(self, ctx: Any) -> Any:
        """See Typer's."""
        for need in self.needs:
            for extra in (need,) if isinstance(need, Extra) else need(ctx.params):
                require(extra)
        if ctx.params.get("engine") == "ray":
            require(Extra.RAY)
        if any(_is_of_a_store(text) for text in _texts(ctx.params)):
            require(Extra.REMOTE)
        try:
            return super().invoke(ctx)
        except ArgumentError as error:
            raise typer.BadParameter(str(error), ctx=ctx) from error


def _texts(options: Mapping[str, Any]) -> list[str]:
    """Return the arguments that are paths."""
    values = [options.get(name) for name in ("path", "paths", "a", "b", "file", "files")]
    return [str(text) for value in values for text in ([value] if isinstance(value, str) else value or ())]


def _is_of_a_store(text: str) -> bool:
    scheme, is_url, _ = text.partition("://")
    return bool(is_url) and scheme.lower() in OBJECT_STORES


class LazyGroup(TyperGroup):
    """Group of lazily imported commands; the help lists them without importing them."""

    own: ClassVar[dict[str, Command]] = COMMANDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, each in self.own.items():
            self.add_command(TyperCommand(name, help=each.help))

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """See Typer's."""
        with _printable_usage():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """See Typer's."""
        with _printable_usage():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands in their groups, each with the first sentences of its docstring, uncut."""
        widest = max(map(len, self.own))
        for group, commands in groupby(self.own.values(), key=lambda each: each.group):
            with formatter.section(group.value if self.own is COMMANDS else "Commands"):
                formatter.write_dl(
                    [
                        (each.name.ljust(widest), " ".join(each.help.partition("\n\n")[0].split()))
                        for each in commands
                    ]
                )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that the arguments name."""
        if self.own is COMMANDS and args[0] not in self.own and Path(args[0]).exists():
            ctx.fail(f"name a command before the path, for example: tracebraid summary {args[0]}")
        name, found, rest = super().resolve_command(ctx, args)
        return name, _imported(self.own[name]) if name in self.own else found, rest


def _imported(declared: Command) -> Any:
    if declared.own:
        return get_command(_group(declared))
    function = getattr(importlib.import_module(declared.module), declared.name.replace("-", "_"))
    needs, two_sides, settings = function.__command__
    single = typer.Typer(**_SETTINGS)
    single.command(declared.name, cls=_Checked, context_settings=settings)(function)
    made: Any = get_command(single)
    made.needs, made.two_sides = needs, two_sides
    return made


def _group(declared: Command) -> typer.Typer:
    return typer.Typer(
        name=declared.name,
        cls=type("OwnGroup", (LazyGroup,), {"own": declared.own}),
        help=declared.help,
        no_args_is_help=True,
        callback=_nothing,
        **_SETTINGS,
    )


def _nothing() -> None:
    pass


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
