"""`tracebraid.capture` in each of two ranks over gloo: both leave files of the same steps, under their own names."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracebraid
from tests.integration.captured import SCRIPTS, TORCHRUN, files_of, manifest_of
from tests.integration.proof import events_of, load, proven
from tests.integration.running import run_command, run_script

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

FILES = sorted(f"{name}_{rank}.json.gz" for name in ("kineto_trace", "torch_et") for rank in (0, 1))
MANIFESTS = ["manifest_0.json", "manifest_1.json"]


def names(folder: Path, rank: int) -> set[str]:
    return {event["name"] for event in events_of(folder, rank)}


@pytest.fixture(scope="module")
def spawned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """DDP, in processes of `torch.multiprocessing.spawn`, whose environment names no rank."""
    folder = tmp_path_factory.mktemp("spawned")
    done = run_script("ranks.py", folder / "traces", "ddp", folder / "store")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return folder / "traces"


def test_ranks_of_a_spawn_leave_the_same_steps(spawned: Path) -> None:
    manifests = proven(spawned, world=2)
    assert [manifest["windows"][0]["steps"] for manifest in manifests] == [[7, 8, 9]] * 2
    assert files_of(spawned) == sorted([*FILES, *MANIFESTS])


def test_ranks_come_from_the_process_group_that_is_gone_in_the_end(spawned: Path) -> None:
    for rank in (0, 1):
        manifest = manifest_of(spawned, rank)
        assert (manifest["rank"], manifest["world_size"], manifest["backend"]) == (rank, 2, "gloo")
        assert manifest["rank_from"] == "torch.distributed"
        assert [group["group_size"] for group in manifest["process_groups"]] == [2]
        assert (manifest["steps_seen"], manifest["ended_by"]) == (12, "end")


def test_the_execution_trace_names_the_process_groups(spawned: Path) -> None:
    for rank in (0, 1):
        nodes = load(spawned / f"torch_et_{rank}.json.gz")["nodes"]
        assert sum(node["name"] == "## process_group:init ##" for node in nodes) == 1


def test_a_job_of_spawned_ranks_opens_whole(spawned: Path) -> None:
    job = tracebraid.open(spawned)
    assert (job.ranks, job.findings) == ([0, 1], ())
    # An operator of gloo that ends on its own thread after the window is in one trace only.
    assert all(linked.coverage.share > 0.98 for linked in job)


@pytest.mark.slow
def test_ranks_of_torchrun_that_share_their_parameters_leave_their_collectives(tmp_path: Path) -> None:
    done = run_command(*TORCHRUN, SCRIPTS / "ranks.py", tmp_path, "fsdp")
    assert done.returncode == 0, done.stderr
    manifests = proven(tmp_path, world=2)
    assert [manifest["windows"][0]["steps"] for manifest in manifests] == [[7, 8, 9]] * 2
    for rank in (0, 1):
        assert {"FSDP::all_gather", "c10d::_allgather_base_"} <= names(tmp_path, rank)


def codes(folder: Path) -> list[str]:
    return [one.finding.code for one in tracebraid.check(folder).diagnoses]


@pytest.mark.slow
@pytest.mark.parametrize(("recorder", "left"), [("native", set()), ("torch", {"part-left"})])
def test_a_rank_that_is_killed_inside_the_window_costs_its_own_files_only(
    tmp_path: Path, recorder: str, left: set[str]
) -> None:
    folder = tmp_path / "traces"
    done = run_script("ranks.py", folder, "killed-inside", tmp_path / "store", RECORDER=recorder)
    assert done.returncode == 1
    assert "SIGKILL" in done.stderr
    whole = [name for name in files_of(folder) if not name.startswith(".")]
    assert whole == [FILES[0], MANIFESTS[0], FILES[2]]
    manifest = manifest_of(folder, 0)
    # The survivor may have begun the next step before the loss of the other one reached it.
    assert manifest["windows"][0]["steps"] in ([7, 8], [7, 8, 9])
    assert manifest["windows"][0]["complete"] is False
    assert manifest["ended_by"] in ("RuntimeError", "DistBackendError", "DistNetworkError", "SIGTERM")
    found = codes(folder)
    assert {"rank-missing", "window-incomplete"} <= set(found)
    # What the native recorder holds has no name before it is whole.
    assert {"part-left"} & set(found) == left
    assert not tracebraid.check(folder).links


@pytest.mark.slow
def test_a_rank_that_is_killed_after_its_window_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    done = run_script("ranks.py", folder, "killed-after", tmp_path / "store")
    assert done.returncode == 1
    manifests = proven(folder, world=2)
    assert [manifest["windows"][0]["complete"] for manifest in manifests] == [True, True]
    # Written when the window was; nobody could say how the process ended.
    assert (manifests[1]["steps_seen"], manifests[1]["ended_by"]) == (10, None)
