"""JSON files of a store: its manifest, and the description of each rank."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from tracebraid.errors import InputError, OutputError
from tracebraid.files import writing
from tracebraid.filesystem.paths import is_url, reading
from tracebraid.model.coverage import Coverage
from tracebraid.model.rank_files import SourceFile


class PackOptions(Struct, frozen=True):
    """Options of a pack; ranks packed with others are packed again.

    Args:
        writer: the version of Tracebraid.
        match: see `model.matching.Matching`, as the next two.
        annotation: see there.
        iteration: see there.
        window: which window of a capture; None for the last one.
        steps: which steps; None for all that there is.
    """

    writer: str
    match: str = "auto"
    annotation: str | None = None
    iteration: str | int = "best"
    window: int | None = None
    steps: str | None = None


class StoredError(Struct, frozen=True):
    """A stored error of reading or linking a rank, which is raised again.

    Args:
        kind: the name of its class.
        values: its arguments.
    """

    kind: str
    values: tuple[str, ...]


class StoredFinding(Struct, frozen=True):
    """A `Finding`: see there, and `store.findings` for the details."""

    code: str
    path: str
    where: str
    count: int
    loss: tuple[int, int | None, int] | None
    details: dict[str, Any]


class TableFile(Struct, frozen=True):
    """The file of a table.

    Args:
        rows: its rows.
        size_bytes: its size.
        sha256: of its content.
    """

    rows: int
    size_bytes: int
    sha256: str


class TimelineFacts(Struct, frozen=True):
    """Attributes of a `Timeline` besides its tables; times are first start and last end in ns, None without events."""

    path: str
    rank: int
    world_size: int | None
    base_time_ns: int
    min_ns: int | None
    max_ns: int | None
    header: dict[str, Any]
    findings: tuple[StoredFinding, ...]


class ExecutionTraceFacts(Struct, frozen=True):
    """Attributes of an `ExecutionTrace` besides its tables."""

    path: str
    schema: str
    rank: int | None
    recorder: str
    header: dict[str, Any]
    findings: tuple[StoredFinding, ...]


class MatchedFacts(Struct, frozen=True):
    """Attributes of a `Matched` besides its tables."""

    agreement: float
    programs: tuple[str, str]
    ambiguous: float
    choice: Any


class RankContent(Struct, frozen=True):
    """Description of a rank.

    Args:
        format: the version of the store's format.
        rank: the rank.
        options: options of the pack.
        kineto: the file of the Kineto trace.
        et: the file of the Execution Trace; None if there is none.
        timeline: the Kineto trace.
        execution_trace: the Execution Trace; None if there is none, or it could not be read.
        et_error: why it could not be read.
        link_error: why the two could not be linked.
        matched: see `LinkedTrace.matched`.
        coverage: see `LinkedTrace.coverage`; None if the two could not be linked.
        findings: of the stages that notice something, in their order.
        same: tables that equal another one, which replaces them.
        tables: the file of each table that has rows.
    """

    format: int
    rank: int
    options: PackOptions
    kineto: SourceFile
    et: SourceFile | None
    timeline: TimelineFacts
    execution_trace: ExecutionTraceFacts | None
    et_error: StoredError | None
    link_error: StoredError | None
    matched: MatchedFacts | None
    coverage: Coverage | None
    findings: tuple[tuple[StoredFinding, ...], ...]
    same: dict[str, str]
    tables: dict[str, TableFile]


class RankEntry(Struct, frozen=True):
    """A rank in the manifest.

    Args:
        rank: the rank.
        kineto: the file of the Kineto trace; None if there is none, and nothing to pack.
        et: the file of the Execution Trace; None if there is none.
        sha256: of its description; None if it is not packed.
        size_bytes: of all its files; None if it is not packed.
        min_ns: see `TimelineFacts`.
        max_ns: see `TimelineFacts`.
        world_size: number of ranks; None if the trace does not say.
        coverage: how much of it was linked; None if it is not packed, or could not be linked.
        link_error: why its two traces could not be linked, or one of them not be read.
        error: why it could not be read; it is tried again.
    """

    rank: int
    kineto: SourceFile | None
    et: SourceFile | None
    sha256: str | None = None
    size_bytes: int | None = None
    min_ns: int | None = None
    max_ns: int | None = None
    world_size: int | None = None
    coverage: Coverage | None = None
    link_error: StoredError | None = None
    error: StoredError | None = None


class CaptureFacts(Struct, frozen=True):
    """Facts beside the traces in the folder of a capture, for `check`.

    Args:
        format: the version of the store's format.
        folder: the folder of the traces.
        window: the window's name; "" if it is not a window.
        manifests: path and content of each manifest of the capture.
        findings: findings about these, when they were packed.
        leftovers: findings about other files.
    """

    format: int
    folder: str
    window: str
    manifests: tuple[tuple[str, dict[str, Any]], ...]
    findings: tuple[StoredFinding, ...]
    leftovers: tuple[StoredFinding, ...]


class Manifest(Struct, frozen=True):
    """The manifest of a store.

    Args:
        format: the version of the store's format.
        options: options of the pack.
        path: the packed path, as given.
        complete: whether all ranks were packed or failed; else only those in `ranks/` are packed.
        findings: findings about the files.
        ranks: those that were found, in order.
    """

    format: int
    options: PackOptions
    path: str
    complete: bool
    findings: tuple[StoredFinding, ...]
    ranks: tuple[RankEntry, ...]


SUFFIX = ".tbstore"
FORMAT_VERSION = 3
"""Version of the store's format; increased with each column, and when older readers would misread it."""

