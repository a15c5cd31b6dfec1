"""Two nodes of a Ray cluster give the same bytes as this process, also where a worker or a node is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.integration.command import Done, run
from tests.waiting import HANG_S, let_others_run, sleep_until_ended, wait_for
from tracebraid.engine import ray_engine
from tracebraid.errors import EngineError
from tracebraid.model.linked_trace import LinkedTrace

pytestmark = [
    pytest.mark.slow,
    # Ray's own: sockets and processes that it leaves to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DRIVER = """
import os, sys, time
from pathlib import Path
from tracebraid.engine.ray_engine import RayEngine
from tracebraid.model.rank_files import RankFiles

address, folder = sys.argv[1:]

def work(files, progress):
    Path(folder, str(files.rank)).write_text(str(os.getpid()))
    time.sleep(3600)

list(RayEngine(address).outcomes(work, [RankFiles(rank, None, None) for rank in range(4)], None))
"""
"""Works on four ranks, each for minutes; the process of each writes its id into a file."""

KILLED = """
import os, signal, sys
from pathlib import Path
import tracebraid
from tracebraid.api.engines import engine_of

address, traces, folder = sys.argv[1:]
driver = os.getpid()

def killed_once(linked):
    breakdown = tracebraid.analyses.breakdown(linked)
    marker = Path(folder, "killed")
    if linked.rank == 1 and os.getpid() != driver and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return breakdown

for frame in tracebraid.open(traces, engine=engine_of("ray", address)).each(killed_once):
    sys.stdout.write(f"{frame.schema}\\n{frame.write_csv()}")
"""
"""Prints a breakdown; the process that is asked first for rank 1 is killed in the middle."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of a core each; this process is connected to them."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray = pytest.importorskip("ray")
        from ray.cluster_utils import Cluster

        options = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 << 20}
        found = Cluster(initialize_head=True, head_node_args=options)
        try:
            found.add_node(**options)
            ray.init(address=found.address, log_to_driver=False, configure_logging=False)
            yield found
        finally:
            ray.shutdown()
            found.shutdown()


def on_ray(*arguments: object) -> Done:
    return run(*arguments, "--engine", "ray")


def in_process(*arguments: object) -> Done:
    return run(*arguments, "--engine", "in-process")


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    "command",
    [
        ["summary", "--json"],
        ["advise", "--json"],
        ["metrics", "--json", "--per-rank"],
        ["report", "--json", "--no-critical-path"],
    ],
    ids=" ".join,
)
def test_every_answer_is_the_same_to_the_byte(cluster: Any, demo: Path, command: list[str]) -> None:
    name, *options = command
    assert on_ray(name, demo, *options) == in_process(name, demo, *options)


@pytest.mark.full
@pytest.mark.parametrize("name", ["collectives", "stragglers", "kernels_by_op", "idle_causes"])
def test_analyses_are_the_same_to_the_byte(cluster: Any, demo: Path, name: str) -> None:
    assert on_ray("analyze", name, demo, "--csv") == in_process("analyze", name, demo, "--csv")


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.full
def test_pack_writes_the_same_files(cluster: Any, demo: Path, tmp_path: Path) -> None:
    stores = {engine: tmp_path / engine / "job.tbstore" for engine in ("ray", "in-process")}
    for engine, store in stores.items():
        assert tracebraid.pack(demo, store, engine=engine).packed == (0, 1)
    assert content(stores["ray"]) == content(stores["in-process"])
    assert on_ray("summary", stores["ray"], "--json") == in_process("summary", demo, "--json")


@pytest.mark.full
def test_a_rank_that_cannot_be_read_costs_no_other(cluster: Any, demo: Path, tmp_path: Path) -> None:
    job = Path(shutil.copytree(demo, tmp_path / "job"))
    (job / "kineto_trace_1.json.gz").write_bytes(b"")
    done = on_ray("summary", job, "--json")
    assert done == in_process("summary", job, "--json")
    assert done.returncode == 1
    assert [rank["rank"] for rank in json.loads(done.stdout)["ranks"]] == [0]


def rows(frames: Iterable[pl.DataFrame]) -> list[bytes]:
    """Names, types and values of tables."""
    return [f"{frame.schema}\n{frame.write_csv()}".encode() for frame in frames]


