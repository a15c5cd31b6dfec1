"""Commands run in this process, judgement of what they print, and the values that calls draw."""

from __future__ import annotations

import io
import json
import os
import random
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import polars as pl

import tracebraid
from tools.fuzz.model import Call, FailureError, FailureKind
from tracebraid.cli.commands import answer
from tracebraid.cli.output import say_error
from tracebraid.errors import TracebraidError


def unsteering(text: str) -> str:
    """The text, where nothing in it steers a terminal or hides a part: no control or formatting character."""
    printed = text.replace("\n", "")
    for at, character in enumerate("" if printed.isprintable() else text):
        if character != "\n" and unicodedata.category(character).startswith(("C", "Zl", "Zp")):
            around = text[max(0, at - 40) : at + 40]
            raise FailureError(FailureKind.INVALID_OUTPUT, f"{character!r} is printed raw in {around!r}")
    return text


def strict_json(text: str | bytes) -> Any:
    """The content of a JSON document."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        cut = text[:200]
        raise FailureError(FailureKind.INVALID_OUTPUT, f"no strict JSON: {error}, in {cut!r}") from error


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key stands twice among {[key for key, _ in pairs][:20]}")
    return found


_CODES = (0, 1, 2, 3)
"""Documented exit codes: well, bad input or a missed threshold, wrong usage, and a gate that cannot judge."""


@dataclass(frozen=True)
class Ended:
    """The end of a command."""

    code: int  # its exit code
    output: str  # what it printed on standard output
    messages: str  # what it printed on standard error


def run_command(*arguments: object, stdin: bytes = b"") -> Ended:
    """Run a command as a shell would, without a terminal: `run_command("info", folder, "--json")`.

    With `--json` the output must be strict JSON; without `--csv` and `--parquet`, which keep names as they are,
    neither output nor messages may hold control characters."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))
    code, refused = 0, None
    with (
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        mock.patch.dict(os.environ),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        os.environ.pop("COLUMNS", None)
        try:
            answer(list(map(str, arguments)))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except TracebraidError as error:
            say_error(str(error))
            code, refused = 1, error
    ended = Ended(code, _text(out), _text(err))
    _judge(arguments, ended)
    if refused is not None:
        raise refused
    return ended


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8", "replace")


def _judge(arguments: tuple[object, ...], ended: Ended) -> None:
    """Check that the exit code is one of ours, with a reason, and the output of the requested kind."""
    if ended.code not in _CODES:
        raise FailureError(FailureKind.INVALID_OUTPUT, f"exit code {ended.code}: {ended.messages[-200:]}")
    if ended.code and not (ended.output or ended.messages):
        raise FailureError(FailureKind.INVALID_OUTPUT, f"exit code {ended.code} without a word")
    if "Traceback (most recent call last)" in ended.output + ended.messages:
        raise FailureError(FailureKind.FOREIGN_EXCEPTION, (ended.output + ended.messages)[-400:])
    # Click sets choices that are missing in lines of their own, behind a tab.
    unsteering(ended.messages.replace("\n\t", "\n"))
    goes_into_file = not {"-o", "--output"}.isdisjoint(arguments)
    if "--json" in arguments and (ended.output or not (ended.code or goes_into_file)):
        strict_json(ended.output)
    if not {"--csv", "--parquet"}.intersection(arguments):
        unsteering(ended.output)


def new_file(folder: Path, name: str) -> Path:
    """A path in the folder of outputs of a mutant, where nothing lies."""
    path = folder / "out" / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    return path


def require(holds: bool, what: str) -> None:
    """Fail where something does not hold."""
    if not holds:
        raise FailureError(FailureKind.INVALID_OUTPUT, what)


def finite(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The table, of which each number is one: NaN and infinity are none."""
    for column in frame.iter_columns():
        if column.dtype.is_float():
            require(bool(column.drop_nulls().is_finite().all()), f"{name}.{column.name} is not finite")
    return frame


def not_below_0(name: str, frame: pl.DataFrame, *columns: str) -> None:
    """Fail where a number of these columns is below 0."""
    for column in columns:
        below = frame.get_column(column).drop_nulls() < 0
        require(not below.any(), f"{name}.{column} is below 0 in {below.sum()} rows")


ODD_NUMBERS = (
    *("0", "1", "2", "3", "-1", "-0", "007", "1_000", "+1", " 1", "1.5", "0.1", "1e3", "1e308", "1e400"),
    *("nan", "NaN", "inf", "-inf", "Infinity", "0x10", "\u0663", "\u00b2", "1e-400", "4.9e-324"),
    *("127", "128", "255", "256", "32767", "65535", "65536", "2147483647", "2147483648", "4294967296"),
    *("9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("-9223372036854775809", "18446744073709551615", "18446744073709551616", "9" * 40, "9" * 5000),
)
"""Numbers at limits, and texts that are nearly numbers."""

ODD_TEXTS = (
    *(
        "",
        " ",
        "\n",
        "\t",
        "-",
        "--",
        ".",
        "..",
        "/",
        "*",
        "?",
        "[",
        "(",
        "\\",
        "'",
        '"',
        ",",
        ":",
        ";",
        "=",
        "#",
        "%",
    ),
    *(
        "\u202eabc",
        "\x1b[31mred\x1b[0m",
        "a\nb",
        "\x7f",
        "\x9b1m",
        "\u00e4\u00f6\u00fc",
        "\U0001f40d",
        "\udcff",
    ),
    *(
        "{}",
        "[]",
        "null",
        "NaN",
        "true",
        "a,b",
        "a=b",
        "0-",
        "-0",
        "0-0",
        "3-1",
        "1,,2",
        "1..2",
        "..",
        "2..1",
    ),
    *("{0}", "%s", "$(id)", "`id`", "<b>&amp;", "--json", "/regex(/", "/(a+)+$/", "x" * 300, "y" * 100_000),
    *("ProfilerStep", "ProfilerStep#1", "aten::mm", "0", "None", "e\u0301", "\ufeff", "\u2028"),
)
"""Texts that mean something somewhere, or nothing anywhere."""


def odd_text(rng: random.Random) -> str:
    """A number, a text, or two of them in a row."""
    found = rng.choice(rng.choice((ODD_NUMBERS, ODD_TEXTS)))
    return found + rng.choice(rng.choice((ODD_NUMBERS, ODD_TEXTS))) if rng.random() < 0.1 else found


def input_files(folder: Path) -> Iterator[Path]:
    """The files of a mutant, in order; what calls wrote below `out` is none."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.relative_to(folder).parts[0] != "out":
            yield path


def _info(folder: Path, rng: random.Random) -> None:
    run_command("info", folder, *rng.choice([(), ("--json",)]))


def _check(folder: Path, rng: random.Random) -> None:
    run_command("check", folder, *rng.choice([(), ("--json",), ("--repair",), ("--repair", "--json")]))


def _open(folder: Path, _: random.Random) -> None:
    tracebraid.open(folder)


INFO = Call("info", _info)
CHECK = Call("check", _check)
OPEN = Call("tracebraid.open", _open)
