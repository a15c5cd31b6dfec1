"""The cache beside the traces: ranks that were read once are taken from it, with the same answers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import Struct

from tracebraid.errors import ArgumentError, InputError, OutputError
from tracebraid.files import is_folder, user_cache
from tracebraid.filesystem.archives.archive_files import ArchiveFiles
from tracebraid.filesystem.choose import archive_of, in_archive, with_files
from tracebraid.filesystem.paths import is_url, text_of
from tracebraid.importers.discovery import recorder_of
from tracebraid.importers.source_files import State, fingerprint, state_of
from tracebraid.model.cache_info import CacheInfo
from tracebraid.model.engine import Load, LoadingWork
from tracebraid.model.finding import Finding, FindingCase, finding_sentence
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.model.rank_files import Progress, RankFiles, SourceFile
from tracebraid.store.cache import Cache, UntrustedCacheError, open_cache
from tracebraid.store.manifest import FORMAT_VERSION, PackOptions, RankEntry
from tracebraid.store.opening import write_rank
from tracebraid.version import __version__

_FOLDER = ".tracebraid-cache"
_LIMIT_VARIABLE = "TRACEBRAID_CACHE_GB"
_LIMIT_GB = 10.0
_MOST_GB = 1e6
_FREE_AT_LEAST_BYTES = 64 << 20
"""Minimum free disk space to add an entry; an entry of a trace of 54 MB takes about 5 MB."""


def cached_load(load: Load, path: str, matching: Matching) -> tuple[Load, list[Finding]]:
    """The loader that takes ranks from the cache of a path, and what is wrong where there is none."""
    kept, adds, findings = cache_for(path)
    if kept is None:
        return load, findings
    options = PackOptions(__version__, matching.match, matching.annotation, matching.iteration)
    return CachedLoad(load, kept, options, archive_of(path), adds), findings


class CachedLoad(LoadingWork, frozen=True):
    """Opens a rank from the cache; a missing rank is read and added.

    Args:
        load: reads a rank.
        cache: the cache.
        options: options for linking ranks.
        archive: the archive that contains the traces; None: no archive.
        adds: whether there is enough space to add a rank.
    """

    cache: Cache
    options: PackOptions
    archive: ArchiveFiles | None = None
    adds: bool = True

    def __call__(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        """See `Load`."""
        located = in_archive(self.archive, files)
        before = _states(located)
        try:
            known = _sources(located)
        except InputError:
            # Reading it says what is wrong, or reads it without its Execution Trace.
            known = None
        if known is None:
            return self._read(files, progress)
        kept = self.cache.take(known.key(files.rank, self.options), files.rank)
        if kept is not None:
            if progress is not None:
                progress(1.0)
            return kept
        linked = self._read(files, progress)
        return self._added(linked, located, known, before) if self.adds else linked

    def _read(self, files: RankFiles, progress: Progress | None) -> LinkedTrace:
        linked: LinkedTrace = self.load(files, progress)
        return linked

    def _added(
        self, linked: LinkedTrace, files: RankFiles, known: _Sources, before: tuple[State, ...]
    ) -> LinkedTrace:
        key = known.key(files.rank, self.options)
        sources = known.kineto, known.et

        def write(entry: Path) -> RankEntry:
            written = write_rank(entry, linked, files.rank, sources, self.options)
            # What was read last, such as the Execution Trace, may be of another content than the key says.
            if _states(files) != before:
                problem = "the traces were changed while they were read"
                raise OutputError(self.cache.folder, problem, "Read them when their writer has ended")
            return written

        try:
            self.cache.put(key, write)
        except OutputError as error:
            finding = Finding.of(FindingCode.CACHE_UNUSED, self.cache.folder, problem=error.problem)
            timeline = replace(linked.timeline, findings=(*linked.timeline.findings, finding))
            return replace(linked, timeline=timeline)
        # Of what is in the cache no more is computed than what is asked for, as of what was read.
        return self.cache.take(key, files.rank) or self._read(files, None)


class _Sources(Struct, frozen=True):
    """Content of a rank's files, and other input of its answers."""

    kineto: SourceFile
    et: SourceFile | None
    recorder: str

    def key(self, rank: int, options: PackOptions) -> str:
        """Return the cache key of these files and options."""
        files = [
            None if file is None else (file.path, file.size_bytes, file.sha256, file.version)
            for file in (self.kineto, self.et)
        ]
        known = [FORMAT_VERSION, rank, files, self.recorder, msgspec.to_builtins(options)]
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def _states(files: RankFiles) -> tuple[State, ...]:
    return tuple(state_of(path) for path in (files.kineto, files.et) if path is not None)


