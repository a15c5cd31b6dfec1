"""The worker processes of a command: they end with it, however it ends, and run nothing of the user's folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.captured import QUIET
from tests.integration.hostile_folder import make_hostile_folder, ran
from tests.integration.running import ended, started

_PATIENCE_S = 60
_SOON_S = 4.0
"""How long what is left of a command may take to end: half of it, on a machine that is not busy."""

SLEEPING = """
import sys, time
import tracebraid

def slow(linked):
    open(f"{sys.argv[2]}/{linked.rank}.reached", "w").close()
    time.sleep(600)

for answer in tracebraid.open(sys.argv[1], engine="pool").each(slow):
    print(answer)
"""
UNGUARDED = """
import sys
import own_module
import tracebraid

print("script runs", flush=True)
FACTOR = 3

def counted(linked):
    return own_module.count(linked) * FACTOR

print(list(tracebraid.open(sys.argv[1], engine="pool").each(counted)))
"""
OWN_MODULE = "def count(linked): return linked.timeline.events.height > 0\n"


@pytest.fixture
def sleeping(demo: Path, tmp_path: Path) -> tuple[str, ...]:
    """A command whose two workers are in the middle of a rank until they are ended."""
    script = tmp_path / "sleeping.py"
    script.write_text(SLEEPING.replace("sys.argv[2]", repr(str(tmp_path))))
    return sys.executable, str(script), str(demo)


def workers_of(process: subprocess.Popen[bytes], folder: Path) -> list[int]:
    """The workers of a command, once both of them are at work."""
    until_s = time.monotonic() + _PATIENCE_S
    while len(list(folder.glob("*.reached"))) < 2:
        assert process.poll() is None, process.stderr
        assert time.monotonic() < until_s
        time.sleep(0.02)
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def is_running(process: int) -> bool:
    """Whether a process is there, and no zombie that nobody waits for."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_for_end(processes: list[int]) -> float:
    """Seconds until none of them is left."""
    began_s = time.monotonic()
    while any(map(is_running, processes)):
        assert time.monotonic() < began_s + _PATIENCE_S
        time.sleep(0.02)
    return time.monotonic() - began_s


def test_ctrl_c_ends_all_workers_at_once(sleeping: tuple[str, ...], tmp_path: Path) -> None:
    with started(*sleeping) as process:
        workers = workers_of(process, tmp_path)
        assert len(workers) == 2
        began_s = time.monotonic()
        process.send_signal(signal.SIGINT)
        done = ended(process)
        assert time.monotonic() - began_s + wait_for_end(workers) < _SOON_S
    assert done.returncode == -signal.SIGINT
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.strip().endswith("KeyboardInterrupt")


def test_a_command_that_is_killed_leaves_no_worker(sleeping: tuple[str, ...], tmp_path: Path) -> None:
    with started(*sleeping) as process:
        workers = workers_of(process, tmp_path)
        process.kill()
        process.wait()
        assert wait_for_end(workers) < _SOON_S
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_ctrl_c_ends_the_command_line_without_a_traceback(demo: Path, tmp_path: Path) -> None:
    """The workers are stopped, so that they are at work when it comes."""
    for rank in range(8):
        shutil.copy(demo / "kineto_trace_0.json.gz", tmp_path / f"kineto_trace_{rank}.json.gz")
    with started(sys.executable, "-m", "tracebraid", "summary", tmp_path, "--engine", "pool") as process:
        until_s = time.monotonic() + _PATIENCE_S
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (workers := [int(pid) for pid in children.read_text().split()]):
            assert time.monotonic() < until_s
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        done = ended(process)
        assert wait_for_end(workers) < _SOON_S
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def run_in(folder: Path, script: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )


def test_a_script_needs_no_guard_and_may_use_its_own_modules(demo: Path, tmp_path: Path) -> None:
    """Its modules lie in the working folder, from which workers import nothing: they are sent along."""
    (tmp_path / "own_module.py").write_text(OWN_MODULE)
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = run_in(tmp_path, script, demo)
    assert (done.stdout, done.stderr, done.returncode) == ("script runs\n[3, 3]\n", "", 0)


def test_workers_run_nothing_of_the_folder_and_read_its_traces(demo: Path, tmp_path: Path) -> None:
    hostile = make_hostile_folder(tmp_path / "received")
    shutil.copytree(demo, hostile / "traces")
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text(
        "import tracebraid\n"
        "job = tracebraid.open('traces', engine='pool')\n"
        "print(*job.each(lambda linked: (linked.timeline.path, linked.coverage.host_ops.share)))\n"
    )
    done = run_in(hostile, script)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.count("traces/kineto_trace_") == 2
    assert ", 1.0)" in done.stdout
    assert ran(hostile) == []
