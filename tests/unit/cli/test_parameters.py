"""Parameters of commands: what annotations declare is what a command line gives."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import click
import pytest

from tracebraid.cli.parameters import Argument, Option, parameters_of, values_for


class _Form(Enum):
    SHORT = "short-form"
    LONG = "long-form"


def _declared(
    first: Annotated[str, Argument(metavar="FIRST", help="The first.", parser=str.upper)],
    others: Annotated[list[Path] | None, Argument(metavar="OTHER...", help="Others.")] = None,
    out: Annotated[Path, Option("-o", "--output", help="A file.")] = Path("out"),
    skip_first: Annotated[int, Option(min=1, max=9, help="A number.")] = 2,
    share: Annotated[float | None, Option(min=0.5, help="A share.")] = None,
    form: Annotated[_Form, Option(help="A form.")] = _Form.LONG,
    forms: Annotated[list[_Form] | None, Option("--each", help="Forms.")] = None,
    all_of_it: Annotated[bool, Option(help="Whether all.")] = False,
    check: Annotated[bool | None, Option("--check/--no-check", help="Whether it is checked.")] = None,
    quiet: Annotated[str | None, Option("--quiet", help="Nothing.", hidden=True)] = None,
) -> None:
    """Declare one parameter of each kind."""


_DEFAULTS: dict[str, Any] = {
    "first": "A",
    "others": None,
    "out": Path("out"),
    "skip_first": 2,
    "share": None,
    "form": _Form.LONG,
    "forms": None,
    "all_of_it": False,
    "check": None,
    "quiet": None,
}


def _given(line: str) -> dict[str, Any]:
    command = click.Command("declared", params=parameters_of(_declared), callback=lambda **_: None)
    with command.make_context("declared", line.split()) as context:
        return values_for(_declared, context.params)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a", {}),
        ("a b c/d", {"others": [Path("b"), Path("c/d")]}),
        ("a -o x --skip-first 9 --share 0.5", {"out": Path("x"), "skip_first": 9, "share": 0.5}),
        ("--form short-form a", {"form": _Form.SHORT}),
        ("a --each long-form --each short-form", {"forms": [_Form.LONG, _Form.SHORT]}),
        ("a --all-of-it --check", {"all_of_it": True, "check": True}),
        ("a --no-check --quiet x", {"check": False, "quiet": "x"}),
    ],
)
def test_a_command_line_gives_what_is_declared(line: str, expected: dict[str, Any]) -> None:
    assert _given(line) == {**_DEFAULTS, **expected}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "Missing argument 'FIRST'."),
        ("a --skip-first one", "'one' is not a valid integer"),
        ("a --skip-first 0", "0 is not in the range 1<=x<=9"),
        ("a --share 0.4", "0.4 is not in the range x>=0.5"),
        ("a --form SHORT", "'SHORT' is not one of 'short-form', 'long-form'"),
        ("a --each", "requires an argument"),
        ("a --nothing", "No such option"),
    ],
)
def test_what_is_not_declared_is_wrong_usage(line: str, message: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        _given(line)
    assert message in refused.value.format_message()


def test_the_help_names_what_a_value_is() -> None:
    context = click.Context(click.Command("declared", params=parameters_of(_declared)))
    options = [each for each in context.command.params if isinstance(each, click.Option)]
    records = dict(filter(None, (each.get_help_record(context) for each in options)))
    assert records == {
        "-o, --output PATH": "A file.  [default: out]",
        "--skip-first N": "A number.  [default: 2; 1<=x<=9]",
        "--share X": "A share.  [x>=0.5]",
        "--form [short-form|long-form]": "A form.  [default: long-form]",
        "--each [short-form|long-form]": "Forms.",
        "--all-of-it": "Whether all.",
        "--check / --no-check": "Whether it is checked.",
    }
    assert [each.make_metavar(context) for each in context.command.params[:2]] == ["FIRST", "[OTHER...]"]