MANIFEST = "store.json"
CAPTURE = "capture.json"
RANKS = "ranks"
TABLES = "tables"
ANSWERS = "answers"
LOCK = ".lock"


def is_store(path: str | Path) -> bool:
    """Return whether a path is a store: a folder with a manifest, or with the suffix of stores."""
    folder = Path(path)
    if is_url(str(path)):
        return False
    with reading(path):
        return (folder / MANIFEST).is_file() or (folder.suffix == SUFFIX and folder.is_dir())


def rank_file(store: Path, rank: int) -> Path:
    """Return the path of a rank's description; it is written last, so that its presence proves a complete rank."""
    return store / RANKS / f"rank_{rank:06d}.json"


def table_file(store: Path, table: str, rank: int) -> Path:
    """Return the file of a rank's rows of a table; it does not exist without rows."""
    return store / TABLES / table / f"rank_{rank:06d}.parquet"


_AGAIN = "Delete it, and pack again: tracebraid pack PATH -o STORE"


def stored_bytes(path: Path) -> bytes:
    """The content of a file of a store."""
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
    """Reject what `lstat` says is a link, a pipe or a device."""
    if not stat.S_ISREG(status.st_mode):
        raise _special(path)


def linked_folder(store: Path) -> Path | None:
    """Return a folder of a store that is a link, or outside it; else None. The store itself may be a link."""
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
    return InputError(str(path), "this is a link, a folder or a pipe instead of a file of the store", _AGAIN)


T = TypeVar("T", bound=msgspec.Struct)

_HEAD = b'{"sha256":"'
_BETWEEN = b'",\n"content":'
_TAIL = b"}\n"
_DIGITS = 64
_START = len(_HEAD) + _DIGITS + len(_BETWEEN)
_LONG_NUMBER = re.compile(rb"[:,\[]-?\d{19}")
_SEALED_JSON_AGAIN = "Pack it again: tracebraid pack PATH -o STORE"


def sha256_of(content: bytes) -> str:
    """The hash of a file's content, as manifests have it."""
    return hashlib.sha256(content).hexdigest()


def sealed(content: msgspec.Struct) -> bytes:
    """Encode content as the bytes of a sealed file, deterministically.

    Texts may contain characters that UTF-8 cannot encode, such as in file names: the standard library escapes them.
    """
    text = json.dumps(msgspec.to_builtins(content), separators=(",", ":")).encode()
    return _HEAD + sha256_of(text).encode() + _BETWEEN + text + _TAIL


