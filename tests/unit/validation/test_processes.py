"""Files of several runs in one folder, and Execution Traces that changed ranks, are found without manifests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import Json, et_text, kineto_text, write
from tests.unit.validation.made import EVENTS, NODES, codes
from tracebraid.api import check
from tracebraid.model.check import Severity

BASE_S = 1_700_000_000


def lay(folder: Path, rank: int, kineto_pid: int, et_pid: int, late_s: int = 0, **info: object) -> None:
    folder.mkdir(exist_ok=True)
    events = [{**one, "pid": kineto_pid, "tid": kineto_pid} for one in EVENTS]
    header: Json = {
        "baseTimeNanoseconds": (BASE_S + late_s) * 10**9,
        "distributedInfo": {"rank": rank, "world_size": 2, **info},
    }
    write(folder / f"kineto_trace_{rank}.json", kineto_text(events, header))
    time = f"2023-11-14 22:{13 + (20 + late_s) // 60:02}:{(20 + late_s) % 60:02}"
    text = et_text(list(NODES)).replace('"pid": 1', f'"pid": {et_pid}')
    write(folder / f"torch_et_{rank}.json", text.replace("2023-11-14 22:13:20", time))


def test_ranks_of_one_run_have_nothing_to_say(tmp_path: Path) -> None:
    lay(tmp_path, 0, 100, 100)
    lay(tmp_path, 1, 101, 101, 1)
    assert "clocks-differ" in codes(check(tmp_path))
    assert not [code for code in codes(check(tmp_path)) if code.startswith(("another", "runs"))]


def test_containers_that_number_their_processes_alike_have_nothing_to_say(tmp_path: Path) -> None:
    lay(tmp_path, 0, 7, 7)
    lay(tmp_path, 1, 7, 7)
    assert codes(check(tmp_path)) == []


def test_execution_traces_that_changed_ranks_are_found(tmp_path: Path) -> None:
    lay(tmp_path, 0, 100, 101)
    lay(tmp_path, 1, 101, 100)
    found = check(tmp_path)
    assert [one.finding.code for one in found.diagnoses if one.severity is Severity.ERROR] == [
        "another-rank"
    ] * 2
    assert not found.links


def test_one_execution_trace_of_another_rank_is_found_in_a_world_that_no_file_tells(tmp_path: Path) -> None:
    """The Kineto trace of its process is there, under another rank."""
    lay(tmp_path, 0, 100, 100, world_size=None)
    lay(tmp_path, 1, 101, 100, world_size=None)
    assert [code for code in codes(check(tmp_path)) if code.startswith("another")] == ["another-rank"]


def test_ranks_of_two_runs_are_found(tmp_path: Path) -> None:
    lay(tmp_path, 0, 100, 100)
    lay(tmp_path, 1, 301, 301, 300)
    found = check(tmp_path)
    assert "runs-mixed" in codes(found)
    assert not found.links


def test_ranks_of_two_runs_whose_groups_differ_are_found(tmp_path: Path) -> None:
    for rank, ranks in ((0, [0, 1]), (1, [0, 1, 2])):
        group = {"pg_name": "5", "pg_desc": "tp", "ranks": ranks, "pg_size": len(ranks)}
        lay(tmp_path, rank, 100 + rank, 100 + rank, pg_config=[group])
    assert "runs-mixed" in codes(check(tmp_path))


@pytest.mark.parametrize(("pid", "expected"), [(100, []), (999, ["another-run", "another-run"])])
def test_a_manifest_of_another_process_is_found(tmp_path: Path, pid: int, expected: list[str]) -> None:
    lay(tmp_path, 0, 100, 100, world_size=1)
    files = [{"path": one.name, "size_bytes": one.stat().st_size} for one in sorted(tmp_path.iterdir())]
    window = {"steps": [1], "complete": True, "failure": None, "files": files}
    told = {"steps_seen": 2, "ended_by": "exit", "pid": pid, "rank": 0, "windows": [window]}
    (tmp_path / "manifest_0.json").write_text(json.dumps(told))
    assert codes(check(tmp_path)) == expected