@pytest.mark.full
def test_a_worker_that_is_killed_in_the_middle_changes_no_byte(
    cluster: Any, demo: Path, tmp_path: Path
) -> None:
    arguments = [cluster.address, str(demo), str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], capture_output=True, check=False)
    assert (tmp_path / "killed").exists()
    frames = [tracebraid.analyses.breakdown(linked) for linked in tracebraid.open(demo)]
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"".join(rows(frames))


def test_the_nodes_must_have_the_same_version(
    cluster: Any, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "__version__", "0.0.1")
    with pytest.raises(EngineError, match=r"node .* has Tracebraid .* and this process 0\.0\.1"):
        list(tracebraid.open(demo, engine="ray").each(tracebraid.analyses.breakdown))


def raising(linked: LinkedTrace) -> None:
    raise KeyError("a name of a user's column")


def test_an_error_of_a_question_arrives_as_itself(cluster: Any, demo: Path) -> None:
    with pytest.raises(KeyError, match="a user's column") as raised:
        list(tracebraid.open(demo, engine="ray").each(raising))
    assert type(raised.value) is KeyError
    assert "raising" in str(raised.value.__cause__)


def fails_beside(linked: LinkedTrace, folder: str) -> None:
    """On rank 0 an error, as soon as rank 1 is worked on; that goes on until it is cancelled."""
    begun = Path(folder, "begun")
    if linked.rank == 1:
        begun.write_text(str(os.getpid()))
        while True:
            let_others_run()
    wait_for(begun.exists)
    raise KeyError("rank 0")


@pytest.mark.full
def test_a_worker_whose_task_is_cancelled_takes_no_other(cluster: Any, demo: Path, tmp_path: Path) -> None:
    """It may have been cancelled in an import, which leaves half a module behind."""
    with pytest.raises(KeyError, match="rank 0"):
        list(tracebraid.open(demo, engine="ray").each(partial(fails_beside, folder=str(tmp_path))))
    worker = Path("/proc", (tmp_path / "begun").read_text())
    wait_for(lambda: not worker.exists())


@pytest.mark.full
def test_ctrl_c_cancels_the_tasks(cluster: Any, tmp_path: Path) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, cluster.address, str(tmp_path)], stderr=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        workers = [int(path.read_text()) for path in tmp_path.iterdir()]
        driver.send_signal(signal.SIGINT)
        _, errors = driver.communicate(timeout=HANG_S)
    finally:
        driver.kill()
    assert "KeyboardInterrupt" in errors
    assert driver.returncode != 0
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


@pytest.mark.full
def test_a_cluster_of_its_own_ends_with_the_command(demo: Path) -> None:
    command = [sys.executable, "-m", "tracebraid", "summary", str(demo), "--json"]
    before = nodes()
    done = subprocess.run(
        [*command, "--engine", "ray", "--address", "local"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == in_process("summary", demo, "--json").stdout
    wait_for(lambda: nodes() <= before)


def nodes() -> set[str]:
    """The processes of Ray's nodes on this machine."""
    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return {
        line.split()[0] for line in listed.splitlines() if "raylet/raylet" in line or "gcs_server" in line
    }


def waits_on(linked: LinkedTrace, folder: str, doomed: str) -> Any:
    """A breakdown; on the doomed node it says that it runs there, and waits."""
    import ray

    if ray.get_runtime_context().get_node_id() == doomed:
        (Path(folder) / "running").touch()
        sleep_until_ended()
    return tracebraid.analyses.breakdown(linked)


@pytest.mark.full
def test_a_node_that_is_lost_in_the_middle_changes_no_byte(cluster: Any, demo: Path, tmp_path: Path) -> None:
    """The last of this module: the cluster has one node after it."""
    doomed = next(iter(cluster.worker_nodes))

    def remove() -> None:
        wait_for(lambda: (tmp_path / "running").exists())
        cluster.remove_node(doomed, allow_graceful=False)

    thread = threading.Thread(target=remove)
    thread.start()
    job = tracebraid.open(demo, engine="ray")
    found = list(job.each(partial(waits_on, folder=str(tmp_path), doomed=doomed.node_id)))
    thread.join()
    assert (tmp_path / "running").exists()
    assert rows(found) == rows(tracebraid.analyses.breakdown(linked) for linked in tracebraid.open(demo))
