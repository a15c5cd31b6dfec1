"""Schedule of recording: the window of each loop step, in the terms of `torch.profiler.schedule`."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from tracebraid.errors import ArgumentError


class Action(Enum):
    """Phase of a step."""

    SKIP = "skip"
    """Not recorded: one of the first steps, which set things up."""
    WAIT = "wait"
    """Not recorded: a steady step."""
    WARMUP = "warmup"
    """The profiler runs; its data is discarded."""
    RECORD = "record"


class Schedule(Struct, frozen=True):
    """Schedule of recorded steps: after `skip_first` steps, `repeat` times `wait`, `warmup`, then `active` steps.

    Args:
        skip_first: steps to leave out at the start (compilation, DDP's new buckets, allocators that grow).
        wait: steps before each warm-up, with which traced steps are compared.
        warmup: steps during which the profiler already runs, so that its own start is not in the trace.
        active: steps to record; they make one window, with one pair of files.
        repeat: number of windows.

    Raises:
        ArgumentError: a count is negative or no whole number, or nothing would ever be recorded.
    """

    skip_first: int = 2
    wait: int = 3
    warmup: int = 2
    active: int = 3
    repeat: int = 1

    def __post_init__(self) -> None:
        for word, least in (("skip_first", 0), ("wait", 0), ("warmup", 0), ("active", 1), ("repeat", 1)):
            value = getattr(self, word)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ArgumentError(f"{word} is a number of steps, not {value!r}")
            if value < least:
                never = ": nothing would ever be recorded" if least else ""
                raise ArgumentError(f"{word} is {value}, and must be {least} or more{never}")

    @property
    def cycle(self) -> int:
        """Steps of a window, with its wait and warm-up."""
        return self.wait + self.warmup + self.active

    @property
    def steps(self) -> int:
        """Steps up to the end of the last window."""
        return self.skip_first + self.repeat * self.cycle

    @property
    def traced(self) -> int:
        """Steps of a window, with its warm-up."""
        return self.warmup + self.active

    @property
    def first_recorded(self) -> int:
        """The first step that is recorded, counted from 0."""
        return self.skip_first + self.wait + self.warmup

    @property
    def steps_needed(self) -> int:
        """Return how many steps a loop must have for the first window to be whole."""
        return self.first_recorded + self.active

    def action(self, step: int) -> Action:
        """Return the phase of a step, counted from 0."""
        if step < self.skip_first:
            return Action.SKIP
        window, position = divmod(step - self.skip_first, self.cycle)
        if window >= self.repeat or position < self.wait:
            return Action.WAIT
        return Action.WARMUP if position < self.wait + self.warmup else Action.RECORD

    def opening(self, step: int) -> int:
        """Return the first step of a step's current or next window, including warm-up."""
        return self.skip_first + self.window(step) * self.cycle + self.wait

    def window(self, step: int) -> int:
        """The window that a step belongs to, counted from 0; after the last one, numbers that never record."""
        return max(0, step - self.skip_first) // self.cycle
