"""A trial of Arrow files that may be damaged or hostile: they are decoded in a process of its own first.

Polars' decoder panics on some files, and on others, such as those that name an absurd size, it ends the process. What
it does depends on the bytes alone: bytes that the trial survived are decoded here. This file is that process's script
too, which is why it imports nothing but the standard library, and polars once it runs.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

__all__ = ["survives_decoding"]

_SECONDS_AT_MOST = 300
"""A file that takes longer is refused; 100 MB of columns take about a second."""
_DECODED, _REFUSED, _NOT_TRIED = 0, 3, 4
"""Exit codes of the trial: all files were decoded, one was refused by an error of its own, or polars is not there."""


def survives_decoding(contents: Iterable[bytes]) -> bool:
    """Whether Arrow files can be decoded, or refused, without an end of the process that does.

    Where no process can be started, or polars is not found in it, they are taken to.

    Args:
        contents: the files.
    """
    entries = [entry for entry in sys.path if Path(entry).is_absolute() and Path(entry) != Path.cwd()]
    try:
        trial = subprocess.Popen(
            # Isolated: neither the working folder nor the environment says what is imported.
            [sys.executable, "-I", str(Path(__file__).resolve()), *entries],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
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


def _decode_all(stream: IO[bytes]) -> int:
    """Decode each file of a stream, down to each value; returns the exit code."""
    import io

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


if __name__ == "__main__":
    sys.path.extend(entry for entry in sys.argv[1:] if entry not in sys.path)
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Nothing but the exit code counts, and ending in the usual way could hang behind a panic.
    os._exit(_decode_all(sys.stdin.buffer))
