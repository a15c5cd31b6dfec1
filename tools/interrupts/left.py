"""What lies in a folder of output: is what has a final name whole, and has the rest a name that is documented?"""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import tracebraid
from tracebraid.errors import InputError
from tracebraid.validation.manifest import leftover_findings

__all__ = ["half_written", "is_pointed_at", "odd_names", "unfinished"]

_UNFINISHED = (".part", ".recording.json", ".recording.json.tmp")
"""How the names of files end that were being written; they begin with a dot."""
_PIPE_BYTES = 60_000
_LOCKS = (".lock", "lock")


def unfinished(folder: Path) -> list[str]:
    """What was being written: hidden files and folders, by the names that they are documented to have."""
    return [name for name in _names(folder) if _is_unfinished(name)]


def odd_names(folder: Path) -> list[str]:
    """What is neither final nor documented."""
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
        try:
            if path.is_dir() and path.suffix == ".tbstore":
                _open_store(path)
            elif path.is_file() and not _is_unfinished(name):
                _read_whole(path)
        except (
            OSError,
            EOFError,
            ValueError,
            AssertionError,
            zipfile.BadZipFile,
            tracebraid.TracebraidError,
        ) as error:
            found.append(f"{name}: {error!r}")
    return found


def is_pointed_at(folder: Path) -> bool:
    """Whether `check` would point at all that was being written in a folder of traces."""
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
