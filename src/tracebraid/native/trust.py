"""Verify that the cached library is the one built there, and that nobody else could have replaced it."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tracebraid.errors import CaptureError
from tracebraid.files import write_whole

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MODE = 0o755
"""Forbidden permissions of the folder and the library: a user's umask may let a group write."""
_ROOT = 0
_TEXT_BYTES = 1 << 16
"""Maximum bytes read of a text in the cache: 30 lines of a compiler."""
_DESCRIPTORS = "/proc/self/fd/"
"""Linux's folder of a process's open files."""


def close_folder(folder: Path, what: str) -> None:
    """Make a folder of the cache that only this user writes; `what` names in an error what is built there."""
    folder.mkdir(parents=True, exist_ok=True)
    status = folder.lstat()
    is_folder = stat.S_ISDIR(status.st_mode)
    if not is_folder or status.st_uid != os.geteuid():
        why = "belongs to another user" if is_folder else "is a link"
        raise CaptureError(
            f"{what} is not built: {folder} {why}; name a folder of your own in TRACEBRAID_CACHE"
        )
    if status.st_mode & _OTHERS_WRITE:
        folder.chmod(_MODE)


def note_built(library: Path) -> None:
    """Record the hash of a newly built library, and remove write permission for others."""
    library.chmod(_MODE)
    content = {"sha256": _sha256(library), "size_bytes": library.stat().st_size}
    keep_text(_note(library), json.dumps(content) + "\n")


def keep_text(path: Path, text: str) -> None:
    """Write a text file that nobody else may write."""
    write_whole(path, [text.encode()], overwrite=True)
    path.chmod(_MODE)


def kept_text(path: Path) -> str:
    """The text of a file that this user or root wrote; "" for a link, a pipe or another's file, or without any."""
    with suppress(OSError), _opened(path) as file:
        if _is_ours(os.fstat(file.fileno())):
            return file.read(_TEXT_BYTES).decode(errors="replace")
    return ""


def is_as_built(library: Path) -> bool:
    """Return whether a library exists, unchanged since its build, and owned by this user or root."""
    with as_built(library) as name:
        return name is not None


@contextmanager
def as_built(library: Path) -> Iterator[str | None]:
    """The name under which to load a library within the block; None if it is not there as it was built.

    The name is that of the file that was checked, whatever is put in its place or in that of a folder above it.
    """
    with ExitStack() as stack:
        name = None
        with suppress(OSError, ValueError, RecursionError):
            name = _checked(library, stack)
        yield name


def _checked(library: Path, stack: ExitStack) -> str | None:
    if not _is_ours(library.parent.lstat()):
        return None
    files = [stack.enter_context(_opened(path)) for path in (library, _note(library))]
    if not all(_is_ours(os.fstat(file.fileno())) for file in files):
        return None
    binary, note = files
    noted, digest = json.loads(note.read()), hashlib.sha256(binary.read())
    if not isinstance(noted, dict) or noted.get("sha256") != digest.hexdigest():
        return None
    return _name_of(binary.fileno(), digest.digest()) if Path(_DESCRIPTORS).exists() else str(library)


def _name_of(descriptor: int, digest: bytes) -> str:
    """A path of an open file that no file of other content ever had.

    The loader gives back what it loaded before under the same path, and numbers of descriptors are used again. So bits
    of the content's digest are told in the path, in components that change nothing.
    """
    bits = f"{int.from_bytes(digest[:8], 'big'):064b}"
    return _DESCRIPTORS + "".join("./" if bit == "1" else "/" for bit in bits) + str(descriptor)


def _opened(path: Path) -> BinaryIO:
    """A file, no link; a pipe is not waited for."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def _is_ours(status: os.stat_result) -> bool:
    of_kind = stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)
    return of_kind and status.st_uid in (os.geteuid(), _ROOT) and not status.st_mode & _OTHERS_WRITE


def _note(library: Path) -> Path:
    return library.with_suffix(".json")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
