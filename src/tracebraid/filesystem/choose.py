"""Which file system does a path belong to?"""

from __future__ import annotations

import re
from pathlib import Path

from tracebraid.filesystem.archives.archive_files import ArchiveFiles, open_archive
from tracebraid.filesystem.interface import FileSystem, Kind
from tracebraid.filesystem.local import LocalFiles
from tracebraid.filesystem.paths import KnownPath, is_url, parent_of, text_of
from tracebraid.filesystem.remote.choose import remote_files_of
from tracebraid.model.rank_files import RankFiles

__all__ = ["archive_of", "file_system_of", "in_archive", "with_files"]

_NO_ARCHIVE = re.compile(r"\.json(\.gz|\.zst)?$|\.arrow\.zip$|\.sqlite$|\.nsys-rep$", re.I)
"""Names of files that are not looked into for being archives."""
_ARCHIVE_IN_URL = re.compile(r"^(.+?\.(?:tar|tgz|tar\.gz|tar\.zst|(?<!\.arrow\.)zip))(?=/|$)", re.I)
"""Behind a URL only names tell an archive, as each look would cost a request."""


def file_system_of(path: str) -> FileSystem:
    """The file system that a path or URL belongs to; an archive is one of its own.

    Args:
        path: as the caller named it.

    Raises:
        InputError: a URL whose scheme is not taken, or an archive that cannot be read.
        MissingLibraryError: the library that reads URLs of this scheme is not installed.
    """
    if isinstance(path, KnownPath):
        return path.files
    files = _holder_of(path)
    return _archive_in_path(files, path) or files


def with_files(path: str | Path) -> str:
    """A path that knows its file system where finding that out is costly: an archive, whose index is read for that.

    Raises:
        InputError: as `file_system_of`.
    """
    text = text_of(path)
    files = file_system_of(text)
    return KnownPath.of(text, files) if isinstance(files, ArchiveFiles) else text


def archive_of(path: str) -> ArchiveFiles | None:
    """The archive that a path of `with_files` lies in; None where it lies in none."""
    files = path.files if isinstance(path, KnownPath) else None
    return files if isinstance(files, ArchiveFiles) else None


def in_archive(archive: ArchiveFiles | None, files: RankFiles) -> RankFiles:
    """The files of a rank, by paths that know the archive they lie in, so that its index is not read again.

    Args:
        archive: None for none.
        files: with paths that are text alone.
    """
    if archive is None:
        return files
    kineto, et = (None if path is None else KnownPath.of(path, archive) for path in (files.kineto, files.et))
    return RankFiles(files.rank, kineto, et)


def _holder_of(path: str) -> FileSystem:
    return remote_files_of(path) if is_url(path) else LocalFiles()


def _archive_in_path(files: FileSystem, path: str) -> ArchiveFiles | None:
    """The archive that a path names or leads into; None where there is none."""
    if is_url(path):
        found = _ARCHIVE_IN_URL.match(path)
        return open_archive(files, found[1]) if found and files.kind(found[1]) is Kind.FILE else None
    if "\0" in path or (_NO_ARCHIVE.search(path) and files.kind(path) is not Kind.ABSENT):
        return None
    above = str(Path(path))
    while (kind := files.kind(above)) is Kind.ABSENT and parent_of(above) != above:
        above = parent_of(above)
    return open_archive(files, above) if kind is Kind.FILE and not _NO_ARCHIVE.search(above) else None
