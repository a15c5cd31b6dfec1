"""A folder of ranks that were read, each of the form of a store, by keys that tell their content.

```
.tracebraid-cache/
  CACHEDIR.TAG          says that this is a cache, and ours (https://bford.info/cachedir/)
  entries/<key>/        a store of one rank; `.used` is locked by who reads it, and its time is the last use
  sizes/<key>.<bytes>   how large an entry is, so that one listing gives the size of all
```
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from tracebraid.errors import InputError
from tracebraid.files import probe_folder, write_whole, writing
from tracebraid.model.finding import FindingCase
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.store.manifest import RankEntry, sha256_of, table_file
from tracebraid.store.rank_reader import StoredTables, linked_trace_of, read_content

_TAG = "CACHEDIR.TAG"
_TAG_CONTENT = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# Traces that Tracebraid has read; `tracebraid cache --clear PATH` deletes them.\n"
)
_ENTRIES, _SIZES, _USED = "entries", "sizes", ".used"
_OURS = {_TAG, _ENTRIES, _SIZES}
_TAG_PART = re.compile(rf"\.{re.escape(_TAG)}\..+\.part")
"""The tag, as another process writes it just now, or was killed writing it."""
_KEY = re.compile(r"[0-9a-f]{64}")
_SIZE = re.compile(r"([0-9a-f]{64})\.([0-9]{1,15})")
_PART, _GONE = ".part.", ".gone."
_ABANDONED_S = 86400
"""A part of an entry that is older than a day is of a process that was killed."""


class UntrustedCacheError(Exception):
    """The folder is not a cache of this user, and is not read.

    Args:
        case: the reason.
    """

    def __init__(self, case: FindingCase) -> None:
        self.case = case
        super().__init__(case.value)


class Cache(Struct, frozen=True):
    """A cache that this user may trust.

    Args:
        folder: its folder.
        limit_bytes: maximum total size of entries.
    """

    folder: str
    limit_bytes: int

    def take(self, key: str, rank: int) -> LinkedTrace | None:
        """Return a cached rank; None if there is none. A damaged one is deleted.

        It is locked while its tables are referenced.
        """
        entry = self._entry(key)
        lock = _locked(entry / _USED, fcntl.LOCK_SH)
        if lock is None:
            return None
        try:
            tables = StoredTables(entry, read_content(entry, rank))
            _check_tables(tables)
            linked = linked_trace_of(tables)
            os.utime(lock)
        except (InputError, OSError):
            os.close(lock)
            self._delete(key)
            return None
        weakref.finalize(tables, os.close, lock)
        return linked

    def put(self, key: str, write: Callable[[Path], RankEntry]) -> None:
        """Add a rank, and evict the least recently used ones beyond the limit."""
        entry = self._entry(key)
        part = entry.with_name(f"{_PART}{key}.{os.getpid()}")
        try:
            with writing(part):
                part.mkdir()
            size_bytes = write(part).size_bytes or 0
            if size_bytes > self.limit_bytes:
                return
            with writing(part):
                (part / _USED).touch()
                (Path(self.folder) / _SIZES / f"{key}.{size_bytes}").touch()
            # Another process may have added it meanwhile: one is as good as the other.
            with contextlib.suppress(OSError):
                part.rename(entry)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        self._shrink(key)

    def sizes(self) -> dict[str, int]:
        """Return the size of each entry in bytes, by key."""
        found = {}
        for name in _names(Path(self.folder) / _SIZES):
            match = _SIZE.fullmatch(name)
            if match:
                found[match[1]] = int(match[2])
        return found

    def clear(self) -> int:
        """Delete all entries except those in use; return the number of remaining ones."""
        for name in _names(Path(self.folder) / _ENTRIES):
            if _KEY.fullmatch(name):
                self._delete(name)
        for key in self.sizes():
            if not self._entry(key).exists():
                self._delete(key)
        self._delete_abandoned(older_than_s=0)
        left = len(self.sizes())
        if not left:
            with contextlib.suppress(OSError):
                for name in (_SIZES, _ENTRIES):
                    (Path(self.folder) / name).rmdir()
                for name in filter(_TAG_PART.fullmatch, _names(Path(self.folder))):
                    (Path(self.folder) / name).unlink()
                (Path(self.folder) / _TAG).unlink()
                Path(self.folder).rmdir()
        return left

    def _entry(self, key: str) -> Path:
        return Path(self.folder) / _ENTRIES / key

    def _shrink(self, newest: str) -> None:
        sizes = self.sizes()
        total = sum(sizes.values())
        if total <= self.limit_bytes:
            return
        self._delete_abandoned(_ABANDONED_S)
        by_use = sorted((_used_ns(self._entry(key) / _USED), key) for key in sizes if key != newest)
        for _, key in by_use:
            if self._delete(key):
                total -= sizes[key]
            if total <= self.limit_bytes:
                return

    def _delete(self, key: str) -> bool:
        """Delete an entry; return False if it is in use, or cannot be deleted."""
        entry = self._entry(key)
        lock = _locked(entry / _USED, fcntl.LOCK_EX)
        if lock is None and (entry / _USED).exists():
            return False
        gone = entry.with_name(f"{_GONE}{key}.{os.getpid()}")
        try:
            with contextlib.suppress(FileNotFoundError):
                entry.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
            for name in _names(Path(self.folder) / _SIZES):
                if name.startswith(f"{key}."):
                    (Path(self.folder) / _SIZES / name).unlink(missing_ok=True)
        except OSError:
            return False
        finally:
            if lock is not None:
                os.close(lock)
        return True

    def _delete_abandoned(self, older_than_s: float) -> None:
        """Delete leftovers of killed processes."""
        for name in _names(Path(self.folder) / _ENTRIES):
            path = Path(self.folder) / _ENTRIES / name
            if name.startswith((_PART, _GONE)) and _is_older(path, older_than_s):
                shutil.rmtree(path, ignore_errors=True)


def open_cache(folder: Path, limit_bytes: int, make: bool = True) -> Cache | None:
    """Open an existing cache, or create one.

    Only this user may have written to it: other users' entries could contain anything.
    """
    with writing(folder):
        if not os.path.lexists(folder):
            if not make:
                return None
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_untrusted(folder)
        inside = set(_names(folder))
        if _TAG not in inside and (not make or any(not _TAG_PART.fullmatch(name) for name in inside - _OURS)):
            raise UntrustedCacheError(FindingCase.CACHE_OF_OTHER_KIND)
        if make:
            for name in (_ENTRIES, _SIZES):
                (folder / name).mkdir(mode=0o700, exist_ok=True)
            probe_folder(folder / _ENTRIES)
            if _TAG not in inside:
                write_whole(folder / _TAG, [_TAG_CONTENT], overwrite=True)
        for name in (_ENTRIES, _SIZES):
            if os.path.lexists(folder / name):
                _refuse_untrusted(folder / name)
    return Cache(str(folder), limit_bytes)


def _refuse_untrusted(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise UntrustedCacheError(FindingCase.CACHE_OF_OTHER_KIND)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise UntrustedCacheError(FindingCase.CACHE_OF_OTHERS)


def _check_tables(tables: StoredTables) -> None:
    """Check every file of an entry before use."""
    content = tables.content
    for name, stated in content.tables.items():
        path = table_file(tables.store, name, content.rank)
        if sha256_of(path.read_bytes()) != stated.sha256:
            raise InputError(str(path), "this file of the cache is damaged", "The trace is read again")


def _locked(path: Path, how: int) -> int | None:
    """Open and lock a file; None if missing, or locked by another process."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        # One that was deleted between the two is nobody's.
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _names(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as inside:
            names = sorted(entry.name for entry in inside)
    except OSError:
        names = []
    return iter(names)


def _used_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _is_older(path: Path, age_s: float) -> bool:
    try:
        return time.time() - path.lstat().st_mtime >= age_s
    except OSError:
        return False
