"""What stress is made of: scenarios, the ways in which their programs are captured, trials and what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.stress.run import Run

__all__ = ["CAPTURED", "Capturing", "Outcome", "Problem", "ProblemKind", "Scenario", "Trial", "Way"]


class Way(Enum):
    """How a program is captured."""

    PLAIN = "not captured: what the others are compared with"
    CONTEXT = "by `with tracebraid.capture(...)` in its code"
    COMMAND = "by `tracebraid capture -- COMMAND`"


@dataclass(frozen=True)
class Capturing:
    """A way, and the recorder of the Execution Trace."""

    way: Way
    recorder: str = ""

    def __str__(self) -> str:
        return f"{self.way.name.lower()} {self.recorder}".strip()


CAPTURED = tuple(
    Capturing(way, recorder) for way in (Way.CONTEXT, Way.COMMAND) for recorder in ("native", "torch")
)
"""All in which something is captured."""


@dataclass(frozen=True)
class Scenario:
    """What a program does while it is captured, and what may follow from it.

    Args:
        about: what is tried, in a line.
        work: what the process does. The same seed must give the same exit code and standard output each time.
        ways: in which ways it is captured.
        recorders: with which recorders.
        may_lose: whether a window may be lost without any fault: the disk is full, another profiler comes first.
        may_leave_parts: whether hidden, unfinished files may stay: the process is killed.
        is_random: whether exit code and output depend on the moment at which something happens.
        expected_codes: exit codes that are right where `is_random`.
        why_not: why it cannot run here, or "".
        limit_s: seconds that a process may take.
    """

    about: str
    work: Callable[[Run], None]
    ways: tuple[Way, ...] = (Way.CONTEXT, Way.COMMAND)
    recorders: tuple[str, ...] = ("native", "torch")
    may_lose: bool = False
    may_leave_parts: bool = False
    is_random: bool = False
    expected_codes: tuple[int, ...] = (0,)
    why_not: Callable[[], str] = lambda: ""
    limit_s: float = 300.0


@dataclass(frozen=True)
class Trial:
    """A scenario with a seed, in one way.

    Args:
        scenario: its name.
        seed: of all random numbers of the program.
        capturing: how it is captured.
        is_full: whether the program does all that is meant, 10 million operators for example.
    """

    scenario: str
    seed: int
    capturing: Capturing
    is_full: bool = False

    def __str__(self) -> str:
        return f"{self.scenario}, seed {self.seed}, {self.capturing}"


@dataclass(frozen=True)
class Outcome:
    """How the program of a trial ended.

    Args:
        returncode: negative for a signal; None where it had to be killed after its time.
        stdout: what it printed.
        stderr: what it, and Tracebraid, said.
        wall_s: seconds.
        folder: where `out` is the capture's folder and `tmp` that of temporary files.
        strays: how many processes of it were left.
    """

    returncode: int | None
    stdout: str
    stderr: str
    wall_s: float
    folder: Path
    strays: int


class ProblemKind(Enum):
    """What may not happen."""

    HANG = "it took longer than its limit"
    EXIT = "exit code or signal are not the program's own"
    RESULT = "results are not bitwise those of the program that is not captured"
    ERROR = "a traceback or a message that the program itself does not have"
    FILE = "a file is not whole, or not what the manifest says"
    LEFT = "something is left that no document names"
    LOST = "a window is lost without a cause"
    STRAY = "processes are left"
    GROWTH = "memory grows"


@dataclass(frozen=True)
class Problem:
    """Something that may not happen, and the trial in which it did."""

    kind: ProblemKind
    trial: Trial
    detail: str

    def __str__(self) -> str:
        return f"{self.trial}: {self.kind.value}: {self.detail}"
