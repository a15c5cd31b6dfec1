"""Which file system does a path belong to?"""

from __future__ import annotations

from tracebraid.filesystem.interface import FileSystem
from tracebraid.filesystem.local import LocalFiles
from tracebraid.filesystem.paths import is_url
from tracebraid.filesystem.remote.choose import remote_files_of

__all__ = ["file_system_of"]


def file_system_of(path: str) -> FileSystem:
    """The file system that a path or URL belongs to.

    Args:
        path: as the caller named it.

    Raises:
        InputError: a URL whose scheme is not taken.
        MissingLibraryError: the library that reads URLs of this scheme is not installed.
    """
    return remote_files_of(path) if is_url(path) else LocalFiles()
