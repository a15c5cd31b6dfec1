"""The contract: what is run, how it is struck, and what a trial found."""

from __future__ import annotations

import enum
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["KILLS", "Fault", "Stroke", "Subject", "Trial"]


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
        """Whether every process of the group gets it."""
        return not self.name.endswith("_ONE") and self is not Stroke.TERM


KILLS = (Stroke.TERM, Stroke.HUP, Stroke.QUIT, Stroke.KILL, Stroke.KILL_ONE)
"""The strokes that are no interrupts."""


class Fault(enum.Enum):
    """What must not be."""

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
    """A command.

    Args:
        name: what the record calls it.
        room: `capture`, `pack`, `report` or `other`.
        words: its words; `{out}` is the folder for its output, `{inputs}` that of traces and
            programs; or none, where there is a `call`.
        strokes: those that make sense.
        is_forked: whether it runs in a forked process that has imported what it needs, not in a new one.
        call: what runs in a forked process instead of a command, with the folder for its output.
        weight: how often it is drawn.
        ends_with: exit codes of a run that nothing strikes.
        repairs: whether it finds damaged traces in the folder for its output.
    """

    name: str
    room: str
    words: tuple[str, ...] = ()
    strokes: tuple[Stroke, ...] = tuple(Stroke)
    is_forked: bool = False
    call: Callable[[Path], None] | None = None
    weight: int = 1
    ends_with: tuple[int, ...] = (0,)
    repairs: bool = False


@dataclass
class Trial:
    """How one trial ended.

    Args:
        number: of the trial; with the seed it says all that was drawn.
        subject: its name.
        room: its room.
        stroke: the name of the stroke.
        moment_s: when the signal was sent, from the start of the command.
        had_ended: the command was over by then.
        had_said: what it had written to standard error by then.
        ended_s: how long after the signal it ended.
        returncode: as `subprocess` gives it.
        faults: name of the fault -> details.
    """

    number: int
    subject: str
    room: str
    stroke: str
    moment_s: float = 0.0
    had_ended: bool = False
    had_said: str = ""
    ended_s: float = 0.0
    returncode: int | None = None
    ran_again: bool = False
    faults: dict[str, str] = field(default_factory=dict)

    def fault(self, fault: Fault, details: object) -> None:
        """Note a fault."""
        self.faults[fault.name] = _shortened(str(details))


def _shortened(text: str) -> str:
    return text if len(text) < 2 * _SHOWN else f"{text[:_SHOWN]} ... {text[-_SHOWN:]}"
