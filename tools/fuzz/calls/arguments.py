"""Commands with odd arguments: each option and argument of each command, as the Typer app itself has them."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args

from tools.fuzz.calls.commands import odd_text, require, run_command
from tools.fuzz.model import Call, FailureError
from tracebraid.cli.commands import app
from tracebraid.errors import InputError

_NOT_ASKED = (("capture",), ("build-recorder",), ("view",), ("demo",))
"""Commands that run another program, a compiler or a server, or read the demo."""
_LEFT_OUT = {"--engine": ("ray", "pool"), "--help": (), "--workers": ()}
"""Options that are left out, or values of them that start processes."""
_SMALL: dict[tuple[str, ...], list[str]] = {("chakra-generator",): ["--num_npus", "2"]}
"""Options without which a command takes its time: 64 ranks are what Chakra's generator makes."""
_MANY = range(300, 1_000_001)
"""Numbers of ranks, steps or layers that are generated, and take their time."""
_OPTIONS = (0, 1, 1, 2, 2, 3, 4, 8)
_WELL = 0.7
"""Share of required arguments that are what the command wants: else no option would be read."""


@dataclass(frozen=True)
class _Command:
    """A command: its words, and its parameters."""

    words: tuple[str, ...]
    parameters: tuple[Any, ...]


@cache
def _commands() -> tuple[_Command, ...]:
    """All commands, those of groups too."""
    return tuple(_of_group(app, ()))


def _of_group(group: Any, words: tuple[str, ...]) -> Iterator[_Command]:
    for name in group.commands:
        if (*words, name) in _NOT_ASKED:
            continue
        _, command, _ = group.resolve_command(None, [name])
        if hasattr(command, "commands"):
            yield from _of_group(command, (*words, name))
        else:
            yield _Command((*words, name), tuple(command.params))


def _places(folder: Path) -> list[str]:
    """Paths of every kind: traces, folders, files, and such as are not there."""
    found = [str(path) for path in sorted(folder.rglob("*"))]
    return [
        str(folder),
        *found,
        *("/dev/null", "/dev/full", "nothing", "nothing/at/all", ".", "..", "~", "-"),
        str(folder / "out"),
        *(
            f"{found[0]}/below",
            f"{folder}/no\udcffne",
            f"{folder}/{'n' * 300}",
            "file:///etc/passwd",
            "s3://b/k",
        ),
    ]


def _outputs(folder: Path) -> list[str]:
    """Targets: new names with every ending, and existing files."""
    ends = (
        "",
        ".json",
        ".json.gz",
        ".html",
        ".csv",
        ".et",
        ".dot",
        ".svg",
        ".graphml",
        ".sqlite",
        ".pftrace.gz",
    )
    return [*(f"new{end}" for end in (*ends, ".parquet", ".txt", ".zip", ".0.et")), *_places(folder)]


def _arguments(command: _Command, folder: Path, rng: random.Random) -> list[str]:
    """Arguments of a command: what it needs, most of it well, and some options, most of them odd."""
    found: list[str] = []
    options = [one for one in command.parameters if _is_option(one) and not one.required]
    for one in (option for option in options if rng.random() < rng.choice(_OPTIONS) / max(len(options), 1)):
        found += _option(one, folder, rng)
    for one in command.parameters:
        if _is_option(one) and one.required and rng.random() < 0.95:
            found += _option(one, folder, rng)
    for one in command.parameters:
        if not _is_option(one):
            count = rng.choice((1, 1, 1, 2)) if one.nargs == -1 else 1
            found += [_argument(one, folder, rng) for _ in range(count)]
    return found


def _is_option(one: Any) -> bool:
    return bool(one.param_type_name == "option")


def _argument(one: Any, folder: Path, rng: random.Random) -> str:
    choices = _choices(one)
    if rng.random() < _WELL:
        if choices:
            return rng.choice(choices)
        return str(rng.choice((folder, *(path for path in sorted(folder.iterdir()) if path.is_file()))))
    return rng.choice((rng.choice(_places(folder)), odd_text(rng)))


def _option(one: Any, folder: Path, rng: random.Random) -> list[str]:
    name = rng.choice([*one.opts, *one.secondary_opts])
    if name in _LEFT_OUT and not _LEFT_OUT[name]:
        return []
    if one.is_flag:
        return [name]
    times = rng.choice((1, 1, 2, 3)) if one.multiple else 1
    found: list[str] = []
    for _ in range(times):
        value = _value(one, folder, rng)
        takes_long = value.isascii() and value.isdecimal() and len(value) < 20 and int(value) in _MANY
        if value not in _LEFT_OUT.get(name, ()) and not takes_long:
            found += [name, value]
    return found


def _value(one: Any, folder: Path, rng: random.Random) -> str:
    choices = _choices(one)
    if "--output" in one.opts or one.name == "out":
        return rng.choice(_outputs(folder))
    if choices and rng.random() < 0.6:
        return rng.choice(choices)
    if _kind(one) in (int, float) and rng.random() < 0.5:
        return rng.choice(("0", "1", "2", "3", "10"))
    return rng.choice((rng.choice(_places(folder)), odd_text(rng), odd_text(rng)))


def _kind(one: Any) -> Any:
    """The type of a parameter's values: of a list that of its elements."""
    annotation = one.type_descriptor.annotation
    return (get_args(annotation) or (annotation,))[0]


def _choices(one: Any) -> Sequence[str]:
    kind = _kind(one)
    return [str(member.value) for member in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


@contextlib.contextmanager
def _within(folder: Path) -> Iterator[None]:
    """The working folder is below the mutant's: names without a folder go there."""
    folder.mkdir(exist_ok=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _ask(folder: Path, rng: random.Random) -> None:
    command = rng.choice(_commands())
    arguments = _arguments(command, folder, rng)
    line = [*command.words, *_SMALL.get(command.words, ()), *arguments]
    with _within(folder / "out"):
        try:
            run_command(*line, stdin=rng.choice((b"", b"{}", b"\0\xff")))
        except InputError as error:
            require(bool(error.path), f"{shlex.join(line)[:500]}: an error names no file")
        except FailureError as error:
            raise FailureError(error.kind, f"{shlex.join(line)[:500]}: {error}") from error


ARGUMENT_CALLS = (Call("arguments", _ask, names_others=True),)
"""A command with arguments that are drawn."""
