"""Strikes a command at a random moment, and judges how it ended."""

from __future__ import annotations

import gc
import importlib
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.interrupts.model import Fault, Stroke, Subject, Trial
from tools.processes import living, start_session
from tools.whole_files import half_written, is_pointed_at, odd_names, unfinished
from tracebraid.cli.main import run

_TOKEN = "INTERRUPTS_TRIAL"
_POLL_S = 0.002
_PACKAGE = "src/tracebraid"
_INTERRUPTED, _RAISED = 130, 70


@dataclass
class Running:
    """A process that was started; its session has its number."""

    pid: int
    token: str
    began_s: float
    returncode: int | None = None

    def wait(self, at_most_s: float) -> bool:
        """Wait for the end, and return whether it came within a time."""
        until_s = time.monotonic() + at_most_s
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > until_s:
                return False
            else:
                time.sleep(_POLL_S)
        return True

    def send(self, number: signal.Signals, to_group: bool) -> None:
        """Send a signal; it must not have been waited for."""
        if to_group:
            os.killpg(self.pid, number)
        else:
            os.kill(self.pid, number)


def start(words: tuple[str, ...], folder: Path, token: str) -> Running:
    """`tracebraid WORDS`, which keeps its words and its temporary files in a folder."""
    environment = _environment(folder, token)
    began_s = time.monotonic()
    process = start_session([sys.executable, "-m", "tracebraid", *words], folder, environment, folder)
    running = Running(process.pid, token, began_s)
    # It is waited for by its number.
    process.returncode = 0
    return running


def fork(work: Callable[[], None], folder: Path, token: str) -> Running:
    """A forked process that calls a function."""
    for name in ("stdout", "stderr"):
        (folder / name).touch()
    environment = _environment(folder, token)
    began_s = time.monotonic()
    # Otherwise Ctrl-C could lead the child up the stack of this process.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    pid = os.fork()
    if pid == 0:
        status = _INTERRUPTED
        try:
            status = _in_child(work, folder, environment)
        finally:
            os._exit(status)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    # A signal can only be sent to a group that is there.
    _until_session(pid)
    return Running(pid, token, began_s)


def _in_child(work: Callable[[], None], folder: Path, environment: dict[str, str]) -> int:
    os.setsid()
    os.chdir(folder)
    os.environ.update(environment)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(folder / name, os.O_WRONLY), descriptor)
    sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", closefd=False) for descriptor in (1, 2))
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        work()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        # It may come before the work has begun.
        said = traceback.format_exc()
        sys.stderr.write(said if _PACKAGE in said else "")
        return _INTERRUPTED
    except BaseException:  # noqa: BLE001 - As at the end of any Python.
        traceback.print_exc()
        return _RAISED
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # As the end of Python does, which closes generators that an exception holds.
        gc.collect()
    return 0


def alive_of(running: Running) -> list[int]:
    """The processes of its session, and those that have its environment."""
    found = []
    for pid, session in living():
        with suppress(OSError):
            is_marked = f"{_TOKEN}={running.token}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes()
            if pid != os.getpid() and (session == running.pid or is_marked):
                found.append(pid)
    return found


def _environment(folder: Path, token: str) -> dict[str, str]:
    (folder / "tmp").mkdir(exist_ok=True)
    return {
        **os.environ,
        _TOKEN: token,
        "TMPDIR": str(folder / "tmp"),
        "OMP_NUM_THREADS": "1",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "PYTHONWARNINGS": "ignore",
    }


def _until_session(pid: int) -> None:
    while True:
        try:
            if os.getsid(pid) == pid:
                return
        except ProcessLookupError:
            return
        time.sleep(0)


