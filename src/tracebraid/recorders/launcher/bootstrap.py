"""Capture the steps of a process that `tracebraid capture` started, once it uses torch."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracebraid.errors import CaptureError, TracebraidError
from tracebraid.recorders.backends.kineto import records_all_threads
from tracebraid.recorders.guard import Guard
from tracebraid.recorders.launcher.first_use import at_end, exception_at_end, is_worker_of_data
from tracebraid.recorders.launcher.loops import Loop
from tracebraid.recorders.launcher.notes import write_note
from tracebraid.recorders.launcher.places import Places
from tracebraid.recorders.launcher.step_watch import StepWatch
from tracebraid.recorders.own_process import getpid
from tracebraid.recorders.session.active import active_capture
from tracebraid.recorders.session.capture import Capture
from tracebraid.recorders.session.place import Place, restarts
from tracebraid.recorders.session.progress import Counted
from tracebraid.recorders.session.settings import Settings

_LOOPS_SHOWN = 16
"""Maximum loops in a manifest, those with the most steps."""


def set_up(settings: str) -> None:
    """Watch this process's steps; the first one opens a capture, the end of the process closes it.

    A process that takes no step leaves no files. Once this has returned, nothing here stops the program: failures
    are reported on standard error.
    """
    process = _Process(Settings.from_json(settings))
    process.watch.start()
    process.note("watching")
    process.end_with_python()


class _Process:
    """The capture of one process, from the end of its first step on."""

    def __init__(self, settings: Settings) -> None:
        of_one_thread = not records_all_threads(settings)
        self.watch = StepWatch(self._on_step, self._on_failure, settings.steps_by, of_one_thread)
        self._places = Places(Path(settings.out_dir))
        self._capture = Capture(
            settings,
            at_end=lambda capture: self.note("ended"),
            warn=self._say,
            is_guest=True,
            take_place=self._take_place,
            wait_for_edge=self.watch.wait_for_backward,
        )
        self._capture.loops = self._loops
        self._capture.further_steps = self._further_steps
        self._place: Place | None = None
        self._loop: Loop | None = None
        self._settled_at: int | None = None
        self._problem = ""
        self._noted: list[dict[str, Any]] = []
        self._own_capture = False
        self._exception = ""
        self._ends: set[int] = set()

    def note(self, stage: str) -> None:
        """Write a note for the launcher."""
        dynamo = sys.modules.get("torch._dynamo.convert_frame")
        write_note(
            stage,
            problem=self._problem,
            lost=next((window["failure"] for window in self._capture.windows if window["failure"]), ""),
            own_capture=self._own_capture or self._capture.has_stopped_for_other,
            loops=self._loops(),
            optimizers_made=self.watch.optimizers_made,
            compiled=bool(getattr(dynamo, "FRAME_COUNTER", 0)),
            windows=sum(bool(window["files"]) for window in self._capture.windows),
            exception=self._exception,
            rank=None if self._loop is None else self._capture.rank,
            attempt=restarts(),
            process=None if self._place is None else self._place.process,
            steps_seen=self._capture.steps_seen,
            whole=self._capture.is_complete,
            ended_by=self._capture.ended_by,
        )

    def end_with_python(self) -> None:
        """Have this process, and not those that it forks, end the capture at its end."""
        self._ends.add(getpid())
        at_end(self._end)

    def _on_step(self, loop: Loop) -> None:
        if is_worker_of_data():
            return
        capture = self._capture
        if self._loop is None:
            self._begin(loop)
        elif loop is not self._loop:
            self._loop = loop
            capture.follow(_counted(loop))
        else:
            capture.step()
        if capture.has_stopped_for_other:
            self.watch.stop()
        if capture.windows != self._noted:
            self._noted = list(capture.windows)
            self.note("recording")
        self.watch.loops.has_all_windows = capture.is_complete
        self._settled_at = loop.steps if capture.is_settled else None
        capture.counts_to_end = not capture.is_settled or self.watch.settle()

    def _begin(self, loop: Loop) -> None:
        """The first step is over: it is step 0, and the next one is the first that could be recorded."""
        self._loop = loop
        self.end_with_python()
        self._own_capture = active_capture() is not None
        try:
            if not self._own_capture:
                self._capture.begin(first_step=1, counted=_counted(loop))
        except TracebraidError as error:
            # The launcher reports it, once for all processes.
            self._problem = str(error)
        if self._own_capture or self._problem:
            self.watch.stop()
        self.note("recording")

    def _take_place(self, rank: int, has_files: bool) -> Place | None:
        try:
            place = self._places.take(rank, has_files)
        except CaptureError as error:
            self._problem = str(error)
            raise
        if place is not None and place is not self._place:
            self._place = place
            # For processes that look for a place: this one may be killed.
            self.note("recording")
        return place

    def _on_failure(self, error: BaseException) -> None:
        """Stop watching, and close the open window, which would record to the end of the process."""
        self._say(f"the capture has ended: {_words(error)}")
        with Guard(self._say_lost):
            if not self._capture.windows:
                self._problem = _words(error)
            self._finish(type(error).__name__)

    def _end(self) -> None:
        if getpid() not in self._ends:
            return
        self._ends.clear()
        with Guard(self._say_lost):
            self._exception = exception_at_end()
            self._finish(self._exception or "end")

    def _finish(self, ended_by: str) -> None:
        self._capture.finish(ended_by)
        self.note("ended")

    def _further_steps(self) -> int:
        """Steps of the followed loop that the capture has not seen, as the watch has settled."""
        return 0 if self._loop is None or self._settled_at is None else self._loop.steps - self._settled_at

    def _loops(self) -> list[dict[str, Any]]:
        return self.watch.loops.summary()[:_LOOPS_SHOWN]

    def _say_lost(self, error: BaseException) -> None:
        self._say(f"what was recorded is lost: {_words(error)}")

    def _say(self, message: str) -> None:
        # Standard error may be missing or closed, as in a daemon.
        with suppress(AttributeError, OSError, ValueError):
            sys.stderr.write(f"tracebraid: process {getpid()}: {message}\n")


def _counted(loop: Loop) -> Counted:
    return Counted(loop.kind.counted_by, loop.name)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
