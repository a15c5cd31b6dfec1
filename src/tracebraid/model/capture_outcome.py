"""Outcome of a captured command: how far its processes came, and why nothing was recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class NothingCaptured(Enum):
    """Reason why a command left no traces."""

    NO_PYTHON = "no-python"
    """No Python process read the injected file, and the command does not show why."""
    PYTHON_OPTIONS = "python-options"
    """Python is started with -I, -E or -S, which keep the injected file out."""
    PATH_REPLACED = "path-replaced"
    """The command sets PYTHONPATH, or clears the environment."""
    NOT_INSTALLED = "not-installed"
    """A Python process cannot import this tracebraid."""
    NO_TORCH = "no-torch"
    """Python ran, and imported no torch."""
    NO_STEPS = "no-steps"
    """torch ran, but no module was called and no optimizer stepped."""
    OPTIMIZER_UNSEEN = "optimizer-unseen"
    """An optimizer was made, and no step of it was seen."""
    OPTIMIZER_COMPILED = "optimizer-compiled"
    """The same, and torch.compile was active, inside which no step is seen."""
    EXCEPTION = "exception"
    """A process ended by an exception before the first window."""
    TOO_FEW_STEPS = "too-few-steps"
    """The loop was over before the first window."""
    OTHER_THREADS = "other-threads"
    """The steps were taken on several threads, of which only one is recorded."""
    SHORT_LOOPS = "short-loops"
    """Each module or optimizer took too few steps, and another one followed."""
    KILLED = "killed"
    """A process ended without Python's own end."""
    OWN_CAPTURE = "own-capture"
    """The program calls tracebraid.capture itself."""
    WINDOW_LOST = "window-lost"
    """Windows were given up: another profiler, a full disk."""
    REFUSED = "refused"
    """The capture could not begin: the folder, another run's files, the recorder."""


@dataclass(frozen=True)
class ProcessNote:
    """Progress of one process's capture.

    Args:
        pid: its id.
        stage: `python` (it runs), `failed` (it cannot be captured), `watching`, `recording` (steps are counted), or
            `ended`.
        problem: why its capture did not begin, in words; "" where it did.
        lost: why a window was given up; "" where none was.
        own_capture: whether the program captures itself.
        loops: the loops that were seen: `counted_by`, `name`, `training`, `steps`, `followed`.
        optimizers_made: how many optimizers there were.
        compiled: whether torch.compile was at work.
        windows: how many windows were written.
        exception: the type of the exception that ended it; "" where none did.
        started: when the process was started, as the system says it; "" if unknown.
        rank: its rank; None before its first step.
        attempt: how often torchrun had restarted it; None outside of torchrun.
        process: its number among the captured processes of its rank; None before it has one.
        steps_seen: number of steps of the followed loop.
        whole: whether all its windows were written.
        ended_by: how its capture ended: `end`, an exception or a signal; None before.
    """

    pid: int
    stage: str
    problem: str = ""
    lost: str = ""
    own_capture: bool = False
    loops: list[dict[str, Any]] = field(default_factory=list)
    optimizers_made: int = 0
    compiled: bool = False
    windows: int = 0
    exception: str = ""
    started: str = ""
    rank: int | None = None
    attempt: int | None = None
    process: int | None = None
    steps_seen: int = 0
    whole: bool = False
    ended_by: str | None = None


@dataclass(frozen=True)
class CaptureOutcome:
    """Outcome of a captured command.

    Args:
        returncode: its exit code; negative if a signal ended it.
        out_dir: the folder of its traces.
        nothing: the reason if there are no traces; else None.
        detail: evidence of the reason; "" if none.
        notes: the notes of its processes.
    """

    returncode: int
    out_dir: str
    nothing: NothingCaptured | None = None
    detail: str = ""
    notes: tuple[ProcessNote, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """Recording of one rank.

    Args:
        rank: the rank.
        steps: numbers of the steps in its windows, from 0.
        steps_seen: number of steps of its loop.
        counted_by: event that ended a step: `step()`, `optimizer` or `module`.
        loop: the class of that optimizer or module; "" if unknown.
        traced_to_untraced: duration ratio of recorded to unrecorded steps on the host; None if unknown.
        lost: reasons for missing windows.
        loops: all loops that were seen, as `ProcessNote.loops`.
        has_device: whether its process has a device, which may be behind its host.
        folder: the folder of its process, relative to that of the capture; "" of the first process of the rank.
        ended_by: how its capture ended: `end`, an exception or a signal; None if the process was killed since.
        attempt: how often the program was started before.
        counted_to_end: whether `steps_seen` has the steps of the whole program.
        died: how the processes of this rank ended that died before without a whole capture; None: killed.
    """

    rank: int
    steps: tuple[int, ...]
    steps_seen: int
    counted_by: str
    loop: str
    traced_to_untraced: float | None
    lost: tuple[str, ...] = ()
    loops: tuple[dict[str, Any], ...] = ()
    has_device: bool = False
    folder: str = ""
    ended_by: str | None = "end"
    attempt: int = 0
    counted_to_end: bool = True
    died: tuple[str | None, ...] = ()
