"""One trial: a command is started, struck at a random moment, and judged."""

from __future__ import annotations

import importlib
import os
import random
import shutil
import sys
import time
from functools import partial
from pathlib import Path

from tools.interrupts.left import half_written, is_pointed_at, odd_names, unfinished
from tools.interrupts.model import Fault, Stroke, Subject, Trial
from tools.interrupts.processes import Running, alive_of, fork, start
from tracebraid.cli.main import run

__all__ = ["Place", "import_needed", "measured_s", "run_trial"]

_MODULES = "INTERRUPTS_MODULES"
_ENDS_WITHIN_S = 20.0
"""Of a signal: a few seconds, on a machine that has other work."""
_LOST_AFTER_S = 1.0
"""A command that ends well so long after a signal did not hear it, where it had longer to go."""
_CHILDREN_END_WITHIN_S = 5.0
_HANGS_AFTER_S = 300.0
"""A run that nothing strikes."""
_SECOND_WITHIN_S = 0.3
_OURS = ("tracebraid", "error:", "warning:", "interrupted", "  File ")
_REPORTS = "tracebraid: "
_PLAIN_START = ("Fatal Python error", "init_import_site", "<frozen")
"""What Python says of Ctrl-C before it runs anything of ours."""
_INTERRUPTED = 130
_AGAIN_SHARE = 0.1
"""So many commands are run a second time over what is left."""


class Place:
    """The folder of one trial after another: the inputs beside it stay.

    Args:
        root: a folder of its own.
    """

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
        """What it wrote to `stdout` or `stderr`."""
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
    """How long a subject takes that nothing strikes.

    Raises:
        AssertionError: it fails by itself.
    """
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
    """Whether it came before the first function of ours ran: in Python's own start, or the import of the command."""
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
