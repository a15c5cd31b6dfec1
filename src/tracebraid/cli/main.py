"""The command `tracebraid`: how it starts, and how errors end it.

The version is printed before anything is loaded, and the help before any command is: see `commands`.
"""

from __future__ import annotations

import io
import os
import sys

from tracebraid.errors import TracebraidError
from tracebraid.version import __version__

__all__ = ["run"]


def run() -> None:
    """Run the command line; errors become one message and exit code 1, wrong usage exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        if sys.argv[1:] == ["--version"]:
            sys.stdout.write(f"tracebraid {__version__}\n")
            return
        from tracebraid.cli.commands import app

        app()
    except TracebraidError as error:
        from tracebraid.cli.output import say_error

        say_error(str(error))
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
