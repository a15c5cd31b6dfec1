"""Is the library in the cache the one that was built there, and can nobody else have put another in its place?"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

from tracebraid.errors import CaptureError
from tracebraid.files import write_whole

__all__ = ["close_folder", "is_as_built", "note_built"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MODE = 0o755
"""Of the folder and the library: a user's own umask may let a group write."""
_ROOT = 0


def close_folder(folder: Path) -> None:
    """Make a folder of the cache that only this user writes.

    Raises:
        CaptureError: it belongs to another user, or is none.
        OSError: it cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise CaptureError(
            f"the native recorder is not built: {folder} belongs to another user; name a folder of your own in "
            "TRACEBRAID_CACHE"
        )
    if status.st_mode & _OTHERS_WRITE:
        folder.chmod(_MODE)


def note_built(library: Path) -> None:
    """Keep what a library that was just built consists of; nobody else may write it from now on."""
    library.chmod(_MODE)
    content = {"sha256": _sha256(library), "size_bytes": library.stat().st_size}
    write_whole(_note(library), [json.dumps(content).encode() + b"\n"], overwrite=True)
    _note(library).chmod(_MODE)


def is_as_built(library: Path) -> bool:
    """Whether a library is there, whole as it was built, and in the hands of this user or of root alone."""
    try:
        if not all(_is_ours(path) for path in (library.parent, library, _note(library))):
            return False
        noted = json.loads(_note(library).read_bytes())
        return isinstance(noted, dict) and noted.get("sha256") == _sha256(library)
    except (OSError, ValueError, RecursionError):
        return False


def _is_ours(path: Path) -> bool:
    status = path.lstat()
    of_kind = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
    return of_kind and status.st_uid in (os.geteuid(), _ROOT) and not status.st_mode & _OTHERS_WRITE


def _note(library: Path) -> Path:
    return library.with_suffix(".json")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
