"""Signals, faults, trials, the commands that are struck, and the small files that they read."""

from __future__ import annotations

import enum
import importlib
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import tracebraid
from tests.integration.command import write_pair
from tests.misled import misled_copy

_SHOWN = 1500
"""Characters of each end of a fault's details."""


class Stroke(enum.Enum):
    """A signal, and whom it reaches."""

    INTERRUPT = "Ctrl-C, to the group, as a terminal sends it"
    INTERRUPT_ONE = "SIGINT to the command alone"
    INTERRUPT_TWICE = "Ctrl-C twice"
    TERM = "SIGTERM to the command alone"
    HUP = "SIGHUP to the group, as a terminal sends it"
    QUIT = "SIGQUIT to the group, as a terminal sends it"
    KILL = "SIGKILL to the group"
    KILL_ONE = "SIGKILL to the command alone"

    @property
    def number(self) -> signal.Signals:
        """The signal."""
        first = self.name.split("_")[0]
        return signal.SIGINT if first == "INTERRUPT" else signal.Signals[f"SIG{first}"]

    @property
    def to_group(self) -> bool:
        """Return whether every process of the group gets it."""
        return not self.name.endswith("_ONE") and self is not Stroke.TERM


KILLS = (Stroke.TERM, Stroke.HUP, Stroke.QUIT, Stroke.KILL, Stroke.KILL_ONE)
"""The strokes that are no interrupts."""


class Fault(enum.Enum):
    """Faults."""

    HANGS = "did not end"
    LOST = "the signal had no effect"
    WORDS = "more than one line of ours on standard error"
    HALF = "a file with a final name is not whole"
    NAME = "a file of an undocumented name is left"
    UNTIDY = "an interrupted command left unfinished files"
    SILENT = "check does not point at what is left"
    CHILD = "a process is left"
    BLOCKED = "the same command fails over what is left"
    CODE = "an exit code that says something else"


@dataclass(frozen=True)
class Subject:
    """A command."""

    name: str  # what the record calls it
    room: str  # `capture`, `pack`, `report` or `other`
    # its words; `{out}` is the folder for its output, `{inputs}` that of traces and programs; or
    # none, where there is a `call`
    words: tuple[str, ...] = ()
    strokes: tuple[Stroke, ...] = tuple(Stroke)  # those that make sense
    # whether it runs in a forked process that has imported what it needs, not in a new one
    is_forked: bool = False
    # what runs in a forked process instead of a command, with the folder for its output
    call: Callable[[Path], None] | None = None
    weight: int = 1  # how often it is drawn
    ends_with: tuple[int, ...] = (0,)  # exit codes of a run that nothing strikes
    repairs: bool = False  # whether it finds damaged traces in the folder for its output


@dataclass
class Trial:
    """The end of a trial."""

    number: int  # of the trial; with the seed it says all that was drawn
    subject: str  # its name
    room: str  # its room
    stroke: str  # the name of the stroke
    moment_s: float = 0.0  # when the signal was sent, from the start of the command
    had_ended: bool = False  # the command was over by then
    had_said: str = ""  # what it had written to standard error by then
    ended_s: float = 0.0  # how long after the signal it ended
    returncode: int | None = None  # as `subprocess` gives it
    ran_again: bool = False
    faults: dict[str, str] = field(default_factory=dict)  # name of the fault -> details

    def fault(self, fault: Fault, details: object) -> None:
        """Note a fault."""
        self.faults[fault.name] = _shortened(str(details))


def _shortened(text: str) -> str:
    return text if len(text) < 2 * _SHOWN else f"{text[:_SHOWN]} ... {text[-_SHOWN:]}"


_DEMO = Path(tracebraid.__file__).parent / "demo_traces" / "ddp_cpu_2rank"
_RANKS = 2
_STEPS = 14
_NEEDED = ("tracebraid.api.checking", "polars", "duckdb", "tracebraid.cli.commands")
"""Modules that commands import when they run."""
_PLAIN = """
import sys, time
try:
    time.sleep(0.15)
except KeyboardInterrupt:
    sys.exit(130)
"""
_TRAINS = f"""
import sys
try:
    import torch
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range({_STEPS}):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
except KeyboardInterrupt:
    sys.exit(130)
"""


