"""Standard output, whose errors are ours: results that go into a file of a full disk end in one line."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

from tracebraid.errors import OutputError

_DESCRIPTOR = 1


class _StandardOutput(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            problem = f"it cannot be written ({error.strerror or error})"
            raise OutputError("standard output", problem, "Free some space, or send it elsewhere") from None


def name_errors_of_output() -> None:
    """Make failing writes to standard output raise `OutputError`; a closed pipe remains an OSError."""
    stream = sys.stdout
    if stream is None:  # The process was started without: results go nowhere, as those of `print` do.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - it lasts as long as the process
        return
    if stream is not sys.__stdout__ or not isinstance(stream, io.TextIOWrapper):
        return
    stream.flush()
    # The descriptor is not closed with it: it is the process's.
    raw = _StandardOutput(_DESCRIPTOR, "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=stream.line_buffering
    )


def drop_output() -> None:
    """Discard unwritten output, so that the interpreter does not try again at exit."""
    if isinstance(getattr(sys.stdout, "buffer", None), io.BufferedWriter):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
