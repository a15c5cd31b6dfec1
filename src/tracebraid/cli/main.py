"""The command `tracebraid`: how it starts, and how errors end it.

`--version` loads no other module, and `--help` loads no command: see `commands`.
"""

from __future__ import annotations

import gc
import io
import signal
import sys

from tracebraid.cli.standard_output import drop_output, name_errors_of_output
from tracebraid.ctrl_c import raised_outside_polars, send_again
from tracebraid.errors import EngineError, OutputError, TracebraidError
from tracebraid.version import __version__

_INTERRUPTED = 128 + signal.SIGINT
"""128 + SIGINT, by shell convention."""
_OBJECTS_TO_COLLECT = 100_000
"""New objects before the collector looks for cycles; at Python's 700 it took a tenth of a short command."""


def run() -> None:
    """Run the command line; an error prints one message and exits with 1, wrong usage with 2, Ctrl-C with 130."""
    sys.unraisablehook = _not_lost
    gc.set_threshold(_OBJECTS_TO_COLLECT)
    try:
        with raised_outside_polars():
            _run()
    except KeyboardInterrupt:
        _end_interrupted()


def _not_lost(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise Ctrl-C again if it arrived where Python drops exceptions: in a finalizer or an import callback."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        send_again()
    else:
        sys.__unraisablehook__(unraisable)


def _end_interrupted() -> None:
    # What was interrupted while it was made, such as a module, complains as it is taken apart.
    sys.unraisablehook = lambda _unraisable: None
    sys.stderr.write("interrupted\n")
    sys.exit(_INTERRUPTED)


def _run() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    name_errors_of_output()
    try:
        try:
            _answer()
        finally:
            sys.stdout.flush()
            # The end of a process looks for cycles among all objects, which took an eighth of a short command.
            gc.freeze()
    except TracebraidError as error:
        from tracebraid.cli.output import say_error

        # What failed in a worker says where: it has the lines of a traceback.
        say_error(*(str(error).split("\n") if isinstance(error, EngineError) else [str(error)]))
        if isinstance(error, OutputError):
            drop_output()
        sys.exit(1)
    except BrokenPipeError:
        drop_output()
        sys.exit(1)


def _answer() -> None:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"tracebraid {__version__}\n")
        return
    from tracebraid.cli.commands import answer

    answer(sys.argv[1:])