def lay_out_inputs(folder: Path) -> None:
    """Write traces of two ranks, and the programs to capture."""
    folder.mkdir()
    for rank in range(_RANKS):
        write_pair(folder / "traces", rank)
    misled_copy(_DEMO, folder / "misled")
    (folder / "plain.py").write_text(_PLAIN)
    (folder / "trains.py").write_text(_TRAINS)


def prepare_forks() -> None:
    """Import what forked captures need, once."""
    import torch

    torch.set_num_threads(1)
    # The first optimizer imports torch's compiler.
    torch.optim.SGD(torch.nn.Linear(4, 2).parameters(), lr=0.1)
    for name in _NEEDED:
        importlib.import_module(name)


def _train(out: Path, recorder: str = "auto", repeat: int = 1) -> None:
    """A loop with a capture around it, as a program has it that ends with 130 at Ctrl-C."""
    with suppress(KeyboardInterrupt):
        _captured_loop(out, recorder, repeat)
        return
    os._exit(130)


def _captured_loop(out: Path, recorder: str, repeat: int) -> None:
    import torch

    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tracebraid.capture(out / "traces", recorder=recorder, repeat=repeat, overwrite=True) as cap:
        for _ in range(_STEPS * repeat):
            optimizer.zero_grad()
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()
            cap.step()


_CAPTURE = ("capture", "--overwrite", "-o", "{out}/traces")
_GROUP = tuple(stroke for stroke in Stroke if stroke not in (Stroke.INTERRUPT_ONE, Stroke.KILL_ONE))
"""A launcher leaves Ctrl-C to its command, which has it from the terminal; a kill of it leaves the command running."""

_PLAIN_CAPTURE = (*_CAPTURE, "--", sys.executable, "{inputs}/plain.py")
_PACK = ("pack", "{inputs}/traces", "-o", "{out}/job.tbstore")
_REPORT = ("report", "{inputs}/traces", "-o", "{out}/report.html")
_POOL_REPORT = (
    "report",
    "{inputs}/traces",
    "-o",
    "{out}/report.json",
    "--no-critical-path",
    "--engine",
    "pool",
)

SUBJECTS = (
    # In forked processes, which have imported all: where the moments are dense.
    Subject("capture() in a loop", "capture", call=_train, weight=22),
    Subject(
        "capture() in a loop, PyTorch's recorder", "capture", call=partial(_train, recorder="torch"), weight=8
    ),
    Subject("capture() in a loop, two windows", "capture", call=partial(_train, repeat=2), weight=8),
    Subject("pack", "pack", _PACK, is_forked=True, weight=22),
    Subject("report", "report", _REPORT, is_forked=True, weight=14),
    Subject(
        "export --to parquet",
        "other",
        ("export", "{inputs}/traces", "--to", "parquet", "-o", "{out}/tables"),
        is_forked=True,
        weight=2,
    ),
    Subject(
        "export --to chakra",
        "other",
        ("export", "{inputs}/traces", "--to", "chakra", "-o", "{out}/chakra"),
        is_forked=True,
        weight=2,
    ),
    Subject("link", "other", ("link", "{inputs}/traces", "-o", "{out}/linked"), is_forked=True, weight=2),
    Subject(
        "sql",
        "other",
        ("sql", "{inputs}/traces", "select count(*) from ops", "--csv", "-o", "{out}/answer.csv"),
        is_forked=True,
        weight=2,
    ),
    Subject(
        "check --repair",
        "other",
        ("check", "{out}/traces", "--repair"),
        repairs=True,
        is_forked=True,
        weight=2,
    ),
    # In processes of their own, from the start of Python on.
    Subject("capture, from the start, without torch", "capture", _PLAIN_CAPTURE, strokes=_GROUP, weight=4),
    Subject(
        "capture, from the start",
        "capture",
        (*_CAPTURE, "--", sys.executable, "{inputs}/trains.py"),
        strokes=_GROUP,
        weight=4,
    ),
    Subject("pack, from the start", "pack", _PACK, weight=4),
    Subject("pack --engine pool, from the start", "pack", (*_PACK, "--engine", "pool"), weight=3),
    Subject("report, from the start", "report", _REPORT, weight=2),
    Subject("report --engine pool, from the start", "report", _POOL_REPORT, weight=2),
)
