"""The commands of `tracebraid`, each declared in a module of its own, which is imported when it is invoked."""

from __future__ import annotations

import importlib
import inspect
import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import click

import tracebraid.cli
from tracebraid.cli.parameters import ShownArgument, parameters_of, values_for
from tracebraid.errors import ArgumentError
from tracebraid.extras import OBJECT_STORES, require
from tracebraid.extras import Extra as Extra
from tracebraid.version import __version__

Needs: TypeAlias = Callable[[Mapping[str, Any]], tuple[Extra, ...]]
"""The extras that a command needs with some options."""
F = TypeVar("F", bound=Callable[..., None])


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
    extras that it `needs` are checked before its work begins; `settings` are those of its context, see click. With
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


class _Checked(click.Command):
    """A command that first checks that its extras are installed; a wrong argument is wrong usage."""

    def __init__(self, name: str, function: Callable[..., None]) -> None:
        needs, two_sides, settings = vars(function)["__command__"]
        self.needs: tuple[Extra | Needs, ...] = needs
        self.two_sides: bool = two_sides
        super().__init__(
            name,
            context_settings=settings,
            callback=lambda **values: function(**values_for(function, values)),
            params=parameters_of(function),
            help=inspect.getdoc(function),
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click's."""
        if self.two_sides and "--" in args:
            place = args.index("--")
            args = [*args[:place], BETWEEN_SIDES, *args[place + 1 :]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """See click's."""
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
            raise click.BadParameter(str(error), ctx=ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the arguments, too."""
        shown = [
            (each.make_metavar(ctx), each.text) for each in self.params if isinstance(each, ShownArgument)
        ]
        if shown:
            with formatter.section("Arguments"):
                formatter.write_dl(shown)
        super().format_options(ctx, formatter)


def _texts(options: Mapping[str, Any]) -> list[str]:
    """Return the arguments that are paths."""
    values = [options.get(name) for name in ("path", "paths", "a", "b", "file", "files")]
    return [str(text) for value in values for text in ([value] if isinstance(value, str) else value or ())]


def _is_of_a_store(text: str) -> bool:
    scheme, is_url, _ = text.partition("://")
    return bool(is_url) and scheme.lower() in OBJECT_STORES


class LazyGroup(click.Group):
    """Group of lazily imported commands; the help lists them without importing them."""

    def __init__(self, name: str, own: dict[str, Command], **settings: Any) -> None:
        listed = {each.name: click.Command(each.name, help=each.help) for each in own.values()}
        super().__init__(name, listed, no_args_is_help=True, **settings)
        self.own = own

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
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

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Import the command that the arguments name."""
        if self.own is COMMANDS and args[0] not in self.own and Path(args[0]).exists():
            ctx.fail(f"name a command before the path, for example: tracebraid summary {args[0]}")
        name, found, rest = super().resolve_command(ctx, args)
        return name, _imported(self.own[name]) if name in self.own else found, rest


def _imported(declared: Command) -> click.Command:
    if declared.own:
        return LazyGroup(declared.name, declared.own, help=declared.help)
    module = importlib.import_module(declared.module)
    return _Checked(declared.name, getattr(module, declared.name.replace("-", "_")))


app = LazyGroup(
    "tracebraid",
    COMMANDS,
    help="Captures PyTorch's Execution Traces and Kineto traces, links them into one, and answers from that.",
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=lambda context, _, wanted: _print_version(context) if wanted else None,
            help="Print the version and end.",
        )
    ],
)


def _print_version(context: click.Context) -> None:
    click.echo(f"tracebraid {__version__}")
    context.exit()


def answer(arguments: Sequence[str]) -> None:
    """Run the command of these arguments; what is wrong with them is printed.

    Raises:
        SystemExit: 2 after wrong usage, else with the code that the command ends with.
    """
    try:
        with app.make_context("tracebraid", list(arguments)) as context:
            app.invoke(context)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.ClickException as error:
        from tracebraid.model.printable import (
            printable_lines,  # Most commands end well, and need not wait for it.
        )

        shown = io.StringIO()
        error.show(shown)
        sys.stderr.write(printable_lines(shown.getvalue()))
        sys.exit(error.exit_code)
