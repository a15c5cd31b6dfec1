"""Ctrl-C ends a command with one word and the code that shells expect, wherever it is."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.integration.captured import QUIET
from tests.integration.hostile_folder import make_hostile_folder, ran
from tests.integration.running import ended, started
from tests.waiting import HANG_S, wait_for
from tools.whole_files import half_written, is_pointed_at, odd_names, unfinished

START = "from tracebraid.cli.main import run; run()"


HANDLED = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
LOADS = f"""{HANDLED}
class Strikes:
    def find_spec(self, name, path, target):
        if name == "polars": signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Strikes())
{START}
"""


@pytest.mark.full
def test_a_command_that_is_interrupted_while_it_loads_says_so_in_a_word(tmp_path: Path) -> None:
    done = run_code(LOADS, "info", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.full
def test_a_command_that_is_interrupted_while_it_reads_says_so_in_a_word() -> None:
    """It waits for more of standard input, which does not end."""
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", f"{HANDLED}; {START}", "info", "-"],
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.write(writing, b"{")
        wait_for(lambda: not any(fcntl.ioctl(reading, termios.FIONREAD, bytes(4))))
        process.send_signal(signal.SIGINT)
        said, error = process.communicate(timeout=HANG_S)
    os.close(reading)
    os.close(writing)
    assert (process.returncode, said, error) == (130, "", "interrupted\n")


def run_code(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", code, *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=HANG_S, check=False)


DROPS = """
import sys, time, weakref
from tracebraid.cli import main
def work():
    class Thing: pass
    def drop(reference): signal.raise_signal(signal.SIGINT)
    import signal
    thing = Thing()
    reference = weakref.ref(thing, drop)
    del thing
    time.sleep(20)
main._run = work
main.run()
"""


@pytest.mark.full
def test_ctrl_c_that_python_drops_is_raised_again() -> None:
    """In the callback of a weak reference, as every import has one for its lock."""
    done = run_code(DROPS)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


HALF_MADE = """
from tracebraid.cli import main
class HalfMade:
    def __del__(self): del self.never_set
kept = HalfMade()
def work(): raise KeyboardInterrupt
main._run = work
main.run()
"""


@pytest.mark.full
def test_what_was_half_made_at_ctrl_c_does_not_complain() -> None:
    done = run_code(HALF_MADE)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


LAUNCH = """
import os, signal, subprocess, sys
from tracebraid.cli import main
from tracebraid.recorders.launcher import launch
start = subprocess.Popen
def strike(number, whole_group):
    (os.killpg if whole_group else os.kill)(os.getpid(), number)
def started(words, **options):
    is_command = words[0] != "cat"
    if is_command and {when!r} == "before":
        strike({number}, {whole_group})
    process = start(words, **options)
    if is_command and {when!r} == "after":
        strike({number}, {whole_group})
    return process
subprocess.Popen = started
def find(program):
    if {when!r} == "find":
        strike({number}, {whole_group})
launch._find = find
sys.argv = ["tracebraid", "capture", "-o", {folder!r}, "--no-check", "--", "sh", "-c", "touch started; exec sleep 20"]
main.run()
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "when", "whole_group"),
    [
        *(("SIGINT", when, whole) for when in ("find", "before", "after") for whole in (False, True)),
        ("SIGTERM", "before", False),
        ("SIGHUP", "after", False),
    ],
)
def test_a_signal_that_comes_as_the_command_starts_ends_both(
    tmp_path: Path, name: str, when: str, whole_group: bool
) -> None:
    """It would be dropped, or end the launcher alone, and leave the command running."""
    number = int(getattr(signal, name))
    code = LAUNCH.format(when=when, number=number, whole_group=whole_group, folder=str(tmp_path / "out"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
        cwd=tmp_path,
        start_new_session=True,
    )
    nothing_started = name == "SIGINT" and when == "find"
    assert done.returncode == (130 if nothing_started else -number), done.stderr
    if when == "find":
        assert not (tmp_path / "started").exists()


COUNTS = """
import os, signal, sys, time
count = 0
def struck(number, frame):
    global count
    count += 1
signal.signal(signal.SIGINT, struck)
print("ready", flush=True)
while not count:
    time.sleep(0.01)
time.sleep(1.5)
print(count)
sys.exit(7)
"""


@pytest.mark.full
@pytest.mark.parametrize("whole_group", [False, True])
def test_ctrl_c_reaches_a_running_command_once(tmp_path: Path, whole_group: bool) -> None:
    words = ["-m", "tracebraid", "capture", "-o", str(tmp_path), "--", sys.executable, "-c", COUNTS]
    with subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=HANG_S)
    assert (process.returncode, said) == (7, "1\n")


@pytest.mark.full
@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_a_signal_that_is_ignored_is_ignored_by_the_command_too(tmp_path: Path, name: str) -> None:
    """As `nohup` and shells want it: a handler of the launcher would give the command the default."""
    says = f"import signal; print(signal.getsignal(signal.{name}) is signal.SIG_IGN)"
    capture = f"{sys.executable} -m tracebraid capture -o {tmp_path}"
    words = f"trap '' {name[3:]}; exec {capture} -- {sys.executable} -c '{says}'"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n")


