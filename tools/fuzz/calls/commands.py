"""Runs a command of `tracebraid` in this process, and judges how it ended and what it printed."""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest import mock

from typer.main import get_command

from tools.fuzz.calls.output import strict_json, unsteering
from tools.fuzz.model import FailureError, FailureKind
from tracebraid.cli.commands import app
from tracebraid.cli.output import say_error
from tracebraid.errors import TracebraidError

__all__ = ["Ended", "run_command"]

_CODES = (0, 1, 2)
"""What commands end with by the README: well, bad input or a missed threshold, and wrong usage."""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Args:
        code: its exit code.
        output: what it printed on standard output.
        messages: what it printed on standard error.
    """

    code: int
    output: str
    messages: str


def run_command(*arguments: object, stdin: bytes = b"") -> Ended:
    """Run a command as a shell would, without a terminal: `run_command("info", folder, "--json")`.

    With `--json` the output must be strict JSON; without `--csv` and `--parquet`, which keep names as they are,
    neither output nor messages may hold control characters.

    Raises:
        TracebraidError: the command refused its input so; what it prints then is judged before.
        FailureError: it ended with an exit code that is not documented or printed what it must not.
    """
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
            _tracebraid().main(list(map(str, arguments)), prog_name="tracebraid")
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


@cache
def _tracebraid() -> Any:
    """The group of the commands: made once, as it reads the docstrings of all."""
    return get_command(app)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8", "replace")


def _judge(arguments: tuple[object, ...], ended: Ended) -> None:
    """Whether the exit code is one of ours, with a word on why, and the output what was asked for."""
    if ended.code not in _CODES:
        raise FailureError(FailureKind.INVALID_OUTPUT, f"exit code {ended.code}: {ended.messages[-200:]}")
    if ended.code and not (ended.output or ended.messages):
        raise FailureError(FailureKind.INVALID_OUTPUT, f"exit code {ended.code} without a word")
    if "Traceback (most recent call last)" in ended.output + ended.messages:
        raise FailureError(FailureKind.FOREIGN_EXCEPTION, (ended.output + ended.messages)[-400:])
    # Typer sets choices that are missing in lines of their own, behind a tab.
    unsteering(ended.messages.replace("\n\t", "\n"))
    goes_into_file = not {"-o", "--output"}.isdisjoint(arguments)
    if "--json" in arguments and (ended.output or not (ended.code or goes_into_file)):
        strict_json(ended.output)
    if not {"--csv", "--parquet"}.intersection(arguments):
        unsteering(ended.output)
