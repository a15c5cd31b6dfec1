"""In a process that `tracebraid capture` started, once it has imported torch: capture the steps it takes."""

from __future__ import annotations

import atexit
import multiprocessing.util
import os
import sys
from contextlib import suppress

from tracebraid.errors import TracebraidError
from tracebraid.recorders.guard import Guard
from tracebraid.recorders.launcher.step_watch import StepWatch
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.session.capture import Capture
from tracebraid.recorders.session.settings import Settings

__all__ = ["set_up"]


def set_up(settings: str) -> None:
    """Watch this process's steps; the first one opens a capture, the end of the process closes it.

    A process that takes no step leaves nothing behind. Once this has returned, nothing here stops the program: what
    goes wrong is said on standard error.

    Args:
        settings: what `Settings.to_json` gave.

    Raises:
        CaptureError: they are not settings of this version.
        ArgumentError: the schedule makes no sense.
    """
    _Process(Settings.from_json(settings)).watch.start()


class _Process:
    """The capture of one process, from the end of its first step on."""

    def __init__(self, settings: Settings) -> None:
        self.watch = StepWatch(self._on_step, self._on_failure)
        self._capture = Capture(settings, warn=_say)
        self._has_begun = False

    def _on_step(self, counted_by: str) -> None:
        if torch.utils.data.get_worker_info() is not None:
            # A DataLoader's worker, whose transforms may be modules.
            return
        capture = self._capture
        if not self._has_begun:
            self._begin(counted_by)
        elif capture.steps_counted_by != counted_by and not capture.has_begun:
            # The optimizer's first step: the calls of modules before it were no steps.
            capture.steps_counted_by = counted_by
            capture.count_from(1)
        else:
            # What counted before may count no longer: then a window that is open goes on with what does.
            capture.steps_counted_by = counted_by
            capture.step()

    def _begin(self, counted_by: str) -> None:
        """The first step is over: it is step 0, and the next one is the first that could be recorded."""
        self._has_begun = True
        self._capture.steps_counted_by = counted_by
        try:
            self._capture.begin(first_step=1)
        except TracebraidError as error:
            _say(str(error))
            self.watch.stop()
            return
        atexit.register(self._end)
        if multiprocessing.parent_process() is not None:
            # A process of multiprocessing may end without running what atexit has.
            multiprocessing.util.Finalize(None, self._end, exitpriority=1)

    def _on_failure(self, error: BaseException) -> None:
        """Watch no longer; a window that is open would record to the end of the process."""
        _say(f"the capture has ended: {_words(error)}")
        with Guard(_say_lost):
            self._capture.finish(type(error).__name__)

    def _end(self) -> None:
        with Guard(_say_lost):
            failed = getattr(sys, "last_type", None)
            self._capture.finish(failed.__name__ if failed is not None else "end")


def _say_lost(error: BaseException) -> None:
    _say(f"what was recorded is lost: {_words(error)}")


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _say(message: str) -> None:
    # There may be no standard error, or none any more: a daemon's.
    with suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"tracebraid: process {os.getpid()}: {message}\n")
