"""The command `tracebraid`: its commands, and how errors end it."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from tracebraid.cli import build_recorder, capture, check, demo, info, link, summary
from tracebraid.cli.output import say_error
from tracebraid.errors import TracebraidError
from tracebraid.version import __version__

__all__ = ["app", "run"]

app = typer.Typer(
    name="tracebraid",
    help="Captures PyTorch's Execution Traces and Kineto traces, links them into one, and answers from that.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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


app.command("capture", context_settings={"allow_interspersed_args": False})(capture.capture)
app.command("build-recorder")(build_recorder.build_recorder)
app.command("check")(check.check)
app.command("info")(info.info)
app.command("link")(link.link)
app.command("summary")(summary.summary)
app.command("demo")(demo.demo)


def run() -> None:
    """Run the command line; errors become one message and exit code 1, wrong usage exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except TracebraidError as error:
        say_error(str(error))
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
