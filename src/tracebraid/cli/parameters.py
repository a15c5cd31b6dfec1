"""Options and arguments of a command: declared in the annotations of its function, parsed by click."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import click

_METAVARS = {str: "TEXT", int: "N", float: "X", Path: "PATH"}
_RANGES: dict[type, Callable[..., click.ParamType[Any]]] = {int: click.IntRange, float: click.FloatRange}


class Argument:
    """An argument by its place; several, if its type is a list.

    Args:
        help: what it is.
        metavar: its name in the help.
        parser: makes its value of the text.
    """

    range: tuple[float | None, float | None] = (None, None)

    def __init__(
        self,
        *,
        help: str,
        metavar: str | None = None,
        parser: Callable[[str], object] | None = None,
    ) -> None:
        self.help, self.metavar, self.parser = help, metavar, parser


class Option(Argument):
    """An option; it can be repeated, if its type is a list, and takes no value, if it is a bool.

    Args:
        names: its names, such as `-o`, `--output`; by default that of the parameter.
        min: the least value of a number.
        max: the greatest.
        hidden: whether the help leaves it out.
        of_value: `help`, `metavar` and `parser`, as of an argument.
    """

    def __init__(
        self,
        *names: str,
        min: float | None = None,
        max: float | None = None,
        hidden: bool = False,
        **of_value: Any,
    ) -> None:
        super().__init__(**of_value)
        self.names, self.range, self.hidden = names, (min, max), hidden


class _Choice(click.Choice[str]):
    """One of the values of an enum, by its text."""

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__([str(each.value) for each in kind])
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See click's."""
        return value if isinstance(value, self.kind) else self.kind(super().convert(value, param, ctx))


class ShownArgument(click.Argument):
    """An argument that the help explains."""

    def __init__(self, name: str, text: str, **settings: Any) -> None:
        super().__init__([name], **settings)
        self.text = text


def parameters_of(function: Callable[..., None]) -> list[click.Parameter]:
    """The parameters that a function declares: `name: Annotated[type, Option("--name", help=...)] = default`."""
    found = []
    for name, each in _declared(function).parameters.items():
        kind, declared = get_args(each.annotation)
        found.append(_parameter(name, kind, declared, each.default))
    return found


def _declared(function: Callable[..., None]) -> inspect.Signature:
    """The signature with types; those of `get_type_hints` have `Optional` around them in Python 3.10."""
    return inspect.signature(function, eval_str=True)


def _parameter(name: str, kind: Any, declared: Argument, default: Any) -> click.Parameter:
    if NoneType in get_args(kind):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    is_list = get_origin(kind) is list
    one = get_args(kind)[0] if is_list else kind
    required = default is inspect.Parameter.empty
    settings: dict[str, Any] = {"required": required}
    if not required:
        settings["default"] = default.value if isinstance(default, Enum) else default
    if one is bool:
        settings["is_flag"] = True
    else:
        settings |= {"type": _type_of(one, declared), "metavar": declared.metavar or _METAVARS.get(one)}
    if isinstance(declared, Option):
        names = declared.names or (f"--{name.replace('_', '-')}",)
        settings |= {"help": declared.help, "hidden": declared.hidden, "multiple": is_list}
        return click.Option([name, *names], show_default=True, **settings)
    text = declared.metavar or name
    settings["metavar"] = text if required or text.startswith("[") else f"[{text}]"
    return ShownArgument(name, declared.help, nargs=-1 if is_list else 1, **settings)


def _type_of(kind: type, declared: Argument) -> Any:
    if declared.parser is not None:
        return declared.parser
    if issubclass(kind, Enum):
        return _Choice(kind)
    return kind if declared.range == (None, None) else _RANGES[kind](*declared.range)


def values_for(function: Callable[..., None], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call of the function: lists where click has tuples, and the default where there are none."""
    defaults = inspect.signature(function).parameters
    return {
        name: (list(value) or defaults[name].default) if isinstance(value, tuple) else value
        for name, value in values.items()
    }


def with_option_members(parameter: str, of: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command: one parameter, a class with fields, becomes one option for each.

    Args:
        parameter: its name.
        of: the class; each field is annotated with its option and has a default.
    """
    given = get_type_hints(of, include_extras=True)
    members = [
        inspect.Parameter(
            member.name, inspect.Parameter.KEYWORD_ONLY, default=member.default, annotation=given[member.name]
        )
        for member in inspect.signature(of).parameters.values()
    ]

    def with_members(command: Callable[..., None]) -> Callable[..., None]:
        signature = _declared(command)
        own = [each for name, each in signature.parameters.items() if name != parameter]

        @functools.wraps(command)
        def wrapper(*args: Any, **kwargs: Any) -> None:
            options = of(**{member.name: kwargs.pop(member.name) for member in members})
            command(*args, **kwargs, **{parameter: options})

        wrapper.__signature__ = signature.replace(parameters=[*own, *members], return_annotation=None)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {each.name: each.annotation for each in (*own, *members)}
        return wrapper

    return with_members