def _sources(files: RankFiles) -> _Sources | None:
    """Fingerprint the files; None if a server cannot distinguish states of a file."""
    assert files.kineto is not None, "a job opens only ranks that have a Kineto trace"
    kineto, et = fingerprint(files.kineto), None if files.et is None else fingerprint(files.et)
    if any(file is not None and file.sha256 is None and not file.version for file in (kineto, et)):
        return None
    return _Sources(kineto, et, "" if files.et is None else recorder_of(files.et))


def cache_for(path: str) -> tuple[Cache | None, bool, list[Finding]]:
    """Open the cache of a path's traces; return whether ranks can be added, and the reason if it is unusable.

    It lies beside the traces or, if that folder is read-only, in the user's cache folder.
    """
    limit_bytes, findings = _limit_bytes(), []
    folders = _folders(path)
    problem = None if folders else (path, "this user has no home folder")
    for folder in folders:
        try:
            cache = open_cache(folder, limit_bytes)
        except UntrustedCacheError as error:
            details = {"case": error.case}
            findings.append(Finding(FindingCode.CACHE_UNUSED, str(folder), details=details))
            continue
        except OutputError as error:
            problem = problem or (str(folder), error.problem)
            continue
        assert cache is not None, "it is made where it is not there"
        if _free_bytes(folder) < _FREE_AT_LEAST_BYTES:
            details = {"case": FindingCase.CACHE_DISK_FULL}
            findings.append(Finding(FindingCode.CACHE_UNUSED, str(folder), details=details))
            return cache, False, findings
        return cache, True, findings
    if problem is not None:
        findings.append(Finding.of(FindingCode.CACHE_UNUSED, problem[0], problem=problem[1]))
    return None, False, findings


def cache_info(path: str | Path) -> tuple[CacheInfo, ...]:
    """Describe the caches of a path's traces: the one beside them, and the one in the user's cache folder.

    Args:
        path: the folder or file, as for `open`.

    Raises:
        InputError: a folder of that name is not a cache of this user.

    Examples:
        >>> import tracebraid
        >>> tracebraid.cache_info(tracebraid.demo_path())
        ()
    """
    return tuple(_info(cache) for cache in _caches(path))


def clear_cache(path: str | Path) -> tuple[CacheInfo, ...]:
    """Clear the caches of a path's traces, except for ranks that are being read.

    Args:
        path: the folder or file, as for `open`.

    Returns:
        The description of each cache before.

    Raises:
        InputError: a folder of that name is not a cache of this user.
    """
    caches = _caches(path)
    before = tuple(_info(cache) for cache in caches)
    for cache in caches:
        cache.clear()
    return before


def _info(cache: Cache) -> CacheInfo:
    sizes = cache.sizes()
    return CacheInfo(cache.folder, len(sizes), sum(sizes.values()), cache.limit_bytes)


def _caches(path: str | Path) -> list[Cache]:
    found = []
    for folder in _folders(with_files(path)):
        try:
            cache = open_cache(folder, _limit_bytes(), make=False)
        except UntrustedCacheError as error:
            problem = finding_sentence(FindingCode.CACHE_UNUSED, {"case": error.case})
            raise InputError(str(folder), problem, "Delete it yourself, if it is of no use") from None
        except OutputError as error:
            raise InputError(str(folder), error.problem, error.advice) from None
        if cache is not None:
            found.append(cache)
    return found


def _folders(path: str) -> list[Path]:
    """Return possible folders for the cache of a path's traces, in order of preference."""
    users = user_cache()
    archive = archive_of(path)
    lies_in = archive.path if archive is not None else text_of(path)
    if is_url(lies_in):
        return [] if users is None else [_of_user(users, lies_in)]
    folder = Path(lies_in).absolute()
    beside = folder if is_folder(folder) else folder.parent
    return [beside / _FOLDER, *([] if users is None else [_of_user(users, str(beside.resolve()))])]


def _of_user(users: Path, path: str) -> Path:
    """Return the folder for a place of traces below the user's cache folder."""
    return users / "tracebraid" / hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _limit_bytes() -> int:
    text = os.environ.get(_LIMIT_VARIABLE, "")
    try:
        limit_gb = float(text) if text else _LIMIT_GB
    except ValueError:
        limit_gb = -1.0
    if not 0 <= limit_gb < _MOST_GB:
        raise ArgumentError(f"{_LIMIT_VARIABLE} is {text!r}, which is no size in GB")
    return int(limit_gb * 1e9)


def _free_bytes(folder: Path) -> int:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).free
    return _FREE_AT_LEAST_BYTES
