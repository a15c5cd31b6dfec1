"""What comes through standard input, or a pipe with a name, as the shell's `<(zcat trace.json.gz)` hands it over."""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import time

from tracebraid.errors import InputError

__all__ = ["read_pipe", "read_standard_input"]

_WAIT_FOR_WRITER_S = 5.0
"""So long a writer may take to open its end: that of a shell's substitution has it open already."""
_POLL_S = 0.02
_BLOCK_BYTES = 1 << 20


def read_standard_input() -> bytes:
    """All of standard input; Ctrl-C ends the wait for more of it."""
    # The handler that polars puts around Python's own lets the kernel go on with the call that the signal interrupted.
    signal.siginterrupt(signal.SIGINT, True)
    return sys.stdin.buffer.read()


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
            # Somebody has it open for writing, and has written nothing yet. No signal is lost in this call.
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
