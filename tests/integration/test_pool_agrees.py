"""The process pool prints and writes the same bytes as this process alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.command import Done, run

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
    return said, {str(file.relative_to(out)): file.read_bytes() for file in out.rglob("*") if file.is_file()}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_pool_answers_as_this_process_does(words: list[str], demo: Path, tmp_path: Path) -> None:
    here, written_here = result(words, demo, tmp_path / "here", "in-process")
    there, written_there = result(words, demo, tmp_path / "there", "pool")
    assert here.returncode == 0, here.stderr
    assert there == here
    assert sorted(written_there) == sorted(written_here)
    assert [name for name, content in written_here.items() if written_there[name] != content] == []
    assert bool(written_here) == any("{out}" in word for word in words)
