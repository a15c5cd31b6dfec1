"""The files of a store as they lie on disk: regular files in folders of its own, and no links to elsewhere."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from tracebraid.errors import InputError
from tracebraid.store.layout import ANSWERS, RANKS, TABLES

__all__ = ["linked_folder", "refuse_special", "stored_bytes"]

_AGAIN = "Delete it, and pack again: tracebraid pack PATH -o STORE"


def stored_bytes(path: Path) -> bytes:
    """The content of a file of a store.

    Raises:
        InputError: it is a link, a pipe or a device, which a store does not have.
        OSError: it is not there, or cannot be read.
    """
    try:
        # A pipe is opened without waiting for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _special(path) from None
        raise
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _special(path)
        return file.read()


def refuse_special(status: os.stat_result, path: Path) -> None:
    """Refuse what `lstat` says is a link, a pipe or a device.

    Raises:
        InputError: it is.
    """
    if not stat.S_ISREG(status.st_mode):
        raise _special(path)


def linked_folder(store: Path) -> Path | None:
    """A folder of a store that is a link, or does not lie in it; None where there is none. A store may be a link."""
    for name in (RANKS, TABLES, ANSWERS):
        folder = store / name
        if folder.is_symlink():
            return folder
        if folder.is_dir():
            with os.scandir(folder) as inside:
                links = sorted(entry.name for entry in inside if entry.is_symlink() and entry.is_dir())
            if links:
                return folder / links[0]
    return None


def _special(path: Path) -> InputError:
    return InputError(str(path), "this is a link, a folder or a pipe, and no file of the store", _AGAIN)
