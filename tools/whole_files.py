"""Judges what is left in a folder of output: files with final names have to be whole, others to be documented."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import tracebraid
from tracebraid.errors import InputError
from tracebraid.validation.manifest import leftover_findings

_UNFINISHED = (".part", ".recording.json", ".recording.json.tmp")
"""Endings of the names of unfinished files, which begin with a dot."""
_PIPE_BYTES = 60_000
_FAULTS = (OSError, EOFError, ValueError, AssertionError, zipfile.BadZipFile, zlib.error)
_LOCKS = (".lock", "lock")


def unfinished(folder: Path) -> list[str]:
    """Unfinished files and folders, which are hidden and have the documented names."""
    return [name for name in _names(folder) if _is_unfinished(name)]


def odd_names(folder: Path) -> list[str]:
    """Files and folders with names neither final nor documented."""
    return [
        name
        for name in _names(folder)
        if not _is_unfinished(name) and Path(name).name.startswith(".") and Path(name).name not in _LOCKS
    ]


def half_written(folder: Path) -> list[str]:
    """Files with final names that do not read whole, and why; read in a forked process.

    Stores are read with polars, whose threads a process that forks must not have.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, json.dumps(_half_written(folder))[:_PIPE_BYTES].encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    return [str(entry) for entry in json.loads(said)] if status == 0 else ["reading what is left fails"]


def _half_written(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        is_store = path.is_dir() and path.suffix == ".tbstore"
        if is_store or (path.is_file() and not _is_unfinished(name)):
            fault = fault_of(path)
            if fault is not None:
                found.append(f"{name}: {fault}")
    return found


def fault_of(path: Path) -> str | None:
    """The reason why a file or a store does not read whole; None where it does."""
    try:
        (_open_store if path.is_dir() else _read_whole)(path)
    except (*_FAULTS, tracebraid.TracebraidError) as error:
        return repr(error)
    return None


def is_pointed_at(folder: Path) -> bool:
    """Return whether `check` points at all unfinished files in a folder of traces."""
    parts = [path for path in folder.iterdir() if _is_unfinished(path.name)] if folder.is_dir() else []
    findings = leftover_findings(str(folder), [path.name for path in folder.iterdir()]) if parts else []
    return sum(finding.count for finding in findings) == len(parts)


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _is_unfinished(name: str) -> bool:
    return any(part.startswith(".") and part.endswith(_UNFINISHED) for part in Path(name).parts)


def _read_whole(path: Path) -> None:
    for ending, read in _READERS.items():
        if path.name.endswith(ending):
            read(path)
            return
    assert path.name in _LOCKS or path.name.endswith(".et"), f"nobody knows {path.name}"


def _json(path: Path) -> None:
    json.loads(path.read_bytes())


def _json_gz(path: Path) -> None:
    json.loads(gzip.decompress(path.read_bytes()))


def _html(path: Path) -> None:
    assert path.read_bytes().rstrip().endswith(b"</html>"), "it is cut"


def _lines(path: Path) -> None:
    assert path.read_bytes().endswith(b"\n"), "it is cut"


def _arrow(path: Path) -> None:
    content = path.read_bytes()
    assert content[:6] == content[-6:] == b"ARROW1", "it is cut"


def _parquet(path: Path) -> None:
    content = path.read_bytes()
    assert content[:4] == content[-4:] == b"PAR1", "it is cut"


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None, "a member is damaged"


def _open_store(path: Path) -> None:
    """It opens and computes, or says that it has no rank yet."""
    if not (path / "store.json").exists() or not any(path.glob("ranks/*.json")):
        try:
            tracebraid.open(path)
        except InputError:
            return
        raise AssertionError("it opens, and holds nothing")
    job = tracebraid.open(path)
    for rank in job.ranks:
        job[rank].compute_all()


_READERS: dict[str, Callable[[Path], None]] = {
    ".json.gz": _json_gz,
    ".json.gz.orig": _json_gz,
    ".json": _json,
    ".html": _html,
    ".csv": _lines,
    ".md": _lines,
    ".sql": _lines,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".zip": _zip,
}
