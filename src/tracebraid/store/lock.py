"""One writer at a time: whoever packs holds the lock of the store."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracebraid.errors import OutputError
from tracebraid.files import writing
from tracebraid.store.layout import LOCK

__all__ = ["locked"]

_OWNER_BYTES = 256
"""How much of a lock file is read: a host's name and a process id."""


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold the lock of a store. The kernel releases it with its process, so that none outlasts a killed one.

    Raises:
        OutputError: another process holds it, or there can be no lock.
    """
    path = store / LOCK
    descriptor = _take(path)
    try:
        with writing(path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _take(path: Path) -> int:
    while True:
        with writing(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(descriptor, _OWNER_BYTES, 0).decode("utf-8", "replace") or "another process"
                os.close(descriptor)
                raise OutputError(
                    str(path.parent), f"{owner} is writing this store", "Wait for it, or name another store"
                ) from None
            except OSError:
                os.close(descriptor)
                raise
        if _is_file(descriptor, path):
            return descriptor
        # Its owner deleted it between opening and locking: that lock is nobody's.
        os.close(descriptor)


def _is_file(descriptor: int, path: Path) -> bool:
    """Whether an open file is the one that has this name now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
