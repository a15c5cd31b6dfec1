"""Each command prints and writes the same bytes, whichever engine runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.command import Done, run

COMMANDS = [
    ["summary"],
    ["summary", "--json"],
    ["analyze", "--all", "--json"],
    ["advise", "--by-graph", "--json"],
    ["report", "--json"],
    ["report", "-o", "{out}/report.html"],
    ["export", "--to", "perfetto", "-o", "{out}/job.pftrace"],
    ["export", "--to", "chrome", "-o", "{out}/job.json"],
    ["export", "--to", "parquet", "-o", "{out}/tables"],
    ["check", "--json"],
    ["link", "--json", "-o", "{out}/linked"],
    ["link", "--align-clocks", "-o", "{out}/linked"],
    ["pack", "-o", "{out}/job.tbstore"],
    ["metrics", "--json"],
    ["diff", "{path}", "--json"],
    ["critical-path", "--json"],
    ["what-if", "--sweep", "--json"],
]


def result(words: list[str], path: Path, out: Path, engine: str) -> tuple[Done, dict[str, bytes]]:
    """How a command ends, and what it has written, by the names of the files."""
    out.mkdir()
    command, *options = [word.format(path=path, out=out) for word in words]
    done = run(command, path, *options, "--engine", engine)
    said = done._replace(stderr=done.stderr.replace(str(out), "OUT"))
    return said, {str(file.relative_to(out)): file.read_bytes() for file in out.rglob("*") if file.is_file()}


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:3]).replace("{out}/", ""))
def test_the_pool_answers_as_this_process_does(words: list[str], demo: Path, tmp_path: Path) -> None:
    here, written_here = result(words, demo, tmp_path / "here", "in-process")
    there, written_there = result(words, demo, tmp_path / "there", "pool")
    assert here.returncode == 0, here.stderr
    assert there == here
    assert sorted(written_there) == sorted(written_here)
    assert [name for name, content in written_here.items() if written_there[name] != content] == []
    assert bool(written_here) == any("{out}" in word for word in words)
