"""A trial of Arrow files that may be damaged or hostile: they are decoded in a child process first.

Polars' decoder panics on some files, and on others, such as those that name an absurd size, it ends the process. What
it does depends on the bytes alone: bytes that the trial survived are decoded here.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import IO

from tracebraid.child_process.start import start_child

__all__ = ["serve", "survives_decoding"]

_SERVE = "tracebraid.importers.execution_trace.arrow_trial:serve"
_SECONDS_AT_MOST = 300
"""A file that takes longer is refused; 100 MB of columns take about a second."""
_DECODED, _REFUSED, _NOT_TRIED = 0, 3, 4
"""Exit codes of the trial: all files were decoded, one was refused by an error of its own, or polars is not there."""


def survives_decoding(contents: Iterable[bytes]) -> bool:
    """Whether Arrow files can be decoded, or refused, without ending the process that does.

    True also where no process can be started, or where polars is missing in it.

    Args:
        contents: the files.
    """
    try:
        trial = start_child(_SERVE, quiet=True)
    except OSError:
        return True
    sized = b"".join(part for content in contents for part in (len(content).to_bytes(8, "little"), content))
    try:
        trial.communicate(sized, timeout=_SECONDS_AT_MOST)
    except subprocess.TimeoutExpired:
        return False
    finally:
        trial.kill()
        trial.wait()
    return trial.returncode in (_DECODED, _REFUSED, _NOT_TRIED)


def serve() -> None:
    """Decode the files that come in on standard input; the exit code says how that went."""
    try:
        import resource
    except ImportError:
        pass
    else:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Nothing but the exit code counts, and a normal exit could hang after a panic.
    os._exit(_decode_all(sys.stdin.buffer))


def _decode_all(stream: IO[bytes]) -> int:
    """Decode each file of a stream, down to each value; returns the exit code."""
    try:
        import polars as pl
    except ImportError:
        return _NOT_TRIED
    while length := stream.read(8):
        content = io.BytesIO(stream.read(int.from_bytes(length, "little")))
        try:
            frame = pl.read_ipc(content)
            frame.with_columns(pl.col(pl.Categorical).cast(pl.String)).hash_rows()
        except (pl.exceptions.PolarsError, OSError):
            return _REFUSED
    return _DECODED