def read_sealed(path: Path, kind: type[T], check: Callable[[T], None] | None = None) -> tuple[T, bytes]:
    """The content of a file, and its bytes."""
    try:
        whole = stored_bytes(path)
    except FileNotFoundError:
        raise InputError(str(path), "this file of the store is missing", _SEALED_JSON_AGAIN) from None
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or error})"
        raise InputError(str(path), problem, "Check the file and its rights") from None
    text = whole[_START : -len(_TAIL)]
    stated = whole[len(_HEAD) : len(_HEAD) + _DIGITS]
    if not whole.startswith(_HEAD) or sha256_of(text).encode() != stated:
        raise InputError(str(path), "this file of the store is damaged", _SEALED_JSON_AGAIN)
    try:
        # Python reads integers of any length; columns hold 64 bits.
        value: Any = json.loads(text, parse_int=_int64 if _LONG_NUMBER.search(text) else None)
    except (ValueError, RecursionError) as error:
        raise InputError(
            str(path), f"this file of the store is damaged ({error})", _SEALED_JSON_AGAIN
        ) from None
    version = value.get("format") if isinstance(value, dict) else None
    if isinstance(version, int) and version != FORMAT_VERSION:
        problem = f"this store is of format {version}, and this version of Tracebraid reads {FORMAT_VERSION}"
        newer = "Install a newer version, or pack the traces again"
        raise InputError(str(path), problem, newer if version > FORMAT_VERSION else _SEALED_JSON_AGAIN)
    try:
        content = msgspec.convert(value, kind)
        if check is not None:
            check(content)
        return content, whole
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise InputError(
            str(path), f"this file of the store is damaged ({error})", _SEALED_JSON_AGAIN
        ) from None


def _int64(digits: str) -> int:
    number = int(digits)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{digits[:20]} is no integer of 64 bits")
    return number


def entry_of(content: RankContent, whole: bytes) -> RankEntry:
    """The entry of a packed rank in the manifest."""
    return RankEntry(
        rank=content.rank,
        kineto=content.kineto,
        et=content.et,
        sha256=sha256_of(whole),
        size_bytes=len(whole) + sum(file.size_bytes for file in content.tables.values()),
        min_ns=content.timeline.min_ns,
        max_ns=content.timeline.max_ns,
        world_size=content.timeline.world_size,
        coverage=content.coverage,
        link_error=content.link_error,
    )


def whole_rank(store: Path, rank: int, options: PackOptions) -> RankEntry | None:
    """Return the entry of a rank packed with these options whose files have the stated sizes; else None."""
    try:
        content, whole = read_sealed(rank_file(store, rank), RankContent)
    except InputError:
        return None
    if (content.format, content.rank, content.options) != (FORMAT_VERSION, rank, options):
        return None
    for name, stated in content.tables.items():
        path = table_file(store, name, rank)
        if path.is_symlink() or not path.is_file() or path.stat().st_size != stated.size_bytes:
            return None
    return entry_of(content, whole)


_PARTS = ".*.part"
"""Names of unfinished files."""


def is_other(folder: Path) -> bool:
    """Return whether the path holds something other than a store; remains of a killed pack do not count."""
    if not folder.exists() or is_store(folder):
        return False
    if not folder.is_dir():
        return True
    return any(entry.name != LOCK and not entry.match(_PARTS) for entry in folder.iterdir())


def remove_parts(store: Path) -> None:
    """Delete unfinished files and folders of a killed pack. The caller holds the lock."""
    for part in list(store.rglob(_PARTS)):
        with writing(part):
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part)
            else:
                part.unlink(missing_ok=True)


_OWNER_BYTES = 256
"""Maximum bytes read of a lock file: a host's name and a process id."""


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold the lock of a store. The kernel releases it when the process ends."""
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
    """Return whether an open file is the one with this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
