"""What comes through a pipe with a name, as the shell's `<(zcat trace.json.gz)` hands it over."""

from __future__ import annotations

import os
import select
import stat
import time

from tracebraid.errors import InputError

__all__ = ["read_pipe"]

_WAIT_FOR_WRITER_S = 5.0
"""So long a writer may take to open its end: that of a shell's substitution has it open already."""
_POLL_S = 0.02
_BLOCK_BYTES = 1 << 20


def read_pipe(path: str) -> bytes:
    """All that is written into a pipe until its last writer closes it.

    Raises:
        InputError: it is no pipe but a device, which may never end; or nobody writes into it.
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise InputError(path, "this is a device, no file", "Name a trace file")
        return _read(path, descriptor)
    finally:
        os.close(descriptor)


def _read(path: str, descriptor: int) -> bytes:
    blocks: list[bytes] = []
    give_up = time.monotonic() + _WAIT_FOR_WRITER_S
    while True:
        try:
            block = os.read(descriptor, _BLOCK_BYTES)
        except BlockingIOError:
            # Somebody has it open for writing, and has written nothing yet.
            select.select([descriptor], [], [])
            continue
        if block:
            blocks.append(block)
        elif blocks:
            return b"".join(blocks)
        elif time.monotonic() > give_up:
            raise InputError(path, "nobody writes into this pipe", "Start its writer first, or name a file")
        else:
            time.sleep(_POLL_S)
