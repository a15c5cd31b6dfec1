"""Choose the file system of a path."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracebraid.filesystem.interface import FileSystem, Kind
from tracebraid.filesystem.local import LocalFiles
from tracebraid.filesystem.paths import ResolvedPath, is_url, parent_of, text_of
from tracebraid.model.rank_files import RankFiles

if TYPE_CHECKING:
    from tracebraid.filesystem.archives.archive_files import ArchiveFiles

_NO_ARCHIVE = re.compile(r"\.json(\.gz|\.zst)?$|\.arrow\.zip$|\.sqlite$|\.nsys-rep$", re.I)
"""Suffixes of files that are not probed as archives."""
_ARCHIVE_IN_URL = re.compile(r"^(.+?\.(?:tar|tgz|tar\.gz|tar\.zst|(?<!\.arrow\.)zip))(?=/|$)", re.I)
"""Suffixes of archives behind URLs, where a probe would cost a request."""


def file_system_of(path: str) -> FileSystem:
    """The file system that a path or URL belongs to; an archive is one of its own."""
    if isinstance(path, ResolvedPath):
        return path.files
    files = _holder_of(path)
    return _archive_in_path(files, path) or files


def with_files(path: str | Path) -> str:
    """Attach the file system to a path if finding it is costly, as for an archive's index."""
    text = text_of(path)
    archive = None if isinstance(text, ResolvedPath) else _archive_in_path(_holder_of(text), text)
    return text if archive is None else ResolvedPath.of(text, archive)


def archive_of(path: str) -> ArchiveFiles | None:
    """The archive that a path of `with_files` lies in; None if it lies in none."""
    if not isinstance(path, ResolvedPath):
        return None
    from tracebraid.filesystem.archives.archive_files import ArchiveFiles

    return path.files if isinstance(path.files, ArchiveFiles) else None


def in_archive(archive: ArchiveFiles | None, files: RankFiles) -> RankFiles:
    """Attach an archive to the paths of a rank's files, so that its index is not read again."""
    if archive is None:
        return files
    kineto, et = (
        None if path is None else ResolvedPath.of(path, archive) for path in (files.kineto, files.et)
    )
    return replace(files, kineto=kineto, et=et)


def _holder_of(path: str) -> FileSystem:
    if not is_url(path):
        return LocalFiles()
    from tracebraid.filesystem.remote.remote_files import remote_files_of

    return remote_files_of(path)


def _archive_in_path(files: FileSystem, path: str) -> ArchiveFiles | None:
    """The archive that a path names or leads into; None if there is none."""
    if is_url(path):
        found = _ARCHIVE_IN_URL.match(path)
        return _opened(files, found[1]) if found and files.kind(found[1]) is Kind.FILE else None
    if "\0" in path or (_NO_ARCHIVE.search(path) and files.kind(path) is not Kind.ABSENT):
        return None
    above = str(Path(path))
    while (kind := files.kind(above)) is Kind.ABSENT and parent_of(above) != above:
        above = parent_of(above)
    return _opened(files, above) if kind is Kind.FILE and not _NO_ARCHIVE.search(above) else None


def _opened(files: FileSystem, path: str) -> ArchiveFiles | None:
    """The archive that a file is; None where it is none."""
    from tracebraid.filesystem.archives.archive_files import open_archive

    return open_archive(files, path)