STRUCK = """
import signal, time
import numpy, polars
from numpy.lib import NumpyVersion
from tracebraid.ctrl_c import raised_outside_polars
plain = NumpyVersion.__init__
def struck(self, words):
    print("struck", flush=True)
    signal.raise_signal(signal.SIGINT)
    plain(self, words)
NumpyVersion.__init__ = struck
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    with raised_outside_polars():
        print(polars.Series(numpy.zeros(1)).to_list())
        time.sleep(10)
        print("raised too late")
except KeyboardInterrupt:
    print("interrupted")
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


@pytest.mark.full
def test_ctrl_c_in_code_that_polars_runs_is_raised_when_polars_has_returned() -> None:
    """It would panic, and write a backtrace."""
    done = run_code(STRUCK)
    assert (done.stdout.split(), done.stderr) == (["struck", "[0.0]", "interrupted"], "")


@pytest.mark.full
def test_a_worker_whose_parent_was_killed_ends_without_a_word() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    code = f"from tracebraid.engine.pool import serve; serve({str(writing)!r}, '')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        pass_fds=[writing],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


# --- The worker processes of a command: they end with it, however it ends, and run nothing of t ------


SLEEPING = """
import sys, time
import tracebraid

def slow(linked):
    open(f"{sys.argv[2]}/{linked.rank}.reached", "w").close()
    time.sleep(3600)

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
    """The workers of a command, once each of them is at work: one for each rank, where there are as many cores."""
    cores = len(os.sched_getaffinity(0))
    wait_for(lambda: len(list(folder.glob("*.reached"))) == min(2, cores) or process.poll() is not None)
    assert process.poll() is None
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def is_running(process: int) -> bool:
    """Whether a process is there, and no zombie that nobody waits for."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_for_end(processes: list[int]) -> None:
    """Wait until none of them is left, long before one that nobody ends would be."""
    wait_for(lambda: not any(map(is_running, processes)))


@pytest.mark.full
def test_ctrl_c_ends_all_workers_at_once(sleeping: tuple[str, ...], tmp_path: Path) -> None:
    with started(*sleeping) as process:
        workers = workers_of(process, tmp_path)
        assert len(workers) == min(2, len(os.sched_getaffinity(0)))
        process.send_signal(signal.SIGINT)
        done = ended(process)
        wait_for_end(workers)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.count("Traceback") == 1
    assert done.stderr.strip().endswith("KeyboardInterrupt")


def test_a_command_that_is_killed_leaves_no_worker(sleeping: tuple[str, ...], tmp_path: Path) -> None:
    with started(*sleeping) as process:
        workers = workers_of(process, tmp_path)
        process.kill()
        process.wait()
        wait_for_end(workers)
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_ctrl_c_ends_the_command_line_without_a_traceback(demo: Path, tmp_path: Path) -> None:
    """The workers are stopped, so that they are at work when it comes."""
    for rank in range(8):
        shutil.copy(demo / "kineto_trace_0.json.gz", tmp_path / f"kineto_trace_{rank}.json.gz")
    with started(sys.executable, "-m", "tracebraid", "summary", tmp_path, "--engine", "pool") as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_for(children.read_text)
        workers = [int(pid) for pid in children.read_text().split()]
        process.send_signal(signal.SIGINT)
        done = ended(process)
        wait_for_end(workers)
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def run_in(folder: Path, script: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


@pytest.mark.full
def test_a_script_needs_no_guard_and_may_use_its_own_modules(demo: Path, tmp_path: Path) -> None:
    """Its modules lie in the working folder, from which workers import nothing: they are sent along."""
    (tmp_path / "own_module.py").write_text(OWN_MODULE)
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = run_in(tmp_path, script, demo)
    assert (done.stdout, done.stderr, done.returncode) == ("script runs\n[3, 3]\n", "", 0)


@pytest.mark.full
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


# --- The trials of `make interrupts` judge truly, and a few of them find nothing ---------------------


_ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_commands_that_are_struck_leave_nothing_half() -> None:
    words = ["--interrupts", "2", "--kills", "2", "--jobs", "1", "--only", "from the start, without torch"]
    done = subprocess.run(
        [sys.executable, "-m", "tools.interrupts", *words],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.startswith("4 trials, ")


@pytest.mark.full
@pytest.mark.parametrize("name", ["a.html", "a.csv", "a.json", "a.json.gz", "a.parquet", "a.unknown"])
def test_what_is_cut_is_a_fault(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"{")
    assert [entry.split(":")[0] for entry in half_written(tmp_path)] == [name]


def test_names_are_told_apart(tmp_path: Path) -> None:
    parts = (".a.gz.1-ab.whole.part", ".b.1-ab.recording.json", ".b.1-ab.recording.json.tmp")
    for name in (*parts, ".odd", ".lock"):
        (tmp_path / name).touch()
    assert (unfinished(tmp_path), odd_names(tmp_path)) == (list(parts), [".odd"])
    assert is_pointed_at(tmp_path)
