"""Exported flame graphs: a profile for each rank and tree, with the totals of the tables; a whole file or none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import tracebraid
from tests.planted import Scene, write_ranks
from tracebraid.analysis.flames import flame_frames
from tracebraid.errors import ArgumentError, InputError, OutputError


def scene(rank: int) -> Scene:
    found = Scene(rank=rank, world_size=2)
    host, stream = found.thread(), found.stream()
    for number in (1, 2):
        with host.step(number), host.op("aten::linear; x"):
            host.launch(stream, "gemm", 1_000 * (rank + 1))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ranks(tmp_path_factory.mktemp("flames"), [scene(0), scene(1)])


@pytest.mark.slow
def test_the_profiles_have_the_totals_of_the_tables(folder: Path, tmp_path: Path) -> None:
    job = tracebraid.open(folder)
    target = tmp_path / "out.speedscope.json.gz"
    done = tracebraid.export(job, target, "speedscope")
    found = json.loads(gzip.decompress(target.read_bytes()))
    frames = {rank: flame_frames(job[rank]) for rank in job.ranks}
    assert done.rows == sum(rows.height for rows in frames.values())
    ends = [profile["endValue"] for profile in found["profiles"]]
    expected = [
        rows.filter(tree=tree).get_column("self_ns").sum()
        for rows in frames.values()
        for tree in ("host", "device")
    ]
    assert ends == expected
    assert ends[1::2] == [2_000, 4_000]


@pytest.mark.slow
def test_collapsed_stacks_have_the_totals_of_the_tables(folder: Path, tmp_path: Path) -> None:
    job = tracebraid.open(folder)
    target = tmp_path / "out.collapsed.txt"
    tracebraid.export(job, target, "collapsed")
    lines = target.read_text().splitlines()
    for rank in job.ranks:
        own = sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith(f"rank {rank};"))
        assert own == flame_frames(job[rank]).get_column("self_ns").sum()


def test_only_the_rank_and_step_that_are_asked_for(folder: Path, tmp_path: Path) -> None:
    job = tracebraid.open(folder)
    target = tmp_path / "out.collapsed.txt"
    tracebraid.export(job, target, "collapsed", tracebraid.ExportOptions(rank=1, step="2"))
    lines = target.read_text().splitlines()
    assert {line.partition(";")[0] for line in lines} == {"rank 1"}
    assert (
        sum(int(line.rpartition(" ")[2]) for line in lines if line.split(";")[-1].startswith("gemm")) == 2_000
    )


def test_nothing_is_written_for_a_step_that_is_not_there(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.collapsed.txt"
    with pytest.raises(ArgumentError):
        tracebraid.export(tracebraid.open(folder), target, "collapsed", tracebraid.ExportOptions(step="7"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ["speedscope", "collapsed"])
def test_nothing_is_written_for_a_trace_without_events(to: str, tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    folder = write_ranks(tmp_path / "traces", [Scene(devices=())])
    target = tmp_path / "out"
    with pytest.raises(InputError):
        tracebraid.export(tracebraid.open(folder), target, to)
    assert [path.name for path in tmp_path.iterdir()] == ["traces"]


def test_a_file_that_is_there_stays(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.collapsed.txt"
    target.write_text("mine")
    with pytest.raises(OutputError):
        tracebraid.export(tracebraid.open(folder), target, "collapsed")
    assert target.read_text() == "mine"
