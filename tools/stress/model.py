"""Scenarios, the ways in which their programs are captured, trials and problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.stress.run import Run


class Way(Enum):
    """Ways to capture a program."""

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
    """A program that is captured, and the consequences that it may have."""

    about: str  # what is tried, in a line
    # what the process does. The same seed must give the same exit code and standard output each time
    work: Callable[[Run], None]
    ways: tuple[Way, ...] = (Way.CONTEXT, Way.COMMAND)  # in which ways it is captured
    recorders: tuple[str, ...] = ("native", "torch")  # with which recorders
    # whether a window may be lost without any fault: the disk is full, another profiler comes first
    may_lose: bool = False
    may_leave_parts: bool = False  # whether hidden, unfinished files may stay: the process is killed
    is_random: bool = False  # whether exit code and output depend on the moment at which something happens
    expected_codes: tuple[int, ...] = (0,)  # exit codes that are right where `is_random`
    why_not: Callable[[], str] = lambda: ""  # why it cannot run here, or ""
    limit_s: float = 300.0  # seconds that a process may take


SCENARIOS: dict[str, Scenario] = {}
"""Scenarios by name, which `tools.stress.scenarios` fills."""


@dataclass(frozen=True)
class Trial:
    """A scenario with a seed, in one way."""

    scenario: str  # its name
    seed: int  # of all random numbers of the program
    capturing: Capturing  # how it is captured
    is_full: bool = False  # whether the program does all that is meant, 10 million operators for example
    is_strict: bool = False  # whether warnings are errors, as under `python -W error`

    def __str__(self) -> str:
        return f"{self.scenario}, seed {self.seed}, {self.capturing}{', -W error' * self.is_strict}"


@dataclass(frozen=True)
class Outcome:
    """The end of the program of a trial."""

    returncode: int | None  # negative for a signal; None where it had to be killed after its time
    stdout: str  # what it printed
    stderr: str  # what it, and Tracebraid, said
    wall_s: float  # seconds
    folder: Path  # where `out` is the capture's folder and `tmp` that of temporary files
    strays: int  # how many processes of it were left


class ProblemKind(Enum):
    """Kinds of problem."""

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
