"""The process pool prints and writes the same bytes as this process alone."""

from __future__ import annotations

import gzip
import os
import re
import signal
import threading
from pathlib import Path

import pytest

import tracebraid
from tests.integration.command import Done, run
from tracebraid.engine.pool.process_pool import ProcessPool

COMMANDS = [
    ["report", "{path}", "--json"],
    ["export", "{path}", "--to", "perfetto", "-o", "{out}/job.pftrace.gz"],
    ["check", "{path}", "--json"],
    ["link", "{path}", "--align-clocks", "-o", "{out}/linked"],
    ["pack", "{path}", "-o", "{out}/job.tbstore"],
]
"""Of each kind one; all commands run by an engine that pickles in `test_same_with_every_engine`."""


def result(words: list[str], path: Path, out: Path, engine: str) -> tuple[Done, dict[str, bytes]]:
    """How a command ends, and what it has written, by the names of the files."""
    out.mkdir()
    done = run(*(word.format(path=path, out=out) for word in words), "--engine", engine)
    said = done._replace(stderr=done.stderr.replace(str(out), "OUT"))
    return said, files_of(out)


def files_of(folder: Path) -> dict[str, bytes]:
    """What a folder holds, by the names of the files."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_pool_answers_as_this_process_does(words: list[str], demo: Path, tmp_path: Path) -> None:
    here, written_here = result(words, demo, tmp_path / "here", "in-process")
    there, written_there = result(words, demo, tmp_path / "there", "pool")
    assert here.returncode == 0, here.stderr
    assert there == here
    assert sorted(written_there) == sorted(written_here)
    assert [name for name, content in written_here.items() if written_there[name] != content] == []
    assert bool(written_here) == any("{out}" in word for word in words)


def test_a_worker_that_is_killed_in_the_middle_changes_no_byte(demo: Path, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    for rank in range(6):
        text = gzip.decompress((demo / "kineto_trace_0.json.gz").read_bytes())
        own = re.sub(rb'("rank": ?)0', rb"\g<1>%d" % rank, text, count=1)
        (traces / f"kineto_trace_{rank}.json").write_bytes(own)
    killed: list[int] = []

    def kill_once(share: float) -> None:
        if share > 0.3 and not killed:
            children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
            killed.append(int(children[0]))
            os.kill(killed[0], signal.SIGKILL)

    tracebraid.pack(traces, tmp_path / "here", engine="in-process")
    packed = tracebraid.pack(traces, tmp_path / "there", engine=ProcessPool(2), progress=kill_once)
    assert killed
    assert packed.packed == tuple(range(6))
    written = [files_of(tmp_path / name) for name in ("here", "there")]
    assert len(written[0]) > 12
    assert written[0] == written[1]
