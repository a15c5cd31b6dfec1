"""A trial of Arrow files that may be damaged or hostile: they are decoded in a child process first.

Polars' decoder panics on some files, and on others, such as those that name an absurd size, it ends the process. What
it does depends on the bytes alone: bytes that the trial survived are decoded here.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import IO

from tracebraid.child_process.start import child_environment, start_child

__all__ = ["serve", "survives_decoding"]

_SERVE = "tracebraid.importers.execution_trace.arrow_trial:serve"
_SECONDS_AT_MOST = 300
"""A file that takes longer is refused; 100 MB of columns take about a second."""
_MEMORY_BYTES = 3 << 29
"""Memory that the trial may take beside that for the files: polars' own 200 MB, and what small files decode to."""
_MEMORY_OVER_FILES = 20
"""Memory that the trial may take for a byte of the files: columns of recordings are compressed up to 8 times."""
_DECODED, _REFUSED, _NOT_TRIED = 0, 3, 4
"""Exit codes of the trial: all files were decoded, one was refused by an error of its own, or polars is not there."""


def survives_decoding(contents: Iterable[bytes]) -> bool:
    """Whether Arrow files can be decoded, or refused, without ending the process that does.

    True also where no process can be started, or where polars is missing in it.

    Args:
        contents: the files.
    """
    try:
        # One thread decodes small files as fast as many, which take memory each.
        environment = {**child_environment(), "POLARS_MAX_THREADS": "1"}
        trial = start_child(_SERVE, quiet=True, environment=environment)
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
    contents = list(_contents(sys.stdin.buffer))
    try:
        import resource
    except ImportError:
        pass
    else:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit_bytes = _MEMORY_BYTES + _MEMORY_OVER_FILES * sum(map(len, contents))
        _, most_bytes = resource.getrlimit(resource.RLIMIT_DATA)
        if most_bytes in (resource.RLIM_INFINITY, max(most_bytes, limit_bytes)):
            resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, most_bytes))
    # Nothing but the exit code counts, and a normal exit could hang after a panic.
    os._exit(_decode_all(contents))


def _contents(stream: IO[bytes]) -> Iterator[bytes]:
    """The files of a stream."""
    while length := stream.read(8):
        yield stream.read(int.from_bytes(length, "little"))


def _decode_all(contents: Iterable[bytes]) -> int:
    """Decode each file, down to each value; returns the exit code."""
    try:
        import polars as pl
    except ImportError:
        return _NOT_TRIED
    for content in contents:
        try:
            frame = pl.read_ipc(io.BytesIO(content))
            frame.with_columns(pl.col(pl.Categorical).cast(pl.String)).hash_rows()
        except (pl.exceptions.PolarsError, OSError):
            return _REFUSED
    return _DECODED
