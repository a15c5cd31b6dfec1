"""What finding and reading traces costs by where they lie: huge folders, archives of many members, and the cache.

Run: `python -m benchmarks.places KINETO.json`; the trace of the figures is that of 54 MB (v100).
"""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tracebraid
from tracebraid.importers.discovery.discover import find_rank_files

__all__ = ["main"]

_FILES, _TRACES, _MEMBERS = 100_000, 1_024, 10_000
_ROUNDS = 3


def main() -> None:
    """Measure each, and print the best of a few rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _report(f"a folder of {_FILES:,} files", _huge_folder(folder / "huge"), find_rank_files)
        _report(f"a tar of {_MEMBERS:,} members", _tar(folder / "job.tar"), find_rank_files)
        if len(sys.argv) > 1:
            traces = folder / "traces"
            traces.mkdir()
            shutil.copy(sys.argv[1], traces / "kineto_trace_0.json")
            _report("reading without cache", traces, lambda path: _read(path, False))
            _read(traces, True)
            _report("reading from the cache", traces, lambda path: _read(path, True))
            with tarfile.open(folder / "one.tar", "w") as tar:
                tar.add(traces / "kineto_trace_0.json", "kineto_trace_0.json")
            _report("reading from a tar", folder / "one.tar", lambda path: _read(path, False))


def _read(path: Path, cache: bool) -> int:
    job = tracebraid.open(path, cache=cache, engine="in-process")
    return sum(table.height for table in job[0].timeline.tables.values())


def _huge_folder(folder: Path) -> Path:
    folder.mkdir()
    for number in range(_FILES - _TRACES):
        (folder / f"log_{number}.txt").touch()
    for rank in range(_TRACES // 2):
        (folder / f"kineto_trace_{rank}.json").touch()
        (folder / f"torch_et_{rank}.json").touch()
    return folder


def _tar(path: Path) -> Path:
    with tarfile.open(path, "w") as tar:
        for rank in range(_MEMBERS):
            member = tarfile.TarInfo(f"kineto_trace_{rank}.json")
            member.size = 1000
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return path


def _report(what: str, path: Path, ask: Callable[[Path], object]) -> None:
    seconds = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        ask(path)
        seconds.append(time.perf_counter() - start)
    print(f"{what}: {min(seconds):.2f} s")


if __name__ == "__main__":
    main()