_MODULES = "INTERRUPTS_MODULES"
_ENDS_WITHIN_S = 20.0
"""Seconds after a signal: a few, on a machine that has other work."""
_LOST_AFTER_S = 1.0
"""A command that ends well so long after a signal did not hear it, where it had longer to go."""
_CHILDREN_END_WITHIN_S = 5.0
_HANGS_AFTER_S = 300.0
"""A run that nothing strikes."""
_SECOND_WITHIN_S = 0.3
_OURS = ("tracebraid", "error:", "warning:", "interrupted", "  File ")
_REPORTS = "tracebraid: "
_PLAIN_START = ("Fatal Python error", "init_import_site", "<frozen")
"""Words of Python about Ctrl-C before it runs anything of ours."""
_AGAIN_SHARE = 0.1
"""So many commands are run a second time over what is left."""


class Place:
    """The folder of one trial after another: the inputs beside it stay."""

    def __init__(self, root: Path) -> None:
        self.inputs, self.folder = root / "inputs", root / "trial"
        self.out = self.folder / "out"

    def lay_out(self, subject: Subject) -> None:
        """A new folder, with what the subject finds in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.out.mkdir(parents=True)
        if subject.repairs:
            shutil.copytree(self.inputs / "misled", self.out / "traces")

    def start(self, subject: Subject, token: str) -> Running:
        """Start the subject."""
        if subject.call is not None:
            return fork(partial(subject.call, self.out), self.folder, token)
        words = tuple(word.format(out=self.out, inputs=self.inputs) for word in subject.words)
        if subject.is_forked:
            return fork(partial(_run_command, words), self.folder, token)
        return start(words, self.folder, token)

    def words(self, stream: str) -> str:
        """Return the content of `stdout` or `stderr`."""
        return (self.folder / stream).read_text(errors="replace")


def _run_command(words: tuple[str, ...]) -> None:
    sys.argv = ["tracebraid", *words]
    try:
        run()
    finally:
        if _MODULES in os.environ:
            names = (name for name in list(sys.modules) if name.startswith("tracebraid."))
            Path(os.environ[_MODULES]).write_text("\n".join(names))


def import_needed(place: Place, subject: Subject) -> None:
    """Import what a forked subject imports, as one run of it says: the others begin with it."""
    place.lay_out(subject)
    names = place.folder / "modules"
    os.environ[_MODULES] = str(names)
    place.start(subject, "modules").wait(_HANGS_AFTER_S)
    del os.environ[_MODULES]
    for name in names.read_text().split() if names.exists() else ():
        importlib.import_module(name)


def measured_s(place: Place, subject: Subject) -> float:
    """Measure the seconds of a subject without a signal."""
    place.lay_out(subject)
    running = place.start(subject, "measured")
    assert running.wait(_HANGS_AFTER_S), f"{subject.name} does not end"
    took_s = time.monotonic() - running.began_s
    assert running.returncode in subject.ends_with, (
        f"{subject.name} ends with {running.returncode}:\n{place.words('stderr')}"
    )
    assert not half_written(place.out), half_written(place.out)
    assert not unfinished(place.out), unfinished(place.out)
    return took_s


def run_trial(place: Place, subject: Subject, number: int, rng: random.Random, takes_s: float) -> Trial:
    """Strike a subject at a random moment of the time that it takes."""
    stroke = rng.choice(subject.strokes)
    trial = Trial(number, subject.name, subject.room, stroke.name, rng.uniform(0, takes_s))
    place.lay_out(subject)
    running = place.start(subject, str(number))
    if running.wait(max(trial.moment_s - (time.monotonic() - running.began_s), 0.0)):
        trial.had_ended = True
    else:
        trial.had_said = place.words("stderr")
        _strike(running, stroke, rng, trial)
    trial.returncode = running.returncode
    _judge_processes(running, trial)
    if not trial.had_ended:
        _judge_end(place, stroke, trial, takes_s, subject)
    _judge_files(place, stroke, trial)
    if rng.random() < _AGAIN_SHARE:
        _run_again(place, subject, trial)
    return trial


def _strike(running: Running, stroke: Stroke, rng: random.Random, trial: Trial) -> None:
    struck_s = time.monotonic()
    running.send(stroke.number, stroke.to_group)
    if stroke is Stroke.INTERRUPT_TWICE and not running.wait(rng.uniform(0, _SECOND_WITHIN_S)):
        running.send(stroke.number, stroke.to_group)
    if not running.wait(_ENDS_WITHIN_S):
        trial.fault(Fault.HANGS, f"{_ENDS_WITHIN_S} s after {stroke.value}")
        running.send(Stroke.KILL.number, to_group=True)
        running.wait(_ENDS_WITHIN_S)
    trial.ended_s = time.monotonic() - struck_s


def _judge_processes(running: Running, trial: Trial) -> None:
    if trial.stroke == Stroke.KILL_ONE.name and trial.room == "capture":
        return
    until_s = time.monotonic() + _CHILDREN_END_WITHIN_S
    while alive := alive_of(running):
        if time.monotonic() > until_s:
            trial.fault(Fault.CHILD, [_command_of(pid) for pid in alive])
            return
        time.sleep(0.02)


def _judge_end(place: Place, stroke: Stroke, trial: Trial, takes_s: float, subject: Subject) -> None:
    code, words = trial.returncode, place.words("stderr")
    ours = [line for line in words.splitlines() if line.startswith(_OURS)]
    if trial.room == "capture":
        # It says what it recorded, also where the signal came behind the window.
        ours = [line for line in ours if not line.startswith(_REPORTS)]
    is_plain_start = _is_plain_start(words)
    if not is_plain_start and (len(ours) > 1 or "Traceback" in words):
        trial.fault(Fault.WORDS, words)
    ends = (-stroke.number, *subject.ends_with)
    if stroke.number == Stroke.INTERRUPT.number:
        ends = (*ends, _INTERRUPTED, *([1] if is_plain_start else []))
    elif trial.room == "capture":
        ends = (*ends, 128 + stroke.number)
    if code not in ends:
        trial.fault(Fault.CODE, f"{code}\n{words}")
    if (
        code in subject.ends_with
        and trial.ended_s > _LOST_AFTER_S
        and takes_s - trial.moment_s > _LOST_AFTER_S / 2
        # With its last word said, all is done: Python is taking itself apart.
        and not (words and trial.had_said == words)
    ):
        trial.fault(Fault.LOST, f"ended {trial.ended_s:.2f} s after it, of {takes_s:.2f} s\n{words}")


def _is_plain_start(words: str) -> bool:
    """Return whether it came before our first function: in Python's own start, or the import of the command."""
    own = [line for line in words.splitlines() if "src/tracebraid" in line]
    return any(word in words for word in _PLAIN_START) and all(line.endswith("in <module>") for line in own)


def _judge_files(place: Place, stroke: Stroke, trial: Trial) -> None:
    for fault, found in (
        (Fault.HALF, half_written(place.out)),
        (Fault.NAME, odd_names(place.out)),
        (Fault.SILENT, [] if is_pointed_at(place.out / "traces") else unfinished(place.out)),
    ):
        if found:
            trial.fault(fault, found)
    if stroke in (Stroke.INTERRUPT, Stroke.INTERRUPT_ONE) and trial.returncode == _INTERRUPTED:
        left = [*unfinished(place.out), *(path.name for path in (place.folder / "tmp").iterdir())]
        if left:
            trial.fault(Fault.UNTIDY, left)


def _run_again(place: Place, subject: Subject, trial: Trial) -> None:
    trial.ran_again = True
    running = place.start(subject, "again")
    if not running.wait(_HANGS_AFTER_S):
        trial.fault(Fault.BLOCKED, "it does not end")
        running.send(Stroke.KILL.number, to_group=True)
        running.wait(_ENDS_WITHIN_S)
    elif running.returncode not in subject.ends_with and "is there already" not in place.words("stderr"):
        trial.fault(Fault.BLOCKED, f"{running.returncode}: {place.words('stderr')}")


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return str(pid)
